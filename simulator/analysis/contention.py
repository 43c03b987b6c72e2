"""Waits for the memory while it serves other transfers, divided into waits for needed bytes and for wasted bytes.

A memory moves whole requests. A run that is shorter than a request, or lies across the border of two, makes the memory
move more bytes than the transfer needs. So waits while others use the memory are divided by the bytes that the memory
moved meanwhile:

    memory_peak               the part of needed bytes: the memory is at its peak, and only fewer bytes would shorten
                              the wait
    inefficient_transfers     the rest: longer runs would shorten the wait

There are two such waits. The first is before a transfer that could not begin because the memory was in use
(`Cause.BANDWIDTH`, with simple memory): the part of the unit's idle time in which the memory was busy. In the rest of
this idle time the memory was idle too, so the rest counts as the cause that was met next to last. The second wait is
within a transfer, while the data of others moved (`Wait.MEMORY_BUS`, with banks or several buses).

A transfer is assumed to move its bytes evenly: on the single bus of a simple memory during its turn on the bus, else
from its first request to its last byte.

Other losses of a banked memory (rows, bank groups, turnarounds, refreshes) are waits of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.records.spans import Cause, Wait
from simulator.tileprogram.program import I64
from simulator.trace_record import TraceRecord

F64 = npt.NDArray[np.float64]

MEMORY_PEAK, INEFFICIENT = "memory_peak", "inefficient_transfers"


@dataclass(frozen=True, slots=True)
class Waited:
    """For each span, the cycles that its unit waited for other transfers."""

    before: I64
    """Cycles of waiting before the span began."""
    wasted_before: I64
    """The cycles of `before` in which wasted bytes moved."""
    cause: I64
    """The cause of the rest of the idle time before the span."""
    within: I64
    """Cycles of waiting within the span; `wasted_within` are those in which wasted bytes moved."""
    wasted_within: I64


def waited(trace: TraceRecord) -> Waited:
    """Computes the waits for other transfers, as the module's docstring explains."""
    moved = _Moved(trace)
    before, wasted, cause = np.zeros(len(trace), np.int64), np.zeros(len(trace), np.int64), trace.cause.astype(np.int64)
    rows = np.flatnonzero(trace.cause == Cause.BANDWIDTH)
    idle, others = idle_before(trace)[rows], trace.met[rows]
    others[:, Cause.BANDWIDTH] = -1
    cause[rows] = len(Cause) - 1 - np.argmax(others[:, ::-1], axis=1)
    all_bytes, asked = moved.between(trace.start[rows] - idle, trace.start[rows])
    rate = float(trace.machine.bus_bytes_per_cycle)
    before[rows] = np.minimum(np.rint(all_bytes / rate), idle)
    wasted[rows] = before[rows] - np.minimum(np.rint(asked / rate), before[rows])

    within, in_vain = np.zeros(len(trace), np.int64), np.zeros(len(trace), np.int64)
    if len(trace.waits):
        within += trace.waits[:, Wait.MEMORY_BUS]
    rows = np.flatnonzero(within)
    in_vain[rows] = within[rows] - np.rint(within[rows] * moved.wanted_beside(rows))
    return Waited(before, wasted, cause, within, in_vain)


def idle_before(trace: TraceRecord) -> I64:
    """For each span, the idle cycles of its unit directly before it, within its launch."""
    before = previous(trace)
    return trace.start - np.where(before >= 0, trace.end[before], trace.begins[trace.launch])


def previous(trace: TraceRecord) -> I64:
    """For each span, the span before it on the same unit and in the same launch, -1 for none."""
    order = np.lexsort((trace.start, trace.unit, trace.launch))
    before = np.full(len(trace), -1, np.int64)
    later, earlier = order[1:], order[:-1]
    same = (trace.unit[later] == trace.unit[earlier]) & (trace.launch[later] == trace.launch[earlier])
    before[later[same]] = earlier[same]
    return before


class _Moved:
    """The bytes that the memory moved over time, and the needed bytes among these."""

    def __init__(self, trace: TraceRecord) -> None:
        self.trace, machine = trace, trace.machine
        rows = np.flatnonzero(trace.requested > 0)
        begin, takes = trace.start[rows].astype(np.float64), np.maximum(trace.phase - trace.start, 1)[rows]
        if machine.dram.kind == "simple" and machine.memory_parts == 1:
            order = np.lexsort((trace.met[rows, Cause.BANDWIDTH], trace.start[rows]))
            rows, begin = rows[order], begin[order]
            takes = trace.requested[rows] / float(machine.bus_bytes_per_cycle)
            before = np.cumsum(takes) - takes
            begin = before + np.maximum.accumulate(begin - before)
        self.times, place = np.unique(np.concatenate([begin, begin + takes]), return_inverse=True)
        self.moved, self.asked = (
            self._so_far(place.astype(np.int64), column[rows] / takes) for column in (trace.requested, trace.bytes)
        )

    def _so_far(self, place: I64, pace: F64) -> F64:
        """Bytes moved until each of `times`, if each transfer moves `pace` bytes per cycle from begin to end."""
        change = np.bincount(place, np.concatenate([pace, -pace]), len(self.times))
        pieces = np.cumsum(change)[:-1] * np.diff(self.times)
        return np.concatenate([np.zeros(1), np.cumsum(pieces)])

    def between(self, begin: I64, end: I64) -> tuple[F64, F64]:
        """Bytes that moved from cycle `begin` to cycle `end`, and the needed bytes among these."""
        if not len(self.times):
            return np.zeros(len(begin)), np.zeros(len(begin))
        moved, asked = (
            np.interp(end, self.times, column) - np.interp(begin, self.times, column)
            for column in (self.moved, self.asked)
        )
        return moved, asked

    def wanted_beside(self, rows: I64) -> F64:
        """The needed part of the other transfers' bytes that moved while each of these transfers was in flight.

        If none moved then, the needed part of all other bytes before: a banked memory still writes out its queue. If
        there were none before either, the needed part of the transfer's own bytes, which may wait for one another.
        """
        trace = self.trace
        own_moved, own_asked = trace.requested[rows], trace.bytes[rows]
        moved, asked = self.between(trace.start[rows], trace.end[rows])
        all_moved, all_asked = self.between(np.zeros_like(rows), trace.end[rows])
        choices = [(moved - own_moved, asked - own_asked), (all_moved - own_moved, all_asked - own_asked)]
        known = [others >= 1 for others, _ in choices]
        moved = np.select(known, [others for others, _ in choices], own_moved)
        asked = np.select(known, [wanted for _, wanted in choices], own_asked)
        return np.where(moved >= 1, np.minimum(asked / np.maximum(moved, 1), 1), 1)
