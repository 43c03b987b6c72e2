"""What the event loop knows: of a machine, its units, the issue stage of each core, a launch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.memory.dram import MemoryFigures, MemoryState
from simulator.records.spans import SpanTable
from simulator.tileprogram.program import I32, I64, U8, TileProgram
from simulator.units.cost_table import CostTable
from simulator.units.unit_table import OF_A_CORE, counts

NEVER = 1 << 62
MOST_WAITED = (1 << 31) - 1

# How the loop comes back
OVER, PAUSED, STUCK = 0, 1, 2


class Asked(NamedTuple):
    """What a program asks of the machine: a row of costs an instruction, and what each waits for, edge by edge."""

    table: CostTable
    wait_start: I64
    wait: I32
    wait_kind: U8


class Figures(NamedTuple):
    """Those of the machine that the loop reads."""

    depth: int
    """Instructions that wait in front of one unit."""
    window: int
    interval: int
    cores: int
    units: int
    """Of a core."""
    asking: int
    """Of them, those that ask the memory for something."""


class Kinds(NamedTuple):
    """Of each kind of unit: see `units.unit.Unit`."""

    first: I64
    """Of a core's units, its first."""
    number: I64
    """How many a core has."""
    selection: I64
    streams: npt.NDArray[np.bool_]
    source: I64
    """Of each unit of a core: its place among those that ask the memory, -1 if it does not."""
    asker: I64
    """The unit at each such place."""


class Parts(NamedTuple):
    """What every machine has: the figures that the loop reads, its units, and the state of its memory."""

    figures: Figures
    kinds: Kinds
    memory: MemoryFigures
    memory_state: MemoryState


class UnitStates(NamedTuple):
    """Of each unit of all cores."""

    queue: I64
    """What stands before it, a ring, which begins at `head`."""
    head: I64
    standing: I64
    free: I64
    latest: I64
    """What it took last, -1 for nothing."""
    ready: I64
    """When the head of its queue could start, -1 while that is not known."""
    shadow: I64
    """Of one that streams: when it has room for what may move in beside what streams."""
    backlog: I64
    """Cycles of what stands before it."""


class IssueStages(NamedTuple):
    """Of each core. Instructions are counted in the core's own order, of which `base` is the first."""

    next: I64
    time: I64
    blocked: I64
    """1 while no queue has room for the next."""
    freed: I64
    freed_by: I64
    """When a place in a queue was free last, and who left it."""
    retired: I64
    base: I64
    length: I64
    turn: I64
    """Of each kind of unit: whose turn it is."""


class Shared(NamedTuple):
    """What a launch has once, each an array of one."""

    bus_user: I64
    """Who was last on the memory's bus, -1 for nobody."""
    common_user: I64
    """And on that of the common memory."""
    running: I64
    """Transfers that run in banked memory."""
    begin: I64
    started: I64


class Launch(NamedTuple):
    """A launch under way: the state of units, issue stages and what they share, and what is known of its spans."""

    units: UnitStates
    stages: IssueStages
    shared: Shared
    order: I32
    """Instructions core by core."""
    place: I32
    """Of an instruction in its core's order."""
    retired: I32
    """Who is complete last of all of a core up to each, in its order."""
    spans: SpanTable
    met: I64
    """When each constraint was met: N x `Cause`."""
    by: I64
    """And by whom, of the instruction that is at hand."""
    waits: I32
    """What an instruction waits for while it holds its unit."""


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
