"""The critical path: for each cycle of the makespan, the activity on the path and its instruction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulator.analysis.contention import INEFFICIENT, MEMORY_PEAK, previous, waited
from simulator.errors import SimulatorError
from simulator.optional.feature_table import second_memory
from simulator.records.spans import Cause, Via, Wait
from simulator.tileprogram.program import I64, Opcode
from simulator.trace_record import TraceRecord
from simulator.units.unit_table import DOES


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of the critical path; the next piece begins where it ends."""

    launch: int
    span: int
    """The instruction's row in the trace; -1 before a launch begins."""
    what: str
    begin: int
    end: int

    @property
    def cycles(self) -> int:
        return self.end - self.begin


def critical_path_of(trace: TraceRecord) -> list[Step]:
    """The steps of the critical path from the first cycle to the last, launch by launch.

    The path is found backward from the last completion of each launch. A span is on the path until its successor no
    longer needs it, divided into its activities: a copy into transfer and latency, a matmul into preload, stream and
    drain. If weights went in late because their array was busy, the path goes on with the array's earlier instructions.
    If an instruction was late only because it was issued late, the path goes on through issue.
    """
    intervals, rows_by_launch = trace.kernel_spans, trace.rows_by_launch
    before, wasted, found = previous(trace), waited(trace).wasted_within, list[Step]()
    for index in range(len(intervals) - 1, -1, -1):
        _, begin, now = intervals[index]
        rows = rows_by_launch[index]
        if rows.start < rows.stop:
            last = rows.start + int(np.argmax(trace.done[rows]))
            found += _walk(trace, before, wasted, rows.start, last, now)
        found.append(Step(index, -1, "launch", intervals[index - 1][2] if index else 0, begin))
    return [step for step in reversed(found) if step.cycles]


def waterfall_of(trace: TraceRecord) -> list[tuple[str, int]]:
    """(activity, its cycles on the critical path), most cycles first; all cycles add up to the makespan exactly."""
    cycles: dict[str, int] = {}
    for step in critical_path_of(trace):
        cycles[step.what] = cycles.get(step.what, 0) + step.cycles
    return sorted(cycles.items(), key=lambda pair: (-pair[1], pair[0]))


def _walk(trace: TraceRecord, before: I64, wasted: I64, base: int, span: int, now: int) -> Iterator[Step]:
    """Yields the steps from cycle `now` of a span back to the begin of its launch, whose first span is `base`.

    `before` has the span before each on its unit, `wasted` is `Waited.wasted_within`.
    """
    launch = int(trace.launch[base])
    for _ in range(2 * len(trace) + 2):  # the path meets a span at most twice: while it ran, and at its issue
        if now < trace.start[span]:  # a matmul leaves its queue when its weights go in: its array still streams another
            span = int(before[span])
        yield from reversed([*_parts(trace, int(wasted[span]), span, now)])
        now = int(trace.start[span])
        cause, blocker = int(trace.cause[span]), int(trace.blocker[span])
        while cause <= Cause.ISSUE:  # late because issued late: follow the issue stage
            if cause == Cause.LAUNCH:
                return
            span = base + blocker
            yield Step(launch, span, Cause.ISSUE.label, int(trace.issue[span]), now)
            now = int(trace.issue[span])
            cause, blocker = int(trace.issue_cause[span]), int(trace.issue_blocker[span])
        span = base + blocker
    raise SimulatorError(f"the way back from the end of launch {launch} never comes to its begin")


def _parts(trace: TraceRecord, wasted: int, span: int, until: int) -> Iterator[Step]:
    """Yields a span's activities between its start and cycle `until`."""
    launch = int(trace.launch[span])
    opcode, phase, end = Opcode(trace.kind[span]), int(trace.phase[span]), int(trace.end[span])
    now, told = int(trace.start[span]), DOES[opcode]
    parts = _waits(trace, span, told.label, wasted)
    if opcode == Opcode.HOST:
        parts += [("host link" if trace.instr[span] != 1 else "host compute", end)]
    elif told.parts:
        name = told.label
        if trace.via[span] == Via.SECOND:
            name = f"{second_memory(trace.machine).name} {name}"
        ends = (phase, end, int(trace.done[span]))
        parts += [(f"{name} {part}", stop) for part, stop in zip(told.parts, ends, strict=False)]
    else:
        parts += [(told.label, end)]
    for label, stop in parts:
        yield Step(launch, span, label, now, max(now, min(stop, until)))
        now = max(now, min(stop, until))


def _waits(trace: TraceRecord, span: int, name: str, wasted: int) -> list[tuple[str, int]]:
    """(label, end) of a span's waits on its way and in a banked memory; their times are not known, so they come
    first."""
    parts, now = list[tuple[str, int]](), int(trace.start[span])
    for wait, cycles in zip(Wait, trace.waits[span].tolist() if len(trace.waits) else (), strict=False):
        if wait == Wait.MEMORY_BUS:
            parts += [(f"{name} {MEMORY_PEAK}", now + cycles - wasted), (f"{name} {INEFFICIENT}", now + cycles)]
        else:
            parts.append((f"{name} {wait.label}", now + cycles))
        now += cycles
    return parts
