"""What a trace says about time: idle cycles by cause, and the critical path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from simulator.indexed import INDEXED, elements
from simulator.program import Access, Opcode, Space
from simulator.spans import CAUSES, CHANNEL_COUNTERS, CHANNEL_CYCLES, HOST_UNIT, WAITS, Cause, Via, Wait
from simulator.topology import topology

if TYPE_CHECKING:
    from simulator.trace import Trace

FINISHED = "finished"


def stalls(trace: Trace) -> list[dict[str, str | int]]:
    """See `Trace.stalls`."""
    units, unseen = len(trace.unit_names), _unseen(trace)
    idle = np.zeros((units, CAUSES), np.int64)
    busy, finished, hosted = (np.zeros(units, np.int64) for _ in range(3))
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
            busy[unit] += int((ends - starts).sum())
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
            told = Wait if len(trace.channels) else (Wait.INTERCONNECT,)
            causes.update({wait.label: int(within[unit, wait]) for wait in told})
            busy[unit] -= within[unit].sum()
        total = int(busy[unit] + within[unit].sum() + idle[unit].sum() + finished[unit] + hosted[unit])
        rows.append({"unit": name, "busy": int(busy[unit]), **causes, FINISHED: int(finished[unit]), "total": total})
    return rows


def _unseen(trace: Trace) -> set[Cause]:
    """Causes that nothing in a trace could have waited for, which are no columns: those of what is not there."""
    absent = {Cause.BARRIER: Opcode.BARRIER not in trace.kind, Cause.COMMON_MEMORY: Via.COMMON not in trace.via}
    return {cause for cause, is_absent in absent.items() if is_absent}


def waterfall(trace: Trace) -> list[tuple[str, int]]:
    """See `Trace.waterfall`."""
    cycles: dict[str, int] = {}
    for label, amount in critical_path(trace):
        if amount:
            cycles[label] = cycles.get(label, 0) + amount
    return sorted(cycles.items(), key=lambda pair: (-pair[1], pair[0]))


def critical_path(trace: Trace) -> Iterator[tuple[str, int]]:
    """(label, cycles), backward from the last completion of each launch to its begin, launches in reverse.

    A span is on the path until the moment its successor no longer needed it; what it was doing in that time is told
    apart (a copy's transfer or a loop of accesses from its latency, a matmul's preload from its stream and drain).
    Where an instruction was only late because it was issued late, the path goes on through issue.
    """
    intervals = trace.kernel_spans
    first = np.searchsorted(trace.launch, np.arange(len(intervals))).tolist()
    for index in range(len(intervals) - 1, -1, -1):
        _, begin, now = intervals[index]
        spans = np.flatnonzero(trace.launch == index)
        if len(spans):
            last = int(spans[np.argmax(trace.done[spans])])
            yield from _walk(trace, first[index], last, now)
        yield "launch", begin - (intervals[index - 1][2] if index else 0)


def _walk(trace: Trace, base: int, span: int, now: int) -> Iterator[tuple[str, int]]:
    """From cycle `now` of a span back to the begin of its launch, whose first span is `base`."""
    while True:
        if now < trace.start[span]:  # a matmul leaves its queue when its weights go in: its array still streams another
            span = _before(trace, base, span)
        yield from _parts(trace, span, now)
        now = int(trace.start[span])
        cause, blocker = int(trace.cause[span]), int(trace.blocker[span])
        while cause <= Cause.ISSUE:  # late because issued late: follow the issue stage
            if cause == Cause.LAUNCH:
                return
            span = base + blocker
            yield Cause.ISSUE.label, now - int(trace.issue[span])
            now = int(trace.issue[span])
            cause, blocker = int(trace.issue_cause[span]), int(trace.issue_blocker[span])
        span = base + blocker


def _before(trace: Trace, base: int, span: int) -> int:
    """What the unit of a span did before it."""
    earlier = np.flatnonzero((trace.unit[base:span] == trace.unit[span]) & (trace.start[base:span] < trace.start[span]))
    return base + int(earlier[np.argmax(trace.start[base + earlier])])


def _parts(trace: Trace, span: int, until: int) -> Iterator[tuple[str, int]]:
    """What a span did between its start and cycle `until`."""
    opcode, phase, end = Opcode(trace.kind[span]), int(trace.phase[span]), int(trace.end[span])
    now, name = int(trace.start[span]), "scalar" if opcode == Opcode.DIRECT else opcode.name.lower()
    parts = _waits(trace, span, name)
    if opcode == Opcode.MATMUL:
        parts += [("matmul preload", phase), ("matmul stream", end), ("matmul drain", int(trace.done[span]))]
    elif opcode == Opcode.DIRECT:
        parts += [("scalar accesses", phase), ("scalar latency", end)]
    elif opcode == Opcode.HOST:
        parts += [("host link" if trace.instr[span] != 1 else "host compute", end)]
    elif opcode in (Opcode.VECTOR, Opcode.COPY, Opcode.BARRIER):
        parts += [(name, end)]
    else:
        name = name if trace.via[span] != Via.COMMON else f"common memory {name}"
        parts += [(f"{name} transfer", phase), (f"{name} latency", end)]
    for label, stop in parts:
        yield label, max(0, min(stop, until) - now)
        now = max(now, min(stop, until))


def _waits(trace: Trace, span: int, name: str) -> list[tuple[str, int]]:
    """What a span waited for on its way and in a banked memory; when in it is not known, so it is told first."""
    parts, now = list[tuple[str, int]](), int(trace.start[span])
    for wait, cycles in zip(Wait, trace.waits[span].tolist() if len(trace.waits) else (), strict=False):
        now += cycles
        parts.append((f"{name} {wait.label}", now))
    return parts


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
    if trace.machine.interconnect == "simple":
        return []
    rows, width = list[dict[str, str | int | float]](), trace.machine.interconnect_link_bytes_per_cycle
    for (begin, end), moved in zip(topology(trace.machine).links, trace.link_bytes.tolist(), strict=True):
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
