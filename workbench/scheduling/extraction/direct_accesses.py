"""Unstaged accesses: elements that a hand-written loop loads and stores one by one.

An innermost loop is evaluated for all its iterations at once, and every load or store in the loop becomes one affine
pattern: a first element, a count and a stride. The count is exact, even if a branch skips iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.program import Access, Operand
from workbench.ground.errors import NotAffine
from workbench.scheduling.extraction.memref_boxes import Box


@dataclass(frozen=True, slots=True)
class Touch:
    """One access over all iterations of a loop."""

    box: Box
    slot: int
    offsets: npt.NDArray[np.int64]
    access: Access


def touch(box: Box, positions: list[object], mask: object, points: int, access: Access) -> Touch:
    """The access to the elements of `box` at these positions (numbers, or arrays over the iterations) in the iterations
    whose mask is true."""
    slot, strides = box.slot, box.strides
    if slot < 0:
        slot, positions = int(np.max(np.asarray(positions[0]))), positions[1:]
        strides = strides[1:]
    place = np.full(points, box.offset, np.int64)
    for position, stride in zip(positions, strides, strict=True):
        place = place + np.asarray(position, np.int64) * stride
    return Touch(box, slot, place[np.broadcast_to(np.asarray(mask, bool), points)], access)


def direct_operands(touches: list[Touch], kernel: str, line: int) -> tuple[Operand, ...]:
    """The accesses as operands, without the accesses that no iteration makes."""
    return tuple(_operand(each, kernel, line) for each in touches if len(each.offsets))


def _operand(each: Touch, kernel: str, line: int) -> Operand:
    steps = np.diff(each.offsets)
    if len(steps) and (steps != steps[0]).any():
        raise NotAffine(kernel, line)
    stride = int(steps[0]) if len(steps) else 1
    box = each.box
    return Operand(
        box.space, box.target, each.slot, int(each.offsets[0]), (len(each.offsets),), (stride,), box.element_bytes,
        each.access,
    )  # fmt: skip
