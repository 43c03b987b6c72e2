"""The slack of each instruction: the cycles by which it could have been later without a later end of the run.

A launch's events are the issue of each instruction, the moment it leaves its queue, and its start; for a matmul the
last two differ: it leaves when its weights go in, and starts with its first streamed row. Each constraint of the engine
is an edge between two events; its room is the number of cycles from the moment at which it was met to the moment at
which it was needed. The slack of an event is the least sum of rooms on any way from it to the end of its launch. Since
launches run one after another, a later end of the launch is a later end of the run.

The slack is valid with all else unchanged: the order on units and buses, the chosen queues, and the cycles of each
instruction. A transfer in banked memory, over links or on several buses is assumed to last as long as it did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.analysis.contention import previous
from simulator.compiled import compiled
from simulator.errors import SimulatorError
from simulator.machine.machine import Machine
from simulator.memory.several_buses import buses, waited_for
from simulator.optional.simulation import works
from simulator.records.spans import Cause
from simulator.tileprogram.program import I64, DependenceKind
from simulator.trace_record import TraceRecord
from simulator.units.cost_table import MEET, Work
from simulator.units.unit import KEEPS, MEETS
from simulator.units.unit_table import UNITS

Edges = tuple[I64, I64, I64]
"""Columns of edges: from which event, to which event, and the room between."""


def slack_of(trace: TraceRecord) -> I64:
    """For each span, the cycles by which it could have started later without a longer makespan."""
    trace.check_has_programs("which its slack follows from")
    found, before = np.zeros(len(trace), np.int64), previous(trace)
    for rows, asked in zip(trace.rows_by_launch, works(trace), strict=True):
        if asked is not None and rows.start < rows.stop:  # a step on the host has no slack
            found[rows] = _Launch(trace, rows, before[rows], asked).slack()
    return found


@dataclass(frozen=True, eq=False)
class Dependences:
    """Dependences between spans, as rows of the trace, sorted by the waiting (`later`) span."""

    later: I64
    earlier: I64
    kind: I64
    """A `DependenceKind`; `cost_table.MEET` if a BARRIER waits for the others of its meeting."""
    room: I64
    """Cycles from the moment at which the dependence was met to the moment at which it had to be met."""


def dependences(trace: TraceRecord) -> Dependences:
    """Every dependence of every launch, with its room; dependences without room determine the later span's start."""
    trace.check_has_programs("which its dependences follow from")
    parts, before = list[tuple[I64, I64, I64, I64]](), previous(trace)
    for rows, asked in zip(trace.rows_by_launch, works(trace), strict=True):
        if rows.start < rows.stop:
            later, earlier, kind, room = (
                _of_host(trace, rows) if asked is None else _Launch(trace, rows, before[rows], asked).dependences()
            )
            parts.append((later + rows.start, earlier + rows.start, kind, room))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0, np.int64)] * 4
    return Dependences(*columns)


def _of_host(trace: TraceRecord, rows: slice) -> tuple[I64, I64, I64, I64]:
    """The dependences of a step on the host: the work follows the way there, and the way back follows the work."""
    later: I64 = np.arange(1, rows.stop - rows.start, dtype=np.int64)
    room = trace.start[rows][1:] - trace.done[rows][:-1]
    return later, later - 1, np.full(len(later), DependenceKind.READ_AFTER_WRITE), room


def _in_order(room: I64) -> None:
    if room.min(initial=0) < 0:
        raise SimulatorError(f"an event came {-room.min()} cycles before what it waited for")


class _Launch:
    """The events of one launch: i is the issue of instruction i, N + i its start, `leaves[i]` its leaving its queue."""

    def __init__(self, trace: TraceRecord, rows: slice, before: I64, asked: Work) -> None:
        self.machine: Machine = trace.machine
        self.asked, self.table = asked, asked.table
        self.count = len(asked.table.kind)
        self.issue, self.met, self.unit = trace.issue[rows], trace.met[rows], trace.unit[rows]
        self.end, self.done = trace.end[rows], trace.done[rows]
        self.streams = np.isin(self.table.kind, [place for place, unit in enumerate(UNITS) if unit.streams])
        self.start = np.where(self.streams, trace.phase[rows], trace.start[rows])
        rank = np.arange(self.count)
        self.starts = self.count + rank
        self.leaves = np.where(self.streams, 2 * self.count + rank, self.starts)
        self.left = self.start.copy()  # of matmuls, set by `_weights_in`
        order = np.lexsort((rank, trace.start[rows], self.unit))
        self.before = np.where(before < 0, -1, before - rows.start)  # the instruction before each on its unit
        self.shadow = _so_far(self.end - self.table.last, order, self.unit)
        chain = self.table.chain
        self.goes_on = (self.table.mark == KEEPS) & (chain >= 0) & (chain == self.before)

    def dependences(self) -> tuple[I64, I64, I64, I64]:
        """Columns of dependences: later instruction, earlier instruction, kind, room."""
        self.left[self.streams] = self._weights_in()[self.streams]
        later, earlier, kind, chained, met = self._dependences()
        room = np.where(chained, self.start[later], self.left[later]) - met
        _in_order(room)
        return later, earlier, kind, room

    def slack(self) -> I64:
        self.left[self.streams] = self._weights_in()[self.streams]
        edges = [*self._own(), *self._waited(), *self._on_units(), *self._on_buses(), *self._issued()]
        source, target, room = (np.concatenate(parts) for parts in zip(*edges, strict=True))
        _in_order(room)
        left = np.full(3 * self.count, _ENDLESS)
        left[self.starts] = self.done.max() - self.done
        order = np.argsort(source, kind="stable")
        first = np.searchsorted(source[order], np.arange(3 * self.count + 1))
        waits = np.bincount(target, minlength=3 * self.count)
        _relax(first, target[order], room[order], waits, left, np.zeros_like(left))
        return left[self.starts]

    def _dependences(self) -> tuple[I64, I64, I64, npt.NDArray[np.bool_], I64]:
        """Columns of dependences: later instruction, earlier instruction, kind, if within a chain, cycle it was met."""
        asked = self.asked
        later = np.repeat(np.arange(self.count), np.diff(asked.dependence_start))
        earlier, kind = asked.dependence.astype(np.int64), asked.dependence_kind.astype(np.int64)
        chained = (kind == DependenceKind.ACCUMULATE) & (self.table.chain[later] == earlier)
        released = chained | (kind == DependenceKind.WRITE_AFTER_READ)
        met = np.where(kind == MEET, self.issue[earlier], np.where(released, self.end[earlier], self.done[earlier]))
        return later, earlier, kind, chained, met

    def _weights_in(self) -> I64:
        """For each matmul, the cycle in which its preload began: when the last of its constraints was met."""
        began = self.issue.copy()
        later, _, _, chained, met = self._dependences()
        np.maximum.at(began, later[~chained], met[~chained])
        behind = np.flatnonzero(self.streams & (self.before >= 0))
        began[behind] = np.maximum(began[behind], self._room_from(behind))
        return began

    def _room_from(self, rows: I64) -> I64:
        """For each of these matmuls, the cycle in which its array had room for its weights, or for its rows if it
        continues the array's sum."""
        before = self.before[rows]
        return np.where(self.goes_on[rows], self.end[before], self.shadow[before])

    def _own(self) -> Iterator[Edges]:
        """Edges within instructions: each leaves its queue after its issue, a matmul starts when its weights are in."""
        yield np.arange(self.count), self.leaves, self.left - self.issue
        rows = np.flatnonzero(self.streams)
        preload = np.where(self.goes_on, 0, self.table.preload)[rows]
        yield self.leaves[rows], self.starts[rows], self.start[rows] - preload - self.left[rows]

    def _waited(self) -> Iterator[Edges]:
        later, earlier, kind, chained, met = self._dependences()
        event = np.where(kind == MEET, earlier, self.starts[earlier])
        waits = np.where(chained, self.starts[later], self.leaves[later])
        yield event, waits, np.where(chained, self.start[later], self.left[later]) - met

    def _on_units(self) -> Iterator[Edges]:
        rows = np.flatnonzero(self.before >= 0)
        before = self.before[rows]
        yield self.starts[before], self.starts[rows], self.start[rows] - self.end[before]
        rows = rows[self.streams[rows]]
        before = self.before[rows]
        yield self.starts[before], self.leaves[rows], self.left[rows] - self._room_from(rows)
        depth = self.machine.core.queue_depth
        order = np.lexsort((self.start, self.issue, self.unit))  # leaving a queue frees a place there
        full = np.flatnonzero(self.unit[order][depth:] == self.unit[order][:-depth])
        behind, ahead = order[depth:][full], order[:-depth][full]
        yield self.leaves[ahead], behind, self.issue[behind] - self.left[ahead]

    def _on_buses(self) -> Iterator[Edges]:
        for asked, cause in ((self.table.requested, Cause.BANDWIDTH), (self.table.second, Cause.SECOND_MEMORY)):
            met = self.met[:, cause]
            users = np.flatnonzero(asked > 0)
            users = users[np.lexsort((users, met[users], self.start[users]))]
            later, earlier = users[1:], users[:-1]
            lines = buses(self.machine) if cause == Cause.BANDWIDTH else None
            if lines is not None and len(users):
                of_all = np.zeros_like(users)
                waited_for(lines._replace(asked=self.asked.by_part), users, self.start, of_all)
                later, earlier = users[of_all >= 0], of_all[of_all >= 0]
            known = met[later] >= 0
            later, earlier = later[known], earlier[known]
            yield self.starts[earlier], self.starts[later], self.start[later] - met[later]

    def _issued(self) -> Iterator[Edges]:
        """Edges of issue: in the core's order, the issue interval apart, within the window, and not across a
        BARRIER."""
        core, meets = self.table.core, self.table.mark == MEETS
        order = np.argsort(core, kind="stable")
        together = np.flatnonzero(core[order][1:] == core[order][:-1])
        later, earlier = order[1:][together], order[:-1][together]
        yield earlier, later, self.issue[later] - self.issue[earlier] - self.machine.core.issue_interval_cycles
        after = meets[earlier]
        yield self.starts[earlier[after]], later[after], self.issue[later[after]] - self.done[earlier[after]]
        window = self.machine.core.issue_window
        inside = np.flatnonzero(core[order][window:] == core[order][:-window])
        later, earlier = order[window:][inside], order[:-window][inside]
        yield self.starts[earlier], later, self.issue[later] - self.done[earlier]
        places = np.flatnonzero(meets[order])
        following = np.searchsorted(places, np.arange(self.count), side="right")  # the next BARRIER in that order
        found = np.flatnonzero(following < len(places))
        later, earlier = order[places[following[found]]], order[found]
        mine = core[later] == core[earlier]
        later, earlier = later[mine], earlier[mine]
        yield self.starts[earlier], later, self.issue[later] - self.done[earlier]


def _so_far(times: I64, order: I64, unit: npt.NDArray[np.int32]) -> I64:
    """For each instruction, the latest of its time and earlier times on its unit; `order` sorts by unit, then time."""
    latest = times.copy()
    for rows in np.split(order, np.flatnonzero(np.diff(unit[order])) + 1):
        latest[rows] = np.maximum.accumulate(times[rows])
    return latest


_ENDLESS = np.int64(1) << 62


@compiled
def _relax(first: I64, target: I64, room: I64, waits: I64, left: I64, order: I64) -> None:
    """Computes what is left for every event, in `left`: sorts events topologically, then goes back from the last."""
    known = 0
    for event in range(len(left)):
        if waits[event] == 0:
            order[known] = event
            known += 1
    taken = 0
    while taken < known:
        event = order[taken]
        taken += 1
        for edge in range(first[event], first[event + 1]):
            waits[target[edge]] -= 1
            if waits[target[edge]] == 0:
                order[known] = target[edge]
                known += 1
    for place in range(known - 1, -1, -1):
        event = order[place]
        for edge in range(first[event], first[event + 1]):
            left[event] = min(left[event], left[target[edge]] + room[edge])
