"""Waiting for the memory while it serves others: for bytes that somebody asked for, or for bytes that nobody did.

A memory moves whole requests. A run that is shorter than one, or lies across the border of two, takes the memory for
more bytes than it asks for. So what is waited for while others hold the memory is told apart by what the memory moved
meanwhile:

    memory_peak               the part of the bytes that were asked for: the memory is at its peak, and only fewer bytes
                              would be less to wait for
    inefficient_transfers     the rest: longer runs would be less to wait for

There are two such waits: the cycles before a transfer in which all else that it waited for was there
(`Cause.BANDWIDTH`, with simple memory), and those within it in which the data of others moved (`Wait.MEMORY_BUS`, with
banks or several buses). Before that the unit was idle for what came last of all else: the memory may have been idle
too. The part is that of all transfers that were under way in that time, each as a whole. A transfer is under way from
its first request to its last byte; on the one bus of a simple memory, as long as the bus takes for its requests.

What else keeps a banked memory from its peak (rows, bank groups, turnarounds, refreshes) are waits of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.program import I64
from simulator.spans import Cause, Wait

if TYPE_CHECKING:
    from simulator.trace import Trace

MEMORY_PEAK, INEFFICIENT = "memory_peak", "inefficient_transfers"


@dataclass(frozen=True, slots=True)
class Waited:
    """Of each span, cycles that it waited for others' transfers."""

    before: I64
    """Before it began."""
    cause: I64
    """What the rest of the idle time before it is for."""
    wasted_before: I64
    """Of `before`, for bytes that nobody asked for."""
    within: I64
    """After it began."""
    wasted_within: I64


def waited(trace: Trace) -> Waited:
    """See the module's docstring."""
    held = _Held(trace)
    behind = np.flatnonzero(trace.cause == Cause.BANDWIDTH)
    others, idle = trace.met[behind], idle_before(trace)[behind]
    others[:, Cause.BANDWIDTH] = -1
    before, cause, ready = np.zeros(len(trace), np.int64), trace.cause.astype(np.int64), trace.start.copy()
    ready[behind] = others.max(1)
    before[behind] = np.minimum(trace.start[behind] - ready[behind], idle)
    cause[behind] = len(Cause) - 1 - np.argmax(others[:, ::-1], axis=1)
    within = np.zeros(len(trace), np.int64)
    if len(trace.waits):
        within += trace.waits[:, Wait.MEMORY_BUS]
    wasted_before, wasted_within = np.zeros_like(before), np.zeros_like(within)
    rows = np.flatnonzero(before)
    wasted_before[rows] = np.rint(before[rows] * held.wasted_before(rows, ready[rows]))
    rows = np.flatnonzero(within)
    wasted_within[rows] = np.rint(within[rows] * held.wasted_within(rows))
    return Waited(before, cause, wasted_before, within, wasted_within)


def idle_before(trace: Trace) -> I64:
    """Of each span, the cycles before it in which its unit did nothing, from the begin of its launch on."""
    before = previous(trace)
    return trace.start - np.where(before >= 0, trace.end[before], trace.begins[trace.launch])


def previous(trace: Trace) -> I64:
    """What the unit of each span did before it in the same launch, -1 for nothing."""
    order = np.lexsort((trace.start, trace.unit, trace.launch))
    before = np.full(len(trace), -1, np.int64)
    later, earlier = order[1:], order[:-1]
    same = (trace.unit[later] == trace.unit[earlier]) & (trace.launch[later] == trace.launch[earlier])
    before[later[same]] = earlier[same]
    return before


class _Held:
    """Who held the memory when, and for how many bytes."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        moving = np.flatnonzero(trace.requested > 0)
        end = trace.phase[moving]
        machine = trace.machine
        if machine.memory == "simple" and machine.chiplets == 1:
            rate = machine.bus_bytes_per_cycle
            end = trace.start[moving] - (-trace.requested[moving] * rate.denominator // rate.numerator)
        self.begins = _SoFar(trace, moving, trace.start[moving])
        self.ends = _SoFar(trace, moving, end)

    def wasted_before(self, rows: I64, ready: I64) -> npt.NDArray[np.float64]:
        """Of the bytes that moved while these could have begun and had to wait, the part that nobody asked for."""
        begun, over = self.begins.before(self.trace.start[rows]), self.ends.before(ready + 1)
        moved, asked = (now - then for now, then in zip(begun, over, strict=True))
        return _wasted(moved, asked)

    def wasted_within(self, rows: I64) -> npt.NDArray[np.float64]:
        """Likewise of the others' bytes while these were under way themselves."""
        trace = self.trace
        moved, asked = self.begins.before(trace.end[rows])
        moved, asked = moved - trace.requested[rows], asked - trace.bytes[rows]
        moved_then, asked_then = self.ends.before(trace.start[rows] + 1)
        meanwhile = moved > moved_then  # else it is what a banked memory writes after its transfer is over
        return _wasted(moved - meanwhile * moved_then, asked - meanwhile * asked_then)


class _SoFar:
    """Bytes of all transfers whose moments lie before a cycle: moved, and of these asked for."""

    def __init__(self, trace: Trace, moving: I64, moments: I64) -> None:
        order = np.argsort(moments, kind="stable")
        self.moments = moments[order]
        nothing = np.zeros(1, np.int64)
        self.moved = np.concatenate([nothing, np.cumsum(trace.requested[moving][order])])
        self.asked = np.concatenate([nothing, np.cumsum(trace.bytes[moving][order])])

    def before(self, cycles: I64) -> tuple[I64, I64]:
        count = np.searchsorted(self.moments, cycles)
        return self.moved[count], self.asked[count]


def _wasted(moved: I64, asked: I64) -> npt.NDArray[np.float64]:
    return np.where(moved > asked, 1 - asked / np.maximum(moved, 1), 0)
