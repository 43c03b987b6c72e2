"""Short stretches. A DMA queue moves up to its width in a cycle, to one place and those that follow it. Rows that are
shorter than the width leave part of it empty, so a tile of many short rows takes a cycle for each, however few bytes
they hold: an image of 14 x 14 places with its channels outermost is moved 56 bytes at a time, and its rows of 14 fill
as many of all lanes in every vector pass. With the channels innermost (`torch.channels_last`) a row is all channels of
a place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.program import Opcode
from workbench.findings.changes import CHANNELS_LAST
from workbench.findings.facts import Facts, KernelFacts
from workbench.findings.record import Finding, Remedy
from workbench.findings.registry import finding
from workbench.findings.words import percent

SHORT = 0.5
"""Of a queue's width."""
_TRANSFERS = ("load transfer", "store transfer")


@finding("short transfers")
def short_transfers(facts: Facts) -> Iterator[Finding]:
    use, width = facts.memory_use, facts.machine.dma_bytes_per_cycle
    for kernel in facts.computed:
        stake, spans = _lost(facts, kernel, SHORT * width)
        if stake:
            stretch = int(np.median(use.stretch[list(spans)]))
            yield Finding(
                kernel.name,
                stake,
                f"tiles are moved {stretch} bytes at a time, {percent(stretch, width)} of the {width} that a queue "
                f"moves in a cycle, though {int(np.median(use.run[list(spans)])):,} bytes lie together in DRAM",
                spans,
            )


@finding("channels outermost")
def channels_outermost(facts: Facts) -> Iterator[Finding]:
    """All kernels with images together, since one line of Python lays all of them out otherwise."""
    lost, shown = 0, list[int]()
    for kernel in facts.computed:
        if _has_images(facts, kernel):
            stake, spans = _lost(facts, kernel, np.inf)
            lost += stake + round(kernel.part("vector") * (1 - _filled_lanes(facts, kernel)))
            shown += [*spans, *kernel.showing("vector")]
    if lost:
        yield Finding(
            "",
            lost,
            f"images lie with their channels outermost, so their rows are short: {percent(lost, facts.cycles)} of all "
            "cycles; with the channels innermost a row is all channels of a place",
            tuple(sorted(shown)),
            remedy=Remedy("model.to(memory_format=torch.channels_last), and x.to(...) likewise", change=CHANNELS_LAST),
            predicted=lost,
        )


def _lost(facts: Facts, kernel: KernelFacts, shorter: float) -> tuple[int, tuple[int, ...]]:
    """Cycles of the critical path that copies with full stretches would not take, and which these copies are."""
    use, trace = facts.memory_use, facts.trace
    width, rate = facts.machine.dma_bytes_per_cycle, float(facts.machine.bus_bytes_per_cycle)
    spans = np.array(kernel.showing(*_TRANSFERS), np.int64)
    spans = spans[np.isin(trace.kind[spans], [Opcode.LOAD, Opcode.STORE]) & (use.stretch[spans] > 0)]
    spans = spans[use.stretch[spans] < shorter]
    least = np.maximum(use.requested[spans] / rate, use.asked[spans] / width)
    useless = 1 - least.sum() / max(use.cycles[spans].sum(), 1)
    on_path = sum(kernel.path_of(span, *_TRANSFERS) for span in spans.tolist())
    lost = max(0, round(on_path * useless))
    return lost, tuple(spans.tolist()) if lost else ()


def _has_images(facts: Facts, kernel: KernelFacts) -> bool:
    """Whether it reads or makes a tensor of four axes whose last is the innermost, and whose second is not."""
    types = facts.lowered.types
    kinds = [types[value] for launch in kernel.launches for value in launch.arguments if value in types]
    return any(
        len(kind.shape) == 4 and kind.strides[3] == 1 and kind.strides[1] != 1 and min(kind.shape[1:]) > 1
        for kind in kinds
    )


def _filled_lanes(facts: Facts, kernel: KernelFacts) -> float:
    """Of the lanes that the vector passes of a kernel take, the part that has something to do."""
    assert kernel.scheduled is not None
    program, lanes = kernel.scheduled.program, facts.machine.vector_lanes
    rows = np.flatnonzero((program.opcode == Opcode.VECTOR) & (program.lane >= 0))
    along = program.extent[rows, program.lane[rows].astype(np.int64)]
    points = program.extent[rows].prod(1)
    taken = points / along * -(-along // lanes) * lanes
    return float(points.sum() / taken.sum()) if len(rows) else 1.0
