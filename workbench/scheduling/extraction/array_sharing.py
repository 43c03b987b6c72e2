"""Divides a product among the systolic arrays: one instruction for each array, on its part of the boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simulator.machine.machine import Machine
from simulator.tileprogram.program import MAX_RANK
from simulator.units.systolic import shares
from workbench.mlir.instruction_forms import Axes, Description
from workbench.scheduling.extraction.memref_boxes import Box


def shared(
    description: Description, boxes: Sequence[Box], extent: tuple[int, ...], machine: Machine
) -> Iterator[tuple[list[Box], tuple[int, ...]]]:
    """The boxes and the extent of each array's part of a contraction; the given ones if it is not divided."""
    batch, m, n, k = extent
    group, parts = shares(batch, m, n, machine)
    loops = [description.walked[loop] for loop in description.products[group]]
    if len(parts) == 1 or not loops:
        yield list(boxes), extent
        return
    walked = max(loops, key=lambda axes: _length(boxes, axes))
    length, rest = _length(boxes, walked), extent[group] // _length(boxes, walked)
    if rest > 1:  # only one of several loops is divided, into parts as close to these sizes as its steps allow
        ends = [round(length * sum(parts[: place + 1]) / extent[group]) for place in range(len(parts))]
        parts = tuple(end - start for start, end in zip([0, *ends], ends, strict=False) if end > start)
    start = 0
    for part in parts:
        sizes = [batch, m, n, k]
        sizes[group] = part * rest
        yield [_cut(box, operand, walked, start, part) for operand, box in enumerate(boxes)], tuple(sizes)
        start += part


def _length(boxes: Sequence[Box], axes: Axes) -> int:
    operand, axis = axes[0]
    return boxes[operand].shape[axis]


def _cut(box: Box, operand: int, axes: Axes, start: int, size: int) -> Box:
    """The part of an operand's box along the divided loop; the whole box if the loop does not walk it."""
    for walked, axis in axes:
        if walked == operand:
            shape = (*box.shape[:axis], size, *box.shape[axis + 1 :])
            # With too many axes, those of one element are dropped, except the divided axis.
            kept = [a for a, extent in enumerate(box.shape) if a == axis or extent != 1 or len(shape) <= MAX_RANK]
            offset, strides = box.offset + start * box.strides[axis], tuple(box.strides[a] for a in kept)
            box = replace(box, offset=offset, shape=tuple(shape[a] for a in kept), strides=strides)
    return box
