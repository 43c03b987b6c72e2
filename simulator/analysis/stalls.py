"""Tables of a trace's time and traffic: idle cycles by cause, channels, bytes by argument."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.analysis.contention import INEFFICIENT, MEMORY_PEAK, idle_before, waited
from simulator.machine.topology import topology
from simulator.records.spans import CAUSES, CHANNEL_COUNTERS, CHANNEL_CYCLES, HOST_UNIT, Cause, Via, Wait
from simulator.tileprogram.program import I64, Access, Opcode, Space
from simulator.trace_record import TraceRecord
from simulator.units.gather import INDEXED, elements
from simulator.units.unit_table import STALL_OF, STALLS, asking

FINISHED = "finished"


def stalls_of(trace: TraceRecord) -> list[dict[str, str | int]]:
    """One row per unit: busy cycles, idle cycles by cause, and their total, which is the makespan.

    A gap before a span belongs to the span's cause. The rest of a launch after a unit's last span is `finished`, the
    time before a launch begins is `launch`, and the time of a step on the host is `host`. Not busy are a transfer's
    waits on its way and in a banked memory (`spans.Wait`) and a unit's waits for answers (`Does.stall`, such as
    `scalar_latency`). Waits for the memory while it served others are `memory_peak` or `inefficient_transfers`: see
    analysis/contention.py.
    """
    units, found = len(trace.unit_names), waited(trace)

    def by_unit(cycles: npt.NDArray[np.integer]) -> I64:
        sums = np.zeros((units, *cycles.shape[1:]), np.int64)
        np.add.at(sums, trace.unit[: len(cycles)], cycles)
        return sums

    idle = np.zeros((units, CAUSES), np.int64)
    np.add.at(idle, (trace.unit, found.cause), idle_before(trace) - found.before)
    idle[:, Cause.BANDWIDTH] += by_unit(found.before)
    busy, within = by_unit(trace.busy_cycles), by_unit(trace.waits)  # no rows with a simple memory
    shared, wasted = by_unit(found.before + found.within), by_unit(found.wasted_before + found.wasted_within)
    answers = {name: by_unit(cycles) for name, cycles in unanswered(trace).items()}
    finished, hosted, now = np.zeros(units, np.int64), np.zeros(units, np.int64), 0
    for spans, (_, begin, end) in zip(trace.rows_by_launch, trace.kernel_spans, strict=True):
        last = np.full(units, begin)
        np.maximum.at(last, trace.unit[spans], trace.end[spans])
        rest = hosted if Opcode.HOST in trace.kind[spans][:1] else finished
        rest += end - last
        idle[:, Cause.LAUNCH] += begin - now
        now = end
    columns: dict[str, I64] = {"busy": busy}
    for cause in Cause:
        if cause == Cause.BANDWIDTH:
            columns.update({MEMORY_PEAK: shared - wasted, INEFFICIENT: wasted})
        elif cause not in _unseen(trace):
            columns[cause.label] = idle[:, cause]
    columns.update({HOST_UNIT: hosted} if HOST_UNIT in trace.unit_names else {})
    columns.update({wait.label: within[:, wait] for wait in _told(trace)})
    columns.update(answers)
    columns[FINISHED] = finished
    columns["total"] = busy + idle.sum(1) + within.sum(1) + sum(answers.values()) + finished + hosted
    rows = list[dict[str, str | int]]()
    for unit, name in enumerate(trace.unit_names):
        rows.append({"unit": name, **{column: int(values[unit]) for column, values in columns.items()}})
    return rows


def unanswered(trace: TraceRecord) -> dict[str, I64]:
    """Stall -> for each span, the cycles in which its unit only waits for answers. Only stalls that can occur here."""
    stall, cycles = STALL_OF[trace.kind], trace.unanswered
    return {name: np.where(stall == place, cycles, 0) for place, name in enumerate(STALLS) if place in stall}


def _told(trace: TraceRecord) -> Sequence[Wait]:
    """The kinds of waits within spans that have a column: all except waits for the memory while it served others."""
    if not len(trace.waits):
        return ()
    return [wait for wait in Wait if wait != Wait.MEMORY_BUS] if len(trace.channels) else (Wait.INTERCONNECT,)


def _unseen(trace: TraceRecord) -> set[Cause]:
    """The causes without a column: no span can wait for barriers or a second memory that do not occur in the trace."""
    absent = {Cause.BARRIER: Opcode.BARRIER not in trace.kind, Cause.SECOND_MEMORY: Via.SECOND not in trace.via}
    return {cause for cause, is_absent in absent.items() if is_absent}


def channels_of(trace: TraceRecord) -> list[dict[str, int]]:
    """One row per channel of a banked memory: requests by outcome, refreshes, bytes, and cycles by state."""
    size, states = trace.machine.dram.request_bytes, trace.channel_cycles.tolist()
    rows = list[dict[str, int]]()
    for channel, counts in enumerate(trace.channels.tolist()):
        row = dict(zip((*CHANNEL_COUNTERS, *CHANNEL_CYCLES), (*counts, *states[channel]), strict=True))
        rows.append({"channel": channel, **row, "bytes": (row["reads"] + row["writes"]) * size})
    return rows


def bandwidth_of(trace: TraceRecord) -> list[dict[str, int]]:
    """One row per channel of a banked memory and piece of time: begin, end, bytes moved."""
    times = trace.channel_times.tolist()
    return [
        {"channel": channel, "begin": begin, "end": end, "bytes": moved}
        for channel, row in enumerate(trace.channel_bytes.tolist())
        for begin, end, moved in zip(times, times[1:], row, strict=False)
    ]


def links_of(trace: TraceRecord) -> list[dict[str, str | int | float]]:
    """One row per link of the interconnect: from, to, bytes, cycles in use, and these as a part of the makespan."""
    if not trace.machine.has_links:
        return []
    rows, made = list[dict[str, str | int | float]](), topology(trace.machine, asking(trace.machine))
    widths = made.widths(trace.machine)
    for (begin, end), width, moved in zip(made.links, widths, trace.link_bytes.tolist(), strict=True):
        held = -(-moved // width)
        rows.append({"from": begin, "to": end, "bytes": moved, "cycles": held, "share": held / max(1, trace.makespan)})
    return rows


def traffic_of(trace: TraceRecord) -> list[dict[str, str | int]]:
    """One row per launch and argument: bytes read from it and written to it. Empty for a trace from a file."""
    rows = list[dict[str, str | int]]()
    for index, launched in enumerate(trace.launches):
        program = launched.program
        opcode, size = program.opcode[program.owners()], elements(program) * program.element_bytes
        single = np.isin(opcode, [Opcode.DIRECT, *INDEXED])
        reads = (opcode == Opcode.LOAD) | (single & ((program.access & Access.READ) != 0))
        writes = (opcode == Opcode.STORE) | (single & ((program.access & Access.WRITE) != 0))
        for number, argument in enumerate(program.arguments):
            here = (program.space == Space.DRAM) & (program.target == number)
            row: dict[str, str | int] = {"launch": index, "kernel": launched.kernel, "argument": argument.name}
            rows.append(row | {"read": int(size[here & reads].sum()), "written": int(size[here & writes].sum())})
    return rows
