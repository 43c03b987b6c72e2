"""The parts of a journey that its findings use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from simulator.analysis.binding import Binding
from workbench.explaining.artefacts import Simulated
from workbench.explaining.findings.finding_record import Finding, Remedy
from workbench.ground.basics.cards import Card


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
    """The cycles of the whole, the cycles with a remedy, and the text of a finding."""

    cycles: int
    predict: Callable[[Remedy], int | None]
    """The same program on a changed machine; None where the remedy changes the program."""
    measure: Callable[[Remedy], int]
    """Cycles with everything done anew."""
    follow: Callable[[Remedy], Followed]
    """The journey with everything done anew."""
    places: Callable[[Finding], tuple[tuple[str, ...], str]]
    """The finding's nodes, and its line of Python."""
    card: Callable[[Finding], Card]
    """The finding with its remedy's gain as known by now."""
    binding: Binding
    """The part that binds the run."""

    def gain(self, remedy: Remedy) -> int:
        """Cycles that a remedy saves, measured."""
        return self.cycles - self.measure(remedy)

    def followed(self, remedy: Remedy) -> Followed:
        """The journey with a remedy, simulated."""
        journey = self.follow(remedy)
        _ = journey.simulated
        return journey
