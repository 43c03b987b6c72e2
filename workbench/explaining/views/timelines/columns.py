"""A timeline as binary columns, for a picture that is drawn elsewhere: little-endian numbers one after another, and a
header with the place of each column and the meaning of its numbers.

Numbers take the smallest unsigned type that holds them all. Cycles are whole: those beyond 32 bits are doubles, which
are exact up to 53.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simulator import Trace
from simulator.records.spans import Cause
from simulator.tileprogram.program import Opcode
from workbench.explaining.views.timelines.gantt import LAUNCH, NOTHING, Gantt
from workbench.explaining.views.timelines.timeline import gantt_of, on_critical_path, origin_sets
from workbench.explaining.views.timelines.timeline_questions import (
    ANOTHER,
    FIELDS,
    FINISHED,
    HOSTED,
    MEMORY,
    REASONS,
    blockers,
)
from workbench.ir import Launches

VERSION: Final = 1
NONE: Final = 0xFFFFFFFF
"""The number that means "no row" in a column of rows."""
_ALIGNED = 8
"""The bytes of the longest number: each column begins at a multiple of them."""
_TYPES: Final = {"u8": "u1", "u16": "<u2", "u32": "<u4", "f64": "<f8"}
"""Names of types in the header, the smallest first, and numpy's names of them."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns by name in one block of bytes, and a header with all short data."""

    header: Mapping[str, Any]
    """Data for JSON; `columns` has the name, type, offset and length of each column."""
    data: bytes

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column as it was packed."""
        place = next(each for each in self.header["columns"] if each["name"] == name)
        return np.frombuffer(self.data, _TYPES[place["type"]], place["length"], place["offset"])


def packed(header: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> Columns:
    """Packs columns of whole numbers, none of them below zero, into one block."""
    places, parts, offset = list[dict[str, Any]](), list[bytes](), 0
    for name, column in columns.items():
        most = int(column.max(initial=0))
        kind = next((kind for kind in ("u8", "u16", "u32") if most <= np.iinfo(_TYPES[kind]).max), "f64")
        written = column.astype(_TYPES[kind]).tobytes()
        written += bytes(-len(written) % _ALIGNED)
        places.append({"name": name, "type": kind, "offset": offset, "length": len(column)})
        parts.append(written)
        offset += len(written)
    return Columns({"version": VERSION, **header, "columns": places}, b"".join(parts))


def timeline_columns(trace: Trace, launches: Launches) -> Columns:
    """All that a timeline shows at first; spans by lane, then start. Slower parts come later: `dependence_columns`,
    `critical_columns`."""
    view = gantt_of(trace)
    sets, set_of = origin_sets(trace, launches)
    blocker = blockers(trace)[view.row]
    causes = np.union1d(view.cause, view.used_causes()).astype(np.int64)
    rows: dict[str, npt.NDArray[Any]] = {
        "lane_first": np.searchsorted(view.lane, np.arange(len(view.lanes) + 1)),
        "start": view.start,
        "work": view.work_start,
        "end": view.end,
        "kind": np.searchsorted(view.used_kinds(), view.kind),
        "cause": np.searchsorted(causes, view.cause),
        "launch": trace.launch[view.row],
        "row": view.row,
        "blocker": np.where(blocker >= 0, blocker, NONE),
        "bytes": trace.bytes[view.row],
        "origin": set_of[view.row],
        "idle_first": np.searchsorted(view.idle_time.lane, np.arange(len(view.lanes) + 1)),
        "idle_start": view.idle_time.start,
        "idle_end": view.idle_time.end,
        "idle_cause": np.searchsorted(causes, view.idle_time.cause),
    }
    return packed(_header(trace, launches, view, causes, sets), rows | _channels(trace))


def _header(
    trace: Trace, launches: Launches, view: Gantt, causes: npt.NDArray[Any], sets: list[tuple[str, ...]]
) -> dict[str, Any]:
    """The short parts, and the meaning of numbers in the columns: only kinds and causes that occur."""
    seen = np.searchsorted(causes, view.used_causes())
    return {
        "machine": trace.machine.label,
        "clock_mhz": view.clock_mhz,
        "makespan": view.makespan,
        "spans": len(trace),
        "lanes": [{"name": lane.name, "group": lane.group, "busy": lane.busy} for lane in view.lanes],
        "unused": list(view.unused),
        "kinds": [view.kinds[kind] for kind in view.used_kinds()],
        "causes": [view.causes[cause] for cause in causes.tolist()],
        "idle_causes": seen.tolist(),
        "kernels": [launch.name for launch in launches.launches],
        "programs": list(trace.kernels),
        "launches": [[begin, end] for _, begin, end in trace.kernel_spans],
        "hosted": np.unique(trace.launch[trace.kind == Opcode.HOST]).tolist(),
        "origins": [list(names) for names in sets],
        "fields": list(FIELDS),
        "reasons": dict(REASONS),
        "another": ANOTHER,
        "nothing": NOTHING,
        "memory_causes": [Cause.BANDWIDTH.label, *MEMORY],
        "outside": {"launch": LAUNCH, "host": HOSTED, "finished": FINISHED},
        "channels": _channel_header(trace),
    }


def _channel_header(trace: Trace) -> dict[str, float | int]:
    """The number of channels of a banked memory, and the most bytes that a channel moves in a cycle."""
    count = len(trace.channel_bytes)
    peak = float(trace.machine.bus_bytes_per_cycle) / trace.machine.chiplet.count / count if count else 0.0
    return {"count": count, "bytes_per_cycle": peak}


def _channels(trace: Trace) -> dict[str, npt.NDArray[Any]]:
    """Bytes that each channel has moved at each border of the pieces of time, channel by channel; and the borders."""
    if not len(trace.channel_bytes):
        return {}
    moved = np.pad(np.cumsum(trace.channel_bytes, axis=1), ((0, 0), (1, 0)))
    return {"channel_times": trace.channel_times, "channel_moved": moved.ravel()}


def dependence_columns(trace: Trace) -> Columns:
    """The dependences with their room, by rows of the trace; and the slack of each span."""
    from simulator.analysis.slack import dependences, slack_of  # only here: it loads the compiler

    found = dependences(trace)
    first = np.searchsorted(found.later, np.arange(len(trace) + 1))
    order = np.argsort(found.earlier, kind="stable")
    back = np.searchsorted(found.earlier[order], np.arange(len(trace) + 1))
    columns = {"in_first": first, "earlier": found.earlier, "room": found.room, "later": found.later}
    return packed({}, columns | {"out_first": back, "out": order, "slack": slack_of(trace)})


def critical_columns(trace: Trace) -> Columns:
    """The rows of the spans on the critical path, in order of the trace."""
    return packed({}, {"critical": np.array(on_critical_path(trace), np.int64)})
