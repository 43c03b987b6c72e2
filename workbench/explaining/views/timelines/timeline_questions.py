"""Answers to questions about a timeline: the work in an area, the reason why a unit is idle, and the spans with certain
words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from simulator import Cause, Trace
from simulator.analysis.contention import INEFFICIENT, MEMORY_PEAK
from simulator.did_you_mean import did_you_mean
from simulator.tileprogram.program import Opcode
from simulator.units.unit_table import STALLS
from workbench.explaining.views.timelines.gantt import F64, I64, LAUNCH, Gantt
from workbench.explaining.views.timelines.timeline import gantt_of, origin_sets
from workbench.ground.basics.table import Cell, Table
from workbench.ground.errors import BadOption
from workbench.ir import Launches

AREA_COLUMNS = ("unit", "spans", "cycles", "busy_cycles", "busy_share", "bytes", "bytes_per_cycle", "gb_per_s")
GAP_COLUMNS = ("unit", "begin", "end", "cycles", "cause", "reason", "next_span", "waited_for")
FIELDS: Final = ("kernel", "node", "kind", "unit")
"""Fields of a span that a search may name."""
FINISHED: Final = "finished"
HOSTED: Final = "host"
ANOTHER: Final = "another span"
"""The words for a blocker that the trace does not record."""
MEMORY: Final = (MEMORY_PEAK, INEFFICIENT)

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(STALLS, "{next} holds it and waits for answers"),
        LAUNCH: "the kernel is being launched",
        "issue": "{next} was issued only then, after {blocker}",
        "window": "{next} could not be issued before {blocker}, an issue window further up, was complete",
        "queue_full": "{next} could not be issued: its queue was full until {blocker} left it",
        "unit_busy": "{next} found its unit still taken by {blocker}",
        "bandwidth": "{next} waited for the memory, which served {blocker}",
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
"""The sentence for a wait, by its cause. `next` is the span that comes next, or the span that waits on its way."""


def area(trace: Trace, begin: int, end: int, units: Sequence[str] | None = None) -> Table:
    """One row a unit. A span counts with the part of its time that lies in the area, and with the same part of its
    bytes, which are taken to move evenly over the span."""
    if not 0 <= begin < end <= trace.makespan:
        raise BadOption(
            f"area({begin:,}, {end:,}): expected two cycles of this run in order, from 0 to its end, {trace.makespan:,}"
        )
    if isinstance(units, str) or not all(type(unit) is str for unit in units or ()):
        raise BadOption(f"area(units={units!r}): expected a list of names of units, such as {[trace.unit_names[0]]}")
    chosen = [unit_number(trace, unit) for unit in units] if units is not None else range(len(trace.unit_names))
    view, cycles = gantt_of(trace), end - begin
    lanes = {lane.name: number for number, lane in enumerate(view.lanes)}
    rows: list[tuple[Cell, ...]] = []
    for unit in chosen:
        name = trace.unit_names[unit]
        count, busy, moved = _within(trace, view, lanes[name], begin, end) if name in lanes else (0, 0, 0.0)
        rate = moved / cycles
        per_second = rate * trace.machine.clock_mhz / 1e3
        rows.append((name, count, cycles, busy, busy / cycles, moved, rate, per_second))
    return Table(AREA_COLUMNS, tuple(rows))


def unit_number(trace: Trace, unit: str) -> int:
    """The place of a unit's name; for an unknown name raises an error that lists the known ones."""
    if unit not in trace.unit_names:
        raise BadOption(
            f"there is no unit {unit!r} on {trace.machine.label}{did_you_mean(unit, trace.unit_names)}; "
            f"its units are {', '.join(trace.unit_names)}"
        )
    return trace.unit_names.index(unit)


def _within(trace: Trace, view: Gantt, lane: int, begin: int, end: int) -> tuple[int, int, float]:
    """Spans that lie in the area at least in part, cycles in which the unit is busy, and bytes."""
    part = view.of_lane(lane)
    start, stop = view.start[part], view.end[part]
    inside = (start < end) & (stop > begin)
    busy = _overlap(view.work_start[part][inside], stop[inside], begin, end)
    start, stop, rows = start[inside], stop[inside], view.row[part][inside]
    share: F64 = _overlap(start, stop, begin, end) / (stop - start)
    return int(inside.sum()), int(busy.sum()), float((share * trace.bytes[rows]).sum())


def _overlap(start: I64, end: I64, begin: int, until: int) -> I64:
    return np.maximum(np.minimum(end, until) - np.maximum(start, begin), 0)


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
    """The idle time of a unit around a cycle; raises if the unit is at work. With `launches`, the reason has the
    kernel's own name, not the name of the kernel whose program it runs."""
    found = gap_in(gantt_of(trace), trace, unit, cycle)
    if found.cause not in (HOSTED, FINISHED) or found.next_span >= 0 or launches is None:
        return found
    begins = [begin for _, begin, _ in trace.kernel_spans]
    launch = launches.launches[int(np.searchsorted(begins, cycle, side="right")) - 1]
    return replace(found, reason=REASONS[found.cause].format(kernel=launch.name))


def gap_in(view: Gantt, trace: Trace, unit: str, cycle: int) -> Gap:
    """The idle time of a unit around a cycle, for callers that keep the timeline's geometry."""
    unit_number(trace, unit)
    if not 0 <= cycle < trace.makespan:
        raise BadOption(f"gap({unit!r}, {cycle:,}): expected a cycle of this run, 0 to {trace.makespan - 1:,}")
    lane = next((number for number, each in enumerate(view.lanes) if each.name == unit), -1)  # -1 has no spans
    part, idle, found = view.of_lane(lane), view.idle_time.of_lane(lane), view.idle_time
    place = _last(view.work_start, part, cycle)
    if place >= part.start and cycle < view.end[place]:
        kind, begin, end = view.kinds[int(view.kind[place])], int(view.work_start[place]), int(view.end[place])
        works = f"span {int(view.row[place])} ({kind}), cycles {begin:,} to {end:,}"
        raise BadOption(f"{unit} is not idle in cycle {cycle:,}: it works on {works}")
    place = _last(found.start, idle, cycle)
    if place < idle.start or cycle >= found.end[place]:
        return _outside(trace, unit, cycle, view.start[part], view.end[part])
    begin, end, cause = int(found.start[place]), int(found.end[place]), view.causes[int(found.cause[place])]
    row = int(view.row[_last(view.end, part, begin) + 1])
    waited_for = _blocker(trace, row, cause)
    return Gap(unit, begin, end, cause, reason_text(trace, cause, row, waited_for), row, waited_for)


def _last(times: I64, part: slice, cycle: int) -> int:
    """The place of a lane's last time up to a cycle; the place before the lane where all its times are later."""
    return part.start + int(np.searchsorted(times[part], cycle, side="right")) - 1


def gap_table(found: Gap) -> Table:
    """One row: the gap, its cycles, its cause and the reason in words."""
    row = (found.unit, found.begin, found.end, found.end - found.begin, found.cause, found.reason)
    return Table(GAP_COLUMNS, ((*row, found.next_span, found.waited_for),))


def reason_text(trace: Trace, cause: str, row: int, waited_for: int) -> str:
    """The reason of a wait in words."""
    names = {"next": named(trace, row), "blocker": named(trace, waited_for) if waited_for >= 0 else ANOTHER}
    return REASONS[cause].format(**names)


def named(trace: Trace, row: int) -> str:
    """`span 3 (LOAD on dma0)`."""
    return f"span {row} ({Opcode(trace.kind[row]).name} on {trace.unit_names[int(trace.unit[row])]})"


def blockers(trace: Trace) -> I64:
    """The row of the span that each span waited for last, -1 for none."""
    first = np.array([rows.start for rows in trace.rows_by_launch], np.int64)
    return np.where(trace.blocker >= 0, trace.blocker + first[trace.launch], -1).astype(np.int64)


def _blocker(trace: Trace, row: int, cause: str) -> int:
    """The row of the span that a span waited for; -1 unless `cause` is its last wait, the only one with a record.

    `MEMORY` are other names of waiting for the memory.
    """
    last = Cause(trace.cause[row])
    if cause != last.label and not (last == Cause.BANDWIDTH and cause in MEMORY):
        return -1
    return int(blockers(trace)[row])


def _outside(trace: Trace, unit: str, cycle: int, starts: I64, ends: I64) -> Gap:
    """Idle time that no span ends: before a launch begins, or after the unit's last work in a launch."""
    before = int(ends[ends <= cycle].max(initial=0))
    after = int(starts[starts > cycle].min(initial=trace.makespan))
    done = 0
    for launch, (kernel, begin, end) in enumerate(trace.kernel_spans):
        if done <= cycle < begin:
            return Gap(unit, max(done, before), min(begin, after), LAUNCH, REASONS[LAUNCH], -1, -1)
        if begin <= cycle < end:
            cause = HOSTED if Opcode.HOST in trace.kind[trace.rows_of(launch)][:1] else FINISHED
            return Gap(unit, max(begin, before), min(end, after), cause, REASONS[cause].format(kernel=kernel), -1, -1)
        done = end
    raise AssertionError(f"cycle {cycle} is in no launch and between none")


@dataclass(frozen=True, slots=True)
class Word:
    """One word that a span must have: in one field, or, without a field, in any."""

    field: str
    text: str


def words(text: str) -> tuple[Word, ...]:
    """`kind:load k3` as words; raises for an unknown field."""
    return tuple(_word(each) for each in text.lower().split())


def _word(text: str) -> Word:
    field, colon, rest = text.partition(":")
    if not colon or field not in FIELDS:
        if colon and field.isalpha() and not rest.startswith(":"):  # `aten::relu` is a name
            known = ", ".join(f"{each}:" for each in FIELDS)
            raise BadOption(
                f"search {text!r}: there is no field {field!r}{did_you_mean(field, FIELDS)}; expected {known}"
            )
        return Word("", text)
    return Word(field, rest)


def search(trace: Trace, launches: Launches, text: str) -> npt.NDArray[np.int64]:
    """Rows of the spans that have all of the words, each anywhere in a name; case does not matter."""
    sets, set_of = origin_sets(trace, launches)
    fields: dict[str, tuple[npt.NDArray[np.integer], list[str]]] = {
        "kernel": (trace.launch, [f"{each.name} {each.kernel}" for each in launches.launches]),
        "node": (set_of, [" ".join(names) for names in sets]),
        "kind": (trace.kind, [code.name for code in Opcode]),
        "unit": (trace.unit, list(trace.unit_names)),
    }
    mine = np.ones(len(trace), bool)
    for word in words(text):
        chosen = [fields[word.field]] if word.field else list(fields.values())
        held = [np.array([word.text in name.lower() for name in names], bool)[column] for column, names in chosen]
        mine &= np.logical_or.reduce(held)
    return np.flatnonzero(mine)
