"""What a trace says about time and traffic: idle cycles by cause, channels, bytes by argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.indexed import INDEXED, elements
from simulator.program import Access, Opcode, Space
from simulator.spans import CAUSES, CHANNEL_COUNTERS, CHANNEL_CYCLES, HOST_UNIT, WAITS, Cause, Via, Wait
from simulator.topology import topology

if TYPE_CHECKING:
    from simulator.trace import Trace

FINISHED, SCALAR_LATENCY = "finished", "scalar_latency"


def stalls(trace: Trace) -> list[dict[str, str | int]]:
    """See `Trace.stalls`."""
    units, unseen, worked = len(trace.unit_names), _unseen(trace), trace.busy_cycles
    idle = np.zeros((units, CAUSES), np.int64)
    busy, finished, hosted, answers = (np.zeros(units, np.int64) for _ in range(4))
    within, now = np.zeros((units, WAITS), np.int64), 0
    for index, (_, begin, end) in enumerate(trace.kernel_spans):
        idle[:, Cause.LAUNCH] += begin - now
        spans = np.flatnonzero(trace.launch == index)
        for unit in range(units):
            own = spans[trace.unit[spans] == unit]
            own = own[np.argsort(trace.start[own], kind="stable")]
            starts, ends = trace.start[own], trace.end[own]
            before = np.concatenate([[begin], ends])
            np.add.at(idle[unit], trace.cause[own], starts - before[:-1])
            busy[unit] += int(worked[own].sum())
            answers[unit] += int(trace.unanswered[own].sum())
            within[unit] += trace.waits[own].sum(0, np.int64) if len(trace.waits) else 0
            rest = hosted if len(spans) and trace.kind[spans[0]] == Opcode.HOST else finished
            rest[unit] += end - int(before[-1])
        now = end
    rows = list[dict[str, str | int]]()
    for unit, name in enumerate(trace.unit_names):
        causes: dict[str, str | int] = {cause.label: int(idle[unit, cause]) for cause in Cause if cause not in unseen}
        if HOST_UNIT in trace.unit_names:
            causes[HOST_UNIT] = int(hosted[unit])
        if len(trace.waits):
            several = (Wait.INTERCONNECT, Wait.MEMORY_BUS) if trace.machine.chiplets > 1 else (Wait.INTERCONNECT,)
            told = Wait if len(trace.channels) else several
            causes.update({wait.label: int(within[unit, wait]) for wait in told})
        if Opcode.DIRECT in trace.kind:
            causes[SCALAR_LATENCY] = int(answers[unit])
        waited = int(within[unit].sum() + answers[unit])
        total = int(busy[unit] + waited + idle[unit].sum() + finished[unit] + hosted[unit])
        rows.append({"unit": name, "busy": int(busy[unit]), **causes, FINISHED: int(finished[unit]), "total": total})
    return rows


def _unseen(trace: Trace) -> set[Cause]:
    """Causes that nothing in a trace could have waited for, which are no columns: those of what is not there."""
    absent = {Cause.BARRIER: Opcode.BARRIER not in trace.kind, Cause.COMMON_MEMORY: Via.COMMON not in trace.via}
    return {cause for cause, is_absent in absent.items() if is_absent}


def memory(trace: Trace) -> list[dict[str, int]]:
    """See `Trace.memory`."""
    rows = list[dict[str, int]]()
    for channel, counts in enumerate(trace.channels.tolist()):
        row: dict[str, int] = {"channel": channel}
        row.update(zip(CHANNEL_COUNTERS, counts, strict=True))
        row.update(zip(CHANNEL_CYCLES, trace.channel_cycles[channel].tolist(), strict=True))
        row["bytes"] = (row["reads"] + row["writes"]) * trace.machine.dram_request_bytes
        rows.append(row)
    return rows


def bandwidth(trace: Trace) -> list[dict[str, int]]:
    """See `Trace.bandwidth`."""
    times = trace.channel_times.tolist()
    return [
        {"channel": channel, "begin": begin, "end": end, "bytes": moved}
        for channel, row in enumerate(trace.channel_bytes.tolist())
        for begin, end, moved in zip(times, times[1:], row, strict=False)
    ]


def links(trace: Trace) -> list[dict[str, str | int | float]]:
    """See `Trace.links`."""
    if not trace.machine.has_links:
        return []
    rows, made = list[dict[str, str | int | float]](), topology(trace.machine)
    widths = made.widths(trace.machine)
    for (begin, end), width, moved in zip(made.links, widths, trace.link_bytes.tolist(), strict=True):
        held = -(-moved // width)
        rows.append({"from": begin, "to": end, "bytes": moved, "cycles": held, "share": held / max(1, trace.makespan)})
    return rows


def traffic(trace: Trace) -> list[dict[str, str | int]]:
    """See `Trace.traffic`; needs the programs, which a loaded trace does not have."""
    rows = list[dict[str, str | int]]()
    for index, launched in enumerate(trace.launches):
        program = launched.program
        owner = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
        size = elements(program) * program.element_bytes
        for number, argument in enumerate(program.arguments):
            here = (program.space == Space.DRAM) & (program.target == number)
            opcode = program.opcode[owner]
            direct = opcode == Opcode.DIRECT
            indexed = np.isin(opcode, INDEXED)
            reads = (opcode == Opcode.LOAD) | ((direct | indexed) & ((program.access & Access.READ) != 0))
            writes = (opcode == Opcode.STORE) | ((direct | indexed) & ((program.access & Access.WRITE) != 0))
            rows.append(
                {
                    "launch": index,
                    "kernel": launched.kernel,
                    "argument": argument.name,
                    "read": int(size[here & reads].sum()),
                    "written": int(size[here & writes].sum()),
                }
            )
    return rows
