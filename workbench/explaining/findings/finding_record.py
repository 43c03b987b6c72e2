"""A rule's finding: where cycles are at stake, why, which spans show it, and what to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LEAST_SHARE: Final = 0.01
"""The least share of the makespan that is worth a reader's time."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy to try: options of `with_`, or a line of the user's code that only they can change."""

    call: str
    """The call as text: `j.with_(resident="auto")`."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """The options of `with_`; empty for a `change`."""
    machine: Mapping[str, float] = field(default_factory=dict[str, float])
    """The replaced figures of the machine; `options` are then the other options. Without any, every kernel keeps its
    tiling, and the saving is that of the same program: tilings chosen for the changed machine may be better or
    worse."""
    changes_program: bool = False
    """True if, with `machine`, the same program cannot use the changed figures. Tilings are then chosen again, nothing
    is predicted, and `tried()` measures."""
    change: str = ""
    """The name of a change of the traced function itself: see `source_changes.py`."""

    @staticmethod
    def of_machine(**figures: float) -> Remedy:
        """Returns the remedy that runs the same program on the machine with these figures."""
        changed = ", ".join(f"{name}={_digits(value)}" for name, value in figures.items())
        return Remedy(f"j.with_(machine=j.machine.with_({changed}), mapping=j.scheduled.mappings)", machine=figures)

    @property
    def keeps_program(self) -> bool:
        """True if the remedy runs the same program on a changed machine, and changes nothing else."""
        return bool(self.machine) and not (self.change or self.options or self.changes_program)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a rule."""

    kernel: str
    """Name of the scheduled kernel; empty where it is the whole program."""
    cycles: int
    """Cycles at stake: the gain if the cause were removed."""
    reason: str
    """One plain sentence with its numbers."""
    spans: tuple[int, ...] = ()
    """Rows of `events` that show the cause."""
    nodes: tuple[str, ...] = ()
    """Captured or lowered nodes, if other than the kernel's."""
    remedy: Remedy | None = None
    predicted: int | None = None
    """Cycles that the remedy saves, if the rule scheduled and simulated it; else None. The saving on a changed machine
    is then predicted by simulating the same program on it; that of a changed function or layout is not predicted, but
    `tried()` measures it."""
    about: str = ""
    """The part of the machine that the finding is about, one of `simulator.analysis.binding.PARTS`: findings about the
    part that binds the run come first. Empty for several parts."""
    rule: str = field(default="", compare=False)
    """The rule's name, filled in by the search."""


def _digits(value: float) -> str:
    """The figure as Python writes it; a long one with `_` between its thousands."""
    return f"{value:_}" if abs(value) >= 1_000_000 else str(value)
