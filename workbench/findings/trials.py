"""What a journey lends its findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.findings.record import Finding, Remedy
from workbench.views.cards import Card


@dataclass(frozen=True)
class Trials:
    """How long the whole takes, how long it would with a remedy, and how a finding reads."""

    cycles: int
    predict: Callable[[Remedy], int | None]
    """The same program on a changed machine; None where the remedy changes the program."""
    measure: Callable[[Remedy], int]
    """Everything done anew."""
    places: Callable[[Finding], tuple[tuple[str, ...], str]]
    """The nodes it is about, and the line of Python."""
    card: Callable[[Finding], Card]
    """The finding with what is known of its remedy by now."""
