"""A trace in Chrome's JSON format, which Perfetto and chrome://tracing open: one track a hardware unit.

These viewers know no cycles, only time, and would show cycles as microseconds. So times are real ones by the machine's
clock: the format's microseconds, with three decimals, which are nanoseconds. Cycles stand in each event's arguments.
"""

from __future__ import annotations

import json
from typing import Any

from simulator import Cause, Trace
from simulator.program import Opcode
from workbench.ir import Launches
from workbench.views.timeline import group_of, origins_of_spans

_UNITS, _LAUNCHES = 1, 2
"""Process ids: the hardware, and the launches above it."""


def perfetto(trace: Trace, launches: Launches) -> dict[str, Any]:
    """The whole trace as the format's JSON object."""
    events = [*_names(trace), *_launches(trace), *_spans(trace, launches)]
    told = {
        "machine": trace.machine.name,
        "clock_mhz": trace.machine.clock_mhz,
        "cycles": trace.makespan,
        "time_unit": "ts and dur are microseconds of simulated time; args hold cycles",
    }
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": told}


def perfetto_text(trace: Trace, launches: Launches) -> str:
    return json.dumps(perfetto(trace, launches), separators=(",", ":"), allow_nan=False)


def _names(trace: Trace) -> list[dict[str, Any]]:
    """What the tracks are called, in the order of the machine's units."""

    def called(what: str, pid: int, tid: int, name: str, value: str | int) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {name: value}}

    clock = f"{trace.machine.clock_mhz:g} MHz"
    found = [
        called("process_name", _LAUNCHES, 0, "name", "launches"),
        called("process_sort_index", _LAUNCHES, 0, "sort_index", 0),
        called("thread_name", _LAUNCHES, 0, "name", "kernels"),
        called("process_name", _UNITS, 0, "name", f"{trace.machine.label} at {clock}"),
        called("process_sort_index", _UNITS, 0, "sort_index", 1),
    ]
    for number, unit in enumerate(trace.unit_names):
        found.append(called("thread_name", _UNITS, number, "name", unit))
        found.append(called("thread_sort_index", _UNITS, number, "sort_index", number))
    return found


def _launches(trace: Trace) -> list[dict[str, Any]]:
    return [
        _event(trace, kernel, "launch", _LAUNCHES, 0, begin, end, {"launch": number})
        for number, (kernel, begin, end) in enumerate(trace.kernel_spans)
    ]


def _spans(trace: Trace, launches: Launches) -> list[dict[str, Any]]:
    kinds, causes = [code.name for code in Opcode], [cause.label for cause in Cause]
    columns = (trace.unit, trace.start, trace.end, trace.kind, trace.bytes, trace.cause, trace.launch, trace.instr)
    rows: list[list[int]] = [column.tolist() for column in columns]
    found: list[dict[str, Any]] = []
    origins = origins_of_spans(trace, launches)
    for number, row in enumerate(zip(*rows, strict=True)):
        unit, start, end, kind, size, cause, launch, instr = map(int, row)
        told: dict[str, Any] = {
            "row": number,
            "kernel": trace.kernels[launch],
            "launch": launch,
            "instr": instr,
            "bytes": size,
            "waited_for": causes[cause],
            "origins": ", ".join(origins[number]),
        }
        group = group_of(trace.unit_names[unit])
        found.append(_event(trace, kinds[kind], group, _UNITS, unit, start, end, told))
    return found


def _event(
    trace: Trace, name: str, category: str, pid: int, tid: int, start: int, end: int, told: dict[str, Any]
) -> dict[str, Any]:
    """A complete event. Both ends are rounded to nanoseconds, so that neighbours on a track never overlap."""
    first, last = (round(trace.machine.microseconds(cycle), 3) for cycle in (start, end))
    cycles = {"start_cycle": start, "end_cycle": end, "cycles": end - start}
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": tid,
        "ts": first,
        "dur": round(last - first, 3),
        "args": {**cycles, **told},
    }
