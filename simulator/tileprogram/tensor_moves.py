"""Counts how often a program moves each element of a tensor, from boxes and not element by element."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from simulator.tileprogram.program import I64, Operand
from simulator.tileprogram.tensor_boxes import Coordinates, TensorBox


@dataclass(frozen=True, slots=True)
class Moved:
    """The number of moved elements of one tensor."""

    moved: int
    """Moves of all elements: an element that is moved twice counts twice."""
    touched: int
    """Different elements: the least that has to be moved."""
    most: int
    """Moves of the element that is moved most often."""


def moves(coordinates: Coordinates, operands: Iterable[Operand]) -> Moved:
    """Counts the moves of an argument's elements by these operands."""
    every = list(operands)
    boxes = [coordinates.box(operand) for operand in every]
    if all(box.exact for box in boxes):
        return _of_boxes(boxes)
    counts = np.zeros(prod(coordinates.shape), np.int64)
    for operand in every:
        counts[coordinates.elements(operand)] += 1
    return Moved(int(counts.sum()), int((counts > 0).sum()), int(counts.max(initial=0)))


def _of_boxes(boxes: list[TensorBox]) -> Moved:
    """Counts by pieces: cuts the tensor wherever a box begins or ends, so that each piece is moved as a whole."""
    counted = dict[TensorBox, int]()
    for box in boxes:
        counted[box] = counted.get(box, 0) + 1
    if not counted:
        return Moved(0, 0, 0)
    rank = len(boxes[0].start)
    cuts = [np.unique(np.concatenate([_cuts(box, axis) for box in counted])) for axis in range(rank)]
    sizes = np.ones((), np.int64)
    for each in cuts:
        sizes = np.multiply.outer(sizes, np.diff(each))
    counts = np.zeros(sizes.shape, np.int64)
    for box, times in counted.items():
        counts[np.ix_(*(_pieces(box, axis, cuts[axis]) for axis in range(rank)))] += times
    return Moved(int((counts * sizes).sum()), int(sizes[counts > 0].sum()), int(counts.max()))


def _places(box: TensorBox, axis: int) -> I64:
    return box.start[axis] + box.step[axis] * np.arange(box.extent[axis], dtype=np.int64)


def _cuts(box: TensorBox, axis: int) -> I64:
    if box.step[axis] == 1:
        return np.array([box.start[axis], box.end[axis]], np.int64)
    places = _places(box, axis)
    return np.concatenate([places, places + 1])


def _pieces(box: TensorBox, axis: int, cuts: I64) -> I64:
    """Numbers of the pieces between cuts that a box holds along an axis."""
    if box.step[axis] == 1:
        first, last = (int(np.searchsorted(cuts, place)) for place in (box.start[axis], box.end[axis]))
        return np.arange(first, last, dtype=np.int64)
    return np.searchsorted(cuts, _places(box, axis)).astype(np.int64)
