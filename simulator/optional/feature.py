"""The description of a kind of optional hardware: the hooks that the simulator calls for it.

Engine, trace, audit and analyses go through the table of descriptions (feature_table.py) and know no feature by name.
Each hook may be left out. For optional hardware the compiled event loop has general mechanisms, which any feature may
use: a second memory's bus, several buses of one memory, pages (simulator/memory), links of a network.

Reading a trace loads all descriptions, so the file of a description imports no module that loads the compiler; hooks
may import such modules when they are called.
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
    """The state of a feature in one simulation, which calls these methods for each launch of a program, in order."""

    def spare(self, number: int, launched: Launched, spared: Spared | None, via: U8 | None = None) -> Spared | None:
        """Adds this feature's instructions that spare DRAM in the next launch to `spared`, those of earlier features.

        `via` is the column of the trace, if the work of a launch that has run is computed again.
        """
        return spared

    def ask(self, number: int, program: TileProgram, asked: Work) -> Work:
        """Returns the work of the next launch, with the columns added that this hardware needs."""
        return asked

    def pages(self) -> Pages | None:
        """The pages that translate the addresses of this launch; None if they are not translated."""
        return None


@dataclass(frozen=True, slots=True)
class SecondMemory:
    """A memory with one bus beside DRAM: memory/bus.py."""

    name: str
    bytes_per_cycle: Fraction
    """0 if the machine has no second memory."""
    latency_cycles: int


@dataclass(frozen=True, slots=True)
class Spends:
    """A row of a feature in the table of energy: see analysis/energy.py."""

    unit: str
    kind: str
    figure: str
    """The machine's figure with the energy of one `kind`."""
    totals: tuple[str, ...]
    """The names of `spans.TOTALS` whose sum is counted."""


@dataclass(frozen=True, slots=True)
class Audited:
    """A trace whose invariants are checked, and the data to check it against."""

    trace: TraceRecord
    works: Callable[[], Iterator[tuple[Work, Pages | None] | None]]
    """Computes each launch's work again, with its pages; None for a step on the host."""
    links: Sequence[Mapping[str, str | int | float]]
    """The links of the network: `stalls.links_of`."""
    unfinished: int
    """Bytes that the whole memory may still have to move when a launch has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A kind of optional hardware."""

    name: str
    shape: Shape | None = None
    """The hooks for making a machine: simulator/machine/optional/shape.py."""
    keyword: str = ""
    """The name of the feature's argument of `simulate`, which is also its key in `TraceRecord.asked`."""
    check: Callable[[Sequence[Any], Machine, int], None] = lambda asked, machine, launches: None
    """Raises if the machine cannot do what the argument asks, in so many launches."""
    follow: Callable[[Machine, Sequence[Any]], Followed] | None = None
    """Returns the feature's state at the begin of a simulation with these values of the argument."""
    second_memory: Callable[[Machine], SecondMemory] | None = None
    """The second memory, which serves the copies that `Followed.spare` marks. Only one feature can have this hook."""
    spends: tuple[Spends, ...] = ()
    violations: Callable[[Audited], Iterator[str]] = lambda audited: iter(())
    """Yields the violations of the feature's invariants in a trace."""
