"""The work of units between two cycles: an area of the timeline as figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator import Trace
from simulator.did_you_mean import did_you_mean
from workbench.explaining.views.timelines.gantt import F64, I64, Gantt
from workbench.explaining.views.timelines.timeline import gantt_of
from workbench.ground.basics.table import Cell, Table
from workbench.ground.errors import BadOption

AREA_COLUMNS = ("unit", "spans", "cycles", "busy_cycles", "busy_share", "bytes", "bytes_per_cycle", "gb_per_s")


def area(trace: Trace, begin: int, end: int, units: Sequence[str] | None = None) -> Table:
    """One row a unit. A span belongs to it with the part of its time that lies in the area, and its bytes likewise:
    they are taken to move evenly over the span."""
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
    """The place of a unit's name; an unknown one is an error that names those that are there."""
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
