"""The description of a kind of optional hardware: the hooks on which it hangs.

Engine, trace, audit and analyses go through the table of descriptions (feature_table.py) and know none of them by
name. Each hook may be left out. What the compiled event loop does for optional hardware is a mechanism of its own that
any may use: a second memory's bus, several buses of one memory, pages (simulator/memory), links of a network.

A description is read wherever a trace is, so its file imports nothing that loads the compiler: hooks import that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from simulator.machine.machine import Machine
from simulator.machine.optional.shape import Shape
from simulator.records.spans import Launched
from simulator.tileprogram.program import U8, TileProgram
from simulator.trace_record import TraceRecord
from simulator.units.cost_table import Spared, Work

if TYPE_CHECKING:
    from simulator.memory.pages import Pages


class Followed:
    """The state of a feature in one simulation, which calls it for each launch on the machine, in order."""

    def spare(self, number: int, launched: Launched, spared: Spared | None, via: U8 | None = None) -> Spared | None:
        """The transfers of the next launch that spare DRAM, beyond those of earlier features of the table. `via` is the
        column of a trace, where a launch that has run is computed again."""
        return spared

    def ask(self, number: int, program: TileProgram, asked: Work) -> Work:
        """The work of the next launch, with what it asks of this hardware."""
        return asked

    def pages(self) -> Pages | None:
        """The pages by which addresses of this launch are translated, if they are."""
        return None


@dataclass(frozen=True, slots=True)
class SecondMemory:
    """A memory with one bus beside DRAM: memory/bus.py."""

    name: str
    bytes_per_cycle: Fraction
    """0 where a machine has none."""
    latency_cycles: int


@dataclass(frozen=True, slots=True)
class Spends:
    """The counts of a feature in a table of energy: see analysis/energy.py."""

    unit: str
    kind: str
    figure: str
    """The figure of the machine that it is counted in."""
    totals: tuple[str, ...]
    """Those of `spans.TOTALS` that are counted."""


@dataclass(frozen=True, slots=True)
class Audited:
    """A trace whose invariants are checked, and what they are checked against."""

    trace: TraceRecord
    works: Callable[[], Iterator[tuple[Work, Pages | None] | None]]
    """The work of each launch, computed again, and its pages; None for a step on the host."""
    links: Sequence[Mapping[str, str | int | float]]
    """The links of the network: `stalls.links_of`."""
    unfinished: int
    """Bytes that the whole memory may still have to move when a launch is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A kind of optional hardware."""

    name: str
    shape: Shape | None = None
    """The half of the description that machines read themselves."""
    keyword: str = ""
    """The argument of `simulate` that says what is asked of it beside launches, and its key in `TraceRecord.asked`."""
    check: Callable[[Sequence[Any], Machine, int], None] = lambda asked, machine, launches: None
    """Raises for what cannot be asked of a machine, in so many launches."""
    follow: Callable[[Machine, Sequence[Any]], Followed] | None = None
    """Begins a simulation, with what was asked."""
    second_memory: Callable[[Machine], SecondMemory] | None = None
    """The second memory, which serves what `Followed.spare` says. One feature can have it."""
    spends: tuple[Spends, ...] = ()
    violations: Callable[[Audited], Iterator[str]] = lambda audited: iter(())
    """Invariants of a trace."""
