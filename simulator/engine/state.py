"""The state of the event loop: the machine's figures, its units, the issue stage of each core, and a launch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.memory.bus import Bus
from simulator.memory.dram import MemoryFigures, MemoryState
from simulator.records.spans import SpanTable
from simulator.tileprogram.program import I32, I64, U8, TileProgram
from simulator.units.cost_table import CostTable
from simulator.units.unit_table import OF_A_CORE, counts

NEVER = 1 << 62
MOST_WAITED = (1 << 31) - 1

# The results of the loop
OVER, PAUSED, STUCK = 0, 1, 2


class LoopWork(NamedTuple):
    """A program's work: a row of costs for each instruction, and the dependences as CSR (`wait_start`, `wait`)."""

    table: CostTable
    wait_start: I64
    wait: I32
    wait_kind: U8


class Figures(NamedTuple):
    """The figures of the machine that the loop reads."""

    depth: int
    """The most instructions that wait in front of one unit."""
    window: int
    interval: int
    cores: int
    units: int
    """Units of a core."""
    asking: int
    """Units of a core that access the memory."""


class Kinds(NamedTuple):
    """Columns with an entry for each kind of unit, except the last two: see `units.unit.Unit`."""

    first: I64
    """The kind's first unit among a core's units."""
    number: I64
    """Units of the kind that a core has."""
    selection: I64
    streams: npt.NDArray[np.bool_]
    source: I64
    """For each unit of a core: its place among the units that access the memory, -1 if it does not."""
    asker: I64
    """For each place among the units that access the memory: the unit."""


class Parts(NamedTuple):
    """The parts of every machine: the figures that the loop reads, its units, and the state of its memories."""

    figures: Figures
    kinds: Kinds
    memory: MemoryFigures
    memory_state: MemoryState
    bus: Bus
    second: Bus


class UnitStates(NamedTuple):
    """Columns with an entry for each unit of all cores."""

    queue: I64
    """The instructions queued in front of the unit: a ring that begins at `head`."""
    head: I64
    standing: I64
    free: I64
    latest: I64
    """The instruction that the unit took last, -1 for none."""
    ready: I64
    """The cycle in which the head of its queue can start, -1 while not known."""
    shadow: I64
    """For an array: the cycle from which it has room to preload the next tile while it streams."""
    backlog: I64
    """Cycles of the instructions queued in front of the unit."""


class IssueStages(NamedTuple):
    """Columns with an entry for each core. Instructions are counted in the core's own order, from `base` on."""

    next: I64
    time: I64
    blocked: I64
    """1 while no queue has room for the next instruction."""
    freed: I64
    freed_by: I64
    """The cycle in which a place in a queue was last freed, and (`freed_by`) the instruction that left it."""
    retired: I64
    base: I64
    length: I64
    turn: I64
    """For each kind of unit: the unit whose turn it is, counted within the kind."""


class Shared(NamedTuple):
    """The state that all cores of a launch share, each value an array of one."""

    bus_user: I64
    """The instruction that held the memory's bus last, -1 for none."""
    second_user: I64
    """The instruction that held the second memory's bus last, -1 for none."""
    running: I64
    """Transfers in flight in banked memory."""
    begin: I64
    started: I64


class Launch(NamedTuple):
    """A launch under way: the state of its units and issue stages, their shared state, and its spans so far."""

    units: UnitStates
    stages: IssueStages
    shared: Shared
    order: I32
    """The instructions core by core, each core's in program order."""
    place: I32
    """An instruction's place in its core's order."""
    retired: I32
    """For each place in `order`: the instruction of its core, up to this place, that is complete last."""
    spans: SpanTable
    met: I64
    """N x `Cause`: the cycle in which each constraint was met."""
    by: I64
    """By `Cause`: the instruction that met each constraint, for the instruction that is being started."""
    waits: I32
    """Cycles that an instruction waits while it holds its unit: see `spans.Wait`."""


def figures_of(machine: Machine) -> Figures:
    kinds = kinds_of(machine)
    return Figures(
        machine.core.queue_depth,
        machine.core.issue_window,
        machine.core.issue_interval_cycles,
        machine.core.count,
        len(kinds.source),
        len(kinds.asker),
    )


def kinds_of(machine: Machine) -> Kinds:
    count = np.array(counts(machine), np.int64)
    asks = np.repeat([unit.asks_memory for unit in OF_A_CORE], count)
    return Kinds(
        first=np.cumsum(count) - count,
        number=count,
        selection=np.array([unit.selection(machine) for unit in OF_A_CORE], np.int64),
        streams=np.array([unit.streams for unit in OF_A_CORE], np.bool_),
        source=np.where(asks, np.cumsum(asks) - 1, -1),
        asker=np.flatnonzero(asks).astype(np.int64),
    )


def about_to_begin(program: TileProgram, parts: Parts, spans: SpanTable, met: I64, waits: I32, begin: int) -> Launch:
    """A launch in which no instruction has been issued yet."""
    rows, cores, units = len(program), parts.figures.cores, parts.figures.cores * parts.figures.units
    order = np.argsort(program.core, kind="stable").astype(np.int32)
    length = np.bincount(program.core, minlength=cores).astype(np.int64)
    base = np.cumsum(length) - length
    place = np.zeros(rows, np.int32)
    place[order] = np.arange(rows) - base[program.core[order]]
    return Launch(
        UnitStates(
            queue=np.zeros((units, parts.figures.depth), np.int64),
            **{name: _all(units, -1) for name in ("free", "latest", "ready")},
            **{name: _all(units, 0) for name in ("head", "standing", "shadow", "backlog")},
        ),
        IssueStages(
            time=_all(cores, begin),
            base=base,
            length=length,
            turn=np.zeros((cores, len(OF_A_CORE)), np.int64),
            **{name: _all(cores, -1) for name in ("freed", "freed_by")},
            **{name: _all(cores, 0) for name in ("next", "blocked", "retired")},
        ),
        Shared(_all(1, -1), _all(1, -1), _all(1, 0), _all(1, begin), _all(1, 0)),
        order=order,
        place=place,
        retired=np.zeros(rows, np.int32),
        spans=spans,
        met=met,
        by=np.zeros(met.shape[1], np.int64),
        waits=waits,
    )


def _all(length: int, value: int) -> I64:
    return np.full(length, value, np.int64)
