"""Checks the consistency of a trace, column by column, without its programs.

A trace from a file may hold any numbers. Readers of a trace rely on these checks: every index is valid, times run
forward, and no unit does two things at once. `invariants` has the checks that need the programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from simulator.records.spans import CAUSES, Cause, Via, Wait
from simulator.tileprogram.program import I64, Opcode
from simulator.trace_record import TraceRecord

MOST = 20
"""The most violations of one kind that are reported."""

LATEST = 2**56
"""The bound of cycles and counts in a trace: below it, sums over many spans stay exact in 64 bits."""


def violations(trace: TraceRecord, units: Sequence[str]) -> list[str]:
    """The violations in a trace on a machine with these units; empty if readers can rely on the trace."""
    found = [*islice(_ranges(trace, units), MOST)]
    if not found:
        found = [*islice(_places(trace), MOST)]
    if not found:
        found = [*of_spans(trace), *of_units(trace), *_channels(trace)]
    if not found:
        found = [*islice(_chains(trace), MOST)]
    return found


def _ranges(trace: TraceRecord, units: Sequence[str]) -> Iterator[str]:
    """Checks the ranges on which all other checks rely."""
    if tuple(trace.unit_names) != tuple(units):
        yield f"its units are {', '.join(trace.unit_names[:4])}, ..., and the machine has {', '.join(units[:4])}, ..."
    indices = (
        ("launch", len(trace.kernels)),
        ("core", trace.machine.core.count),
        ("unit", len(trace.unit_names)),
        ("kind", len(Opcode)),
        ("cause", CAUSES),
        ("issue_cause", CAUSES),
        ("via", len(Via)),
    )
    times = ("begins", "start", "end", "done", "phase", "issue", "bytes", "requested", "channel_times", "channel_bytes")
    counts = ("channels", "channel_cycles", "totals", "link_bytes", "origin", "waits")
    limits = (*indices, *((name, LATEST) for name in (*times, *counts)))
    for name, limit in limits:
        values = getattr(trace, name)
        if values.size and not 0 <= values.min() <= values.max() < limit:
            yield f"{name} holds values that are not between 0 and {limit - 1}"
    if trace.met.size and not -1 <= trace.met.min() <= trace.met.max() < LATEST:
        yield f"met holds values that are not between -1 and {LATEST - 1}"


def _places(trace: TraceRecord) -> Iterator[str]:
    """Checks that spans are in order of launch and instruction, and name instructions of their own launch."""
    if np.any(np.diff(trace.launch) < 0):
        yield "spans do not stand in order of their launches"
        return
    first, count = _launches(trace)
    if np.any(trace.instr != np.arange(len(trace)) - first):
        yield "the spans of a launch are not those of its instructions, one after another"
    for name in ("blocker", "issue_blocker"):
        values = getattr(trace, name)
        for index in np.flatnonzero((values < -1) | (values >= count))[:MOST]:
            yield f"{name} of span {index} is {values[index]}, of {count[index]} instructions in its launch"


def _launches(trace: TraceRecord) -> tuple[I64, I64]:
    """For each span, the first span of its launch, and the number of spans of its launch."""
    edges = np.searchsorted(trace.launch, np.arange(len(trace.kernels) + 1))
    return edges[trace.launch], np.diff(edges)[trace.launch]


def of_spans(trace: TraceRecord) -> Iterator[str]:
    """Checks that each span starts in its launch when its last constraint was met, and its waits fit into it."""
    last = trace.met.shape[1] - 1 - np.argmax(trace.met[:, ::-1], axis=1)
    for index in np.flatnonzero((trace.met.max(1, initial=-1) != trace.start) | (last != trace.cause))[:MOST]:
        cause = Cause(trace.cause[index]).label
        yield f"span {index} starts at {trace.start[index]} for {cause}, its constraints were met at {trace.met[index]}"
    for index in np.flatnonzero(
        (trace.waits < 0).any(1) | (trace.waits.sum(1, np.int64) > (trace.end - trace.start)[: len(trace.waits)])
    )[:MOST]:
        told = dict(zip([wait.label for wait in Wait], trace.waits[index].tolist(), strict=True))
        yield f"span {index} takes {trace.end[index] - trace.start[index]} cycles, of which it waits {told}"
    wrong = (trace.end < trace.start) | (trace.done < trace.end) | (trace.issue > trace.start)
    for index in np.flatnonzero(wrong)[:MOST]:
        yield f"span {index} goes backward in time"
    intervals = trace.kernel_spans
    for index in range(1, len(intervals)):
        if intervals[index][1] < intervals[index - 1][2]:
            yield f"launch {index} begins before launch {index - 1} has ended"
    begins = np.array([begin for _, begin, _ in intervals], np.int64)
    for index in np.flatnonzero(trace.issue < begins[trace.launch])[:MOST]:
        yield f"span {index} is issued before its launch begins"


def of_units(trace: TraceRecord) -> Iterator[str]:
    """Checks that no unit does two things at once."""
    order = np.lexsort((trace.end, trace.start, trace.unit))
    before, after = order[:-1], order[1:]
    together = (trace.unit[before] == trace.unit[after]) & (trace.end[before] > trace.start[after])
    for index in np.flatnonzero(together)[:MOST]:
        name = trace.unit_names[trace.unit[order[index]]]
        yield f"{name} does spans {before[index]} and {after[index]} at once"


def _channels(trace: TraceRecord) -> Iterator[str]:
    """Checks that the channels are those of the machine's memory, and that their pieces of time run forward."""
    expected = trace.machine.dram.channels if trace.machine.dram.kind == "banked" else 0
    if len(trace.channels) not in (0, expected):
        yield f"it tells of {len(trace.channels)} channels, and the machine's memory has {expected} to tell of"
    if len(trace.channels) != len(trace.channel_cycles):
        yield "channels and channel_cycles are not of the same channels"
    if np.any(np.diff(trace.channel_times) < 0):
        yield "channel_times run backward"


def _chains(trace: TraceRecord) -> Iterator[str]:
    """Checks that each waiting span names the span it waited for.

    The check does not compare their times: a place in a queue is free before the instruction that left it starts.
    `critical_path` finds circles when it walks back.
    """
    for name, cause, blocker in (
        ("blocker", trace.cause, trace.blocker),
        ("issue_blocker", trace.issue_cause, trace.issue_blocker),
    ):
        for index in np.flatnonzero((cause > Cause.LAUNCH) & (blocker < 0))[:MOST]:
            yield f"span {index} waited for {Cause(cause[index]).label}, and {name} names nobody"
