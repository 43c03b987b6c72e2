"""An index from boxes to the things that touch them: finds near boxes without a scan of all.

A grid of tiles has thousands of boxes that differ only in where they start, and first and last bytes hardly tell them
apart: all columns of a matrix lie between its first and its last byte. So boxes of the same extents and strides are
kept in cells as large as one box, by their coordinates over the strides that a comparison with the wanted box would use
(see `boxes`), and only the cells around the wanted box are searched. Boxes without coordinates are always compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from typing import Generic, TypeVar

from simulator.tileprogram.boxes import Box, Dims, filled, intervals, strides_of

T = TypeVar("T")
Cell = tuple[int, ...]

FEW = 8
"""The most boxes for which comparing one by one is faster than a look-up."""


@dataclass(slots=True)
class Nearby(Generic[T]):
    """Things, by the boxes that they touch."""

    groups: dict[tuple[int, Dims], _Group[T]] = field(default_factory=lambda: {})

    def add(self, box: Box, item: T) -> None:
        kind = (box.element, box.dims)
        if kind not in self.groups:
            self.groups[kind] = _Group(box)
        self.groups[kind].add(box, item)

    def near(self, box: Box) -> list[Box]:
        """All boxes that could share a byte with this one, and as few others as a quick look-up allows."""
        first, end = box.first, box.end
        return [
            group.boxes[start]
            for group in self.groups.values()
            for start in group.starts_near(box)
            if start < end and first < start + group.length
        ]

    def at(self, box: Box) -> list[T]:
        """The things whose box equals this box."""
        return self.groups[box.element, box.dims].items[box.first]

    def pop(self, box: Box) -> list[T]:
        """Removes the things whose box equals this box, and returns them."""
        group = self.groups[box.element, box.dims]
        if len(group.items) == 1:
            del self.groups[box.element, box.dims]
        return group.pop(box.first)


class _Group(Generic[T]):
    """Boxes that differ only in their first byte, kept by that byte."""

    def __init__(self, like: Box) -> None:
        self.like, self.length = like, like.end - like.first
        self.boxes: dict[int, Box] = {}
        self.items: dict[int, list[T]] = {}
        self.grids: dict[tuple[tuple[int, ...], Dims], _Grid] = {}

    def add(self, box: Box, item: T) -> None:
        if box.first not in self.items:
            self.boxes[box.first], self.items[box.first] = box, []
            for grid in self.grids.values():
                grid.add(box.first)
        self.items[box.first].append(item)

    def pop(self, first: int) -> list[T]:
        for grid in self.grids.values():
            grid.remove(first)
        del self.boxes[first]
        return self.items.pop(first)

    def starts_near(self, box: Box) -> Iterable[int]:
        every = self.boxes
        if len(every) <= FEW or box.element != self.like.element:
            return every
        strides, own, others = _frame(box.element, self.like.dims, box.dims)
        asked = intervals(box.first, others, strides)
        if asked is None:
            return every
        if (strides, own) not in self.grids:
            self.grids[strides, own] = _Grid(strides, own, every)
        found = self.grids[strides, own].around(asked)
        return every if found is None else found


@lru_cache(maxsize=65536)
def _frame(element: int, own: Dims, others: Dims) -> tuple[tuple[int, ...], Dims, Dims]:
    """The strides over which two kinds of boxes are compared, and the dims of both kinds, filled as by
    `boxes.filled`."""
    own_filled, others_filled = filled(own, others), filled(others, own)
    return strides_of(element, own_filled, others_filled), own_filled, others_filled


class _Grid:
    """Boxes of the same dims, by their first bytes, in cells of their own extents."""

    def __init__(self, strides: tuple[int, ...], dims: Dims, starts: Iterable[int]) -> None:
        extents = dict(dims)
        self.strides, self.dims = strides, dims
        self.extents = [extents.get(stride, 1) for stride in strides]
        self.cells: dict[Cell | None, set[int]] = {}
        """Cell -> first bytes of its boxes; None -> first bytes of boxes without coordinates."""
        for first in starts:
            self.add(first)

    def add(self, first: int) -> None:
        self.cells.setdefault(self._cell(first), set()).add(first)

    def remove(self, first: int) -> None:
        cell = self._cell(first)
        self.cells[cell].remove(first)
        if not self.cells[cell]:
            del self.cells[cell]

    def around(self, asked: list[tuple[int, int]]) -> list[int] | None:
        """First bytes of the boxes in the cells that could meet these coordinates; None if there are too many cells."""
        sides = zip(asked, self.extents, strict=True)
        ranges = [range((low + 1) // extent - 1, high // extent + 1) for (low, high), extent in sides]
        if prod(map(len, ranges)) > len(self.cells):
            return None
        found = [first for cell in product(*ranges) for first in self.cells.get(cell, ())]
        return found + list(self.cells.get(None, ()))

    def _cell(self, first: int) -> Cell | None:
        own = intervals(first, self.dims, self.strides)
        if own is None:
            return None
        return tuple(low // extent for (low, _), extent in zip(own, self.extents, strict=True))
