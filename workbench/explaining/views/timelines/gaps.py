"""Why a unit stands idle: the wait of its next span, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from simulator import Cause, Trace
from simulator.analysis.contention import INEFFICIENT, MEMORY_PEAK
from simulator.tileprogram.program import Opcode
from simulator.units.unit_table import STALLS
from workbench.explaining.views.timelines.areas import unit_number
from workbench.explaining.views.timelines.gantt import I64, LAUNCH, Gantt
from workbench.explaining.views.timelines.timeline import gantt_of
from workbench.ground.basics.table import Table
from workbench.ground.errors import BadOption
from workbench.ir import Launches

FINISHED: Final = "finished"
HOSTED: Final = "host"
ANOTHER: Final = "another span"
"""The wait, where the trace does not record a span for it."""
MEMORY: Final = (MEMORY_PEAK, INEFFICIENT)
GAP_COLUMNS = ("unit", "begin", "end", "cycles", "cause", "reason", "next_span", "waited_for")

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(STALLS, "{next} holds it and waits for answers"),
        LAUNCH: "the kernel is being launched",
        "issue": "{next} was issued only then, after {blocker}",
        "window": "{next} could not be issued before {blocker}, an issue window further up, was complete",
        "queue_full": "{next} could not be issued: its queue was full until {blocker} left it",
        "unit_busy": "{next} found its unit still taken by {blocker}",
        "memory_peak": "{next} waited for the memory, which was at its peak with other transfers",
        "inefficient_transfers": "{next} waited for the memory, which moved unneeded bytes of others' short runs",
        "write_after_read": "{next} overwrites what {blocker} still had to read",
        "write_after_write": "{next} overwrites what {blocker} still had to write",
        "reuse": "{next} needs the address of a buffer that {blocker} still used",
        "accumulate": "{next} adds to sums that {blocker} was still streaming",
        "data": "{next} needs data of {blocker}",
        "barrier": "{next} comes after a barrier, at which {blocker} had not arrived",
        "common_memory": "{next} waited for the common memory, which served {blocker}",
        "interconnect": "{next} holds it and waits for the way to the memory",
        "memory_row": "{next} holds it and waits until the memory has closed a row and opened another",
        "memory_bank_group": "{next} holds it and waits for a bank group, which takes requests later than the bus does",
        "memory_turnaround": "{next} holds it and waits until the memory's bus has turned between reads and writes",
        "memory_refresh": "{next} holds it and waits while the memory refreshes",
        "memory_command": "{next} holds it and waits for the memory's command bus",
        "scalar_latency": "{next} holds it and waits for answers to single accesses",
        HOSTED: "a step runs on the host",
        FINISHED: "it has nothing left to do in {kernel}",
    }
)
"""The sentence for idle time, by its cause. `next` is the span that comes next, or the one that waits on its way."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A piece of time in which a unit does no work, with one cause."""

    unit: str
    begin: int
    end: int
    cause: str
    reason: str
    next_span: int
    """Row of the span that waited; -1 where nothing came any more, or nothing was launched yet."""
    waited_for: int
    """Row of the span that it waited for; -1 for none."""


def gap(trace: Trace, unit: str, cycle: int, launches: Launches | None = None) -> Gap:
    """The idle time of a unit around a cycle; an error where the unit is at work. With the launches, kernels are called
    by their own names, and not by those whose programs they run."""
    found = gap_in(gantt_of(trace), trace, unit, cycle)
    if found.cause not in (HOSTED, FINISHED) or found.next_span >= 0 or launches is None:
        return found
    begins = [begin for _, begin, _ in trace.kernel_spans]
    launch = launches.launches[int(np.searchsorted(begins, cycle, side="right")) - 1]
    return replace(found, reason=REASONS[found.cause].format(kernel=launch.name))


def gap_in(view: Gantt, trace: Trace, unit: str, cycle: int) -> Gap:
    """The same, for callers that keep the trace's picture."""
    unit_number(trace, unit)
    if not 0 <= cycle < trace.makespan:
        raise BadOption(f"gap({unit!r}, {cycle:,}): expected a cycle of this run, 0 to {trace.makespan - 1:,}")
    lane = next((number for number, each in enumerate(view.lanes) if each.name == unit), -1)
    if lane < 0:
        return _outside(trace, view, unit, lane, cycle)
    _refuse_work(view, lane, cycle, unit)
    found, part = view.idle_time, view.idle_time.of_lane(lane)
    place = part.start + int(np.searchsorted(found.start[part], cycle, side="right")) - 1
    if place < part.start or cycle >= found.end[place]:
        return _outside(trace, view, unit, lane, cycle)
    begin, end, cause = int(found.start[place]), int(found.end[place]), view.causes[int(found.cause[place])]
    row = _row_at(view, lane, begin)
    waited_for = _blocker(trace, row, cause)
    return Gap(unit, begin, end, cause, told(trace, cause, row, waited_for), row, waited_for)


def gap_table(found: Gap) -> Table:
    """One row: the gap, its cycles, its cause and the reason in words."""
    row = (found.unit, found.begin, found.end, found.end - found.begin, found.cause, found.reason)
    return Table(GAP_COLUMNS, ((*row, found.next_span, found.waited_for),))


def told(trace: Trace, cause: str, row: int, waited_for: int) -> str:
    """The reason in words."""
    names = {"next": named(trace, row), "blocker": named(trace, waited_for) if waited_for >= 0 else ANOTHER}
    return REASONS[cause].format(**names)


def named(trace: Trace, row: int) -> str:
    """`span 3 (LOAD on dma0)`."""
    return f"span {row} ({Opcode(trace.kind[row]).name} on {trace.unit_names[int(trace.unit[row])]})"


def blockers(trace: Trace) -> I64:
    """The row of the span that each waited for last, -1 for none."""
    first = np.array([rows.start for rows in trace.rows_by_launch], np.int64)
    return np.where(trace.blocker >= 0, trace.blocker + first[trace.launch], -1).astype(np.int64)


def _blocker(trace: Trace, row: int, cause: str) -> int:
    """What a span waited for, where the idle time is told as what it waited for last: only of that it is written down.

    `MEMORY` are other names of waiting for the memory.
    """
    last = Cause(trace.cause[row])
    if cause != last.label and not (last == Cause.BANDWIDTH and cause in MEMORY):
        return -1
    return int(blockers(trace)[row])


def _row_at(view: Gantt, lane: int, cycle: int) -> int:
    """The span that holds the lane at a cycle, or the first one after it."""
    part = view.of_lane(lane)
    return int(view.row[part.start + int(np.searchsorted(view.end[part], cycle, side="right"))])


def _refuse_work(view: Gantt, lane: int, cycle: int, unit: str) -> None:
    part = view.of_lane(lane)
    place = part.start + int(np.searchsorted(view.work_start[part], cycle, side="right")) - 1
    if place >= part.start and cycle < view.end[place]:
        kind, begin, end = view.kinds[int(view.kind[place])], int(view.work_start[place]), int(view.end[place])
        works = f"span {int(view.row[place])} ({kind}), cycles {begin:,} to {end:,}"
        raise BadOption(f"{unit} is not idle in cycle {cycle:,}: it works on {works}")


def _outside(trace: Trace, view: Gantt, unit: str, lane: int, cycle: int) -> Gap:
    """Idle time of no span: before a launch begins, or when the unit has done all that it does in one."""
    part = view.of_lane(lane) if lane >= 0 else slice(0, 0)
    before = int(view.end[part][view.end[part] <= cycle].max(initial=0))
    after = int(view.start[part][view.start[part] > cycle].min(initial=trace.makespan))
    done = 0
    for launch, (kernel, begin, end) in enumerate(trace.kernel_spans):
        if done <= cycle < begin:
            return Gap(unit, max(done, before), min(begin, after), LAUNCH, REASONS[LAUNCH], -1, -1)
        if begin <= cycle < end:
            hosted = Opcode.HOST in trace.kind[trace.rows_of(launch)][:1]
            cause = HOSTED if hosted else FINISHED
            reason = REASONS[cause].format(kernel=kernel)
            return Gap(unit, max(begin, before), min(end, after), cause, reason, -1, -1)
        done = end
    raise AssertionError(f"cycle {cycle} is in no launch and between none")
