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
    """A journey that was compiled and simulated with a remedy."""

    @property
    def simulated(self) -> Simulated: ...

    @property
    def findings(self) -> Any:
        """A `Findings`."""
        ...


@dataclass(frozen=True)
class Trials:
    """The parts of a journey that its findings use: its cycles, the cycles with a remedy, and the texts of a
    finding."""

    cycles: int
    predict: Callable[[Remedy], int | None]
    """Returns the cycles of the same program on the remedy's machine; None if the remedy changes the program."""
    measure: Callable[[Remedy], int]
    """Returns the cycles of a copy that is compiled and simulated with the remedy."""
    follow: Callable[[Remedy], Followed]
    """Returns a copy of the journey with the remedy."""
    places: Callable[[Finding], tuple[tuple[str, ...], str]]
    """Returns a finding's nodes, and its line of Python."""
    card: Callable[[Finding], Card]
    """Returns a finding's card, with the gain of its remedy as known by now."""
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
