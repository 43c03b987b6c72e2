"""Work on padding. Three kinds of padding take cycles like data: the zeros around a convolution's images, which are
multiplied with weights; the lanes beyond the end of an extent, which compute in every vector pass; and the unneeded
bytes of a request or of a block of a tensor, which the memory moves too. The remedy for these bytes is that of short
transfers: a wider tile, or another axis innermost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.analysis.binding import ARRAYS, MEMORY, VECTOR
from simulator.records.spans import Launched
from workbench.explaining.findings import ComputedFacts, Facts, Finding, finding, percent
from workbench.explaining.findings.rules.short_transfers import longer_rows
from workbench.explaining.findings.run_facts import numbers_of
from workbench.ir import Node

SHOWS = 0.05
"""The least share of a kernel's cycles that the rule reports."""


@finding("padding")
def padding(facts: Facts) -> Iterator[Finding]:
    for kernel in facts.computed:
        for about, find in {ARRAYS: _zeros, VECTOR: _lanes, MEMORY: _moved}.items():
            stake, reason, spans = find(facts, kernel)
            if stake < SHOWS * max(kernel.cycles, 1):
                continue
            remedy, predicted = longer_rows(facts, kernel, spans) if find is _moved else (None, None)
            yield Finding(kernel.name, stake, reason, spans, remedy=remedy, predicted=predicted, about=about)


def _zeros(facts: Facts, kernel: ComputedFacts) -> tuple[int, str, tuple[int, ...]]:
    """Cycles, reason and spans of the products with the zeros around images."""
    own = set(kernel.nodes)
    convolutions = [
        node for node in facts.lowered.captured.nodes if node.name in own and node.op == "aten.conv2d.default"
    ]
    if len(convolutions) != 1:
        return 0, "", ()
    zeros = 1 - _inside(facts, convolutions[0])
    stake = round(kernel.part("matmul stream") * zeros)
    reason = (
        f"{percent(zeros, 1)} of the products are with zeros around the images, since the images are small and "
        "the window reaches over their borders at many places; larger images, or less padding, have fewer"
    )
    return stake, reason, kernel.showing("matmul stream")


def _inside(facts: Facts, node: Node) -> float:
    """The share of all windows' places that are inside the image."""
    image, weight, out = (facts.lowered.types[value] for value in (*node.operands[:2], node.results[0]))
    stride, around, apart = (numbers_of(node, place, usual) for place, usual in ((3, 1), (4, 0), (5, 1)))
    share = 1.0
    for axis in range(2):
        window = np.arange(weight.shape[2 + axis]) * apart[axis] - around[axis]
        places = np.arange(out.shape[axis - 2])[:, None] * stride[axis] + window
        share *= float(((places >= 0) & (places < image.shape[axis - 2])).mean())
    return share


def _lanes(facts: Facts, kernel: ComputedFacts) -> tuple[int, str, tuple[int, ...]]:
    filled = kernel.filled_lanes(facts.machine.vector.lanes)
    stake = round(kernel.part("vector") * (1 - filled))
    reason = f"vector passes fill {percent(filled, 1)} of {facts.machine.vector.lanes} lanes: "
    if _inner_extent(facts, kernel) % facts.machine.vector.lanes == 0:
        reason += "the kernel's own steps work on parts of a row, as those of a sort or a scan do"
    else:
        reason += (
            "their extents are not multiples of this number, and the lanes beyond the end compute for nothing; extents "
            "rounded up to a multiple would take no longer"
        )
    return stake, reason, kernel.showing("vector")


def _inner_extent(facts: Facts, kernel: ComputedFacts) -> int:
    """The innermost extent of the largest tensor that a kernel's launches are given."""
    types = facts.lowered.types
    given = [types[value] for launch in kernel.launches for value in launch.arguments if value in types]
    shaped = [kind for kind in given if kind.shape]
    return max(shaped, key=lambda kind: kind.numel).shape[-1] if shaped else 1


def _moved(facts: Facts, kernel: ComputedFacts) -> tuple[int, str, tuple[int, ...]]:
    use, machine = facts.memory_use, facts.machine
    spans = [span for span in kernel.showing(*kernel.transfers) if use.asked[span]]
    rate, width = float(machine.bus_bytes_per_cycle), machine.dma.bytes_per_cycle
    asked, moved, stretch = use.asked[spans], use.requested[spans], use.stretch[spans]
    in_queues = asked / np.maximum(stretch, 1) * -(-stretch // width)  # zero for single places
    needed = np.maximum(asked / rate, in_queues)
    on_path = np.array([kernel.path_of(span, *kernel.transfers) for span in spans])
    stake = round(float(np.minimum(on_path, np.maximum(moved / rate - needed, 0)).sum())) if spans else 0
    reason = f"the memory moves {int(moved.sum()):,} bytes for {int(asked.sum()):,} needed ones, in "
    reason += _wholes(facts, kernel)
    return stake, reason, tuple(spans)


def _wholes(facts: Facts, kernel: ComputedFacts) -> str:
    """Names the pieces that the memory moves as a whole, and says why parts of them are not needed."""
    block = facts.machine.dram_block
    own = [each for each in facts.trace.launches if isinstance(each, Launched) and each.kernel == kernel.name]
    places = [what for what in kernel.transfers if what.startswith(("gather", "scatter"))]
    if 2 * kernel.part(*places) > kernel.part(*kernel.transfers):
        return (
            f"requests of {facts.machine.dram.request_bytes}: it reads or writes single places, which take a request "
            "each; whole rows, as with x[i] instead of x.gather(1, i), waste fewer bytes"
        )
    if block and any(any(launched.grids) for launched in own):
        return (
            f"whole blocks of {block.rows} x {block.columns}: tensors are padded to blocks, and tiles begin or end "
            "inside them; extents and tiles of whole blocks waste fewer bytes"
        )
    return (
        f"requests of {facts.machine.dram.request_bytes}: runs begin or end inside requests; longer runs waste fewer "
        "bytes"
    )
