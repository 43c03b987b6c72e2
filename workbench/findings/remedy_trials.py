"""What a journey lends its findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.artefacts import Simulated
from workbench.findings.finding_record import Finding, Remedy
from workbench.views.basics.cards import Card


class Followed(Protocol):
    """A journey with everything done anew."""

    @property
    def simulated(self) -> Simulated: ...

    @property
    def findings(self) -> Any:
        """A `Findings`."""
        ...


@dataclass(frozen=True)
class Trials:
    """How long the whole takes, how long it would with a remedy, and how a finding reads."""

    cycles: int
    predict: Callable[[Remedy], int | None]
    """The same program on a changed machine; None where the remedy changes the program."""
    measure: Callable[[Remedy], int]
    """Cycles with everything done anew."""
    follow: Callable[[Remedy], Followed]
    """The journey with everything done anew."""
    places: Callable[[Finding], tuple[tuple[str, ...], str]]
    """The nodes it is about, and the line of Python."""
    card: Callable[[Finding], Card]
    """The finding with what is known of its remedy by now."""
