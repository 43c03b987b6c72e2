"""The state of the event loop: a machine, its units, the issue stage of each core, a launch."""

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

# How the loop returns
OVER, PAUSED, STUCK = 0, 1, 2


class LoopWork(NamedTuple):
    """A program's work for the machine: a row of costs for each instruction, and its dependences, edge by edge."""

    table: CostTable
    wait_start: I64
    wait: I32
    wait_kind: U8


class Figures(NamedTuple):
    """The figures of the machine that the loop reads."""

    depth: int
    """Instructions that wait in front of one unit."""
    window: int
    interval: int
    cores: int
    units: int
    """Units of a core."""
    asking: int
    """Units of a core that access the memory."""


class Kinds(NamedTuple):
    """Columns with an entry for each kind of unit: see `units.unit.Unit`."""

    first: I64
    """The kind's first unit among a core's units."""
    number: I64
    """Units of the kind that a core has."""
    selection: I64
    streams: npt.NDArray[np.bool_]
    source: I64
    """For each unit of a core: its place among those that access the memory, -1 if it does not."""
    asker: I64
    """The unit at each such place."""


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
    """The instructions queued in front of it: a ring that begins at `head`."""
    head: I64
    standing: I64
    free: I64
    latest: I64
    """The instruction that it took last, -1 for none."""
    ready: I64
    """When the head of its queue could start, -1 while not known."""
    shadow: I64
    """For an array: when it has room to preload the next tile while it streams."""
    backlog: I64
    """Cycles of the instructions queued in front of it."""


class IssueStages(NamedTuple):
    """Columns with an entry for each core. Instructions are counted in the core's own order, from `base` on."""

    next: I64
    time: I64
    blocked: I64
    """1 while no queue has room for the next instruction."""
    freed: I64
    freed_by: I64
    """When a place in a queue was last freed, and by which instruction."""
    retired: I64
    base: I64
    length: I64
    turn: I64
    """For each kind of unit: whose turn it is."""


class Shared(NamedTuple):
    """State that a launch has once, each an array of one."""

    bus_user: I64
    """The instruction that held the memory's bus last, -1 for none."""
    second_user: I64
    """The one that held the second memory's bus last."""
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
    """Instructions core by core."""
    place: I32
    """An instruction's place in its core's order."""
    retired: I32
    """For each instruction, the one of its core that is complete last, up to and including it in the core's order."""
    spans: SpanTable
    met: I64
    """When each constraint was met: N x `Cause`."""
    by: I64
    """By which instruction each was met, for the instruction being started."""
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
    """A launch of which nothing has been issued."""
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
