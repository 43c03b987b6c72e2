"""A trace in Chrome's JSON format, which Perfetto and chrome://tracing open: one track a hardware unit.

These viewers know no cycles, only time, and would show cycles as microseconds. So times are real ones by the machine's
clock: the format's microseconds, with three decimals, which are nanoseconds. Cycles stand in each event's arguments.

An arrow (a flow) runs from each instruction to those that depend on it. Below the units stand counters: bytes that
transfers to and from DRAM have asked for and not had yet, bytes of the scratchpad in use, arrays at work.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from simulator import Cause, Trace
from simulator.analysis.lifetimes import lifetimes
from simulator.records.spans import Via
from simulator.tileprogram.program import I64, DependenceKind, Opcode
from workbench.explaining.views.timelines.timeline import group_of, origins_of_spans
from workbench.ir import Launches

_UNITS, _LAUNCHES = 1, 2
"""Process ids: the hardware, and the launches above it."""


def perfetto(trace: Trace, launches: Launches) -> dict[str, Any]:
    """The whole trace as the format's JSON object."""
    events = [*_names(trace), *_launches(trace), *_spans(trace, launches), *_flows(trace), *_counters(trace)]
    about = {
        "machine": trace.machine.name,
        "clock_mhz": trace.machine.clock_mhz,
        "cycles": trace.makespan,
        "time_unit": "ts and dur are microseconds of simulated time; args hold cycles",
    }
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def perfetto_text(trace: Trace, launches: Launches) -> str:
    return json.dumps(perfetto(trace, launches), separators=(",", ":"), allow_nan=False)


def perfetto_file(trace: Trace, launches: Launches, path: str) -> bytes:
    """The bytes of a file of this name: packed if it ends in `.gz`, which the viewers open as well."""
    text = perfetto_text(trace, launches).encode("utf-8")
    return gzip.compress(text, mtime=0) if path.endswith(".gz") else text


def _names(trace: Trace) -> list[dict[str, Any]]:
    """The names of the tracks, in the order of the machine's units."""

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
        arguments: dict[str, Any] = {
            "row": number,
            "kernel": trace.kernels[launch],
            "launch": launch,
            "instr": instr,
            "bytes": size,
            "waited_for": causes[cause],
            "origins": ", ".join(origins[number]),
        }
        group = group_of(trace.unit_names[unit])
        found.append(_event(trace, kinds[kind], group, _UNITS, unit, start, end, arguments))
    return found


def _event(
    trace: Trace, name: str, category: str, pid: int, tid: int, start: int, end: int, arguments: dict[str, Any]
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
        "args": {**cycles, **arguments},
    }


def _time(trace: Trace, cycle: int) -> float:
    return round(trace.machine.microseconds(cycle), 3)


def _flows(trace: Trace) -> Iterator[dict[str, Any]]:
    """An arrow for each dependence: out of the slice that is waited for, into the beginning of the one that waits."""
    number = 0
    for launched, rows in zip(trace.launches, trace.rows_by_launch, strict=True):
        program = launched.program
        kinds: list[int] = program.dependence_kind.tolist()
        owners: list[int] = np.repeat(np.arange(len(program)), np.diff(program.dependence_start)).tolist()
        for target, source, kind in zip(owners, program.dependence.tolist(), kinds, strict=True):
            known, waits = rows.start + int(source), rows.start + target
            name = DependenceKind(kind).name.lower().replace("_", " ")
            shared = {"cat": "dependence", "name": name, "id": number, "pid": _UNITS}
            begin, end = (_time(trace, int(column[known])) for column in (trace.start, trace.end))
            into = _time(trace, int(trace.start[waits]))
            # The slice's last nanosecond, since its end is outside; a product may begin before another one is over.
            out = max(begin, min(round(end - 0.001, 3), into))
            yield {"ph": "s", **shared, "tid": int(trace.unit[known]), "ts": out}
            yield {"ph": "f", "bp": "e", **shared, "tid": int(trace.unit[waits]), "ts": into}
            number += 1


def _counters(trace: Trace) -> Iterator[dict[str, Any]]:
    moves = trace.via == Via.DRAM
    yield from _counter(
        trace, "DRAM bytes in flight", "bytes", trace.start[moves], trace.done[moves], trace.bytes[moves]
    )
    arrays = np.array([group_of(name) == "systolic" for name in trace.unit_names])[trace.unit]
    yield from _counter(
        trace, "arrays busy", "arrays", trace.start[arrays], trace.end[arrays], np.ones(int(arrays.sum()), np.int64)
    )
    held = [
        (life.start, life.end, launched.program.buffers[life.buffer].slot_bytes)
        for launched, (_, lives) in zip(trace.launches, lifetimes(trace), strict=True)
        for life in lives
    ]
    if held:
        begin, end, size = np.array(held, np.int64).T
        yield from _counter(trace, "scratchpad in use", "bytes", begin, end, size)


def _counter(trace: Trace, name: str, unit: str, begin: I64, end: I64, amount: I64) -> Iterator[dict[str, Any]]:
    """A counter track: at each time the sum of the amounts, each of which lasts from its begin to its end."""
    cycles, at = np.unique(np.concatenate([begin, end]).astype(np.int64), return_inverse=True)
    change = np.bincount(at, np.concatenate([amount, -amount]), minlength=len(cycles))
    for cycle, value in zip(cycles.tolist(), np.cumsum(change).astype(np.int64).tolist(), strict=True):
        yield {"ph": "C", "pid": _UNITS, "name": name, "ts": _time(trace, cycle), "args": {unit: value}}
