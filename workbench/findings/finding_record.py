"""What a rule says: where cycles are at stake, why, which spans show it, and what to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to try: options of `with_`, or a line of the person's own that only they can change."""

    call: str
    """As one would write it: `j.with_(resident="auto")`."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """What `with_` is given; nothing where `change` is meant."""
    machine: Mapping[str, float] = field(default_factory=dict[str, float])
    """Figures of the machine that are replaced; `options` are then those that stand beside it."""
    keeps_tiles: bool = False
    """Beside `machine`: every kernel stays tiled as it is. Else tilings are chosen anew for the changed machine."""
    change: str = ""
    """A change of the traced function itself, by its name: see `source_changes.py`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule has found."""

    kernel: str
    """Name of the scheduled kernel; empty where it is the whole program."""
    cycles: int
    """At stake: what would be gained if what is wrong were gone altogether."""
    reason: str
    """One plain sentence with its numbers."""
    spans: tuple[int, ...] = ()
    """Rows of `events` that show it."""
    nodes: tuple[str, ...] = ()
    """Nodes, as they were captured or lowered, where it is about other ones than the kernel's."""
    remedy: Remedy | None = None
    predicted: int | None = None
    """Cycles that the remedy saves; None where the same program on the changed machine is to say so."""
    rule: str = field(default="", compare=False)
    """Its name; whoever runs the rule puts it in."""
