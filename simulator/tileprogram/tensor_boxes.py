"""Boxes in the coordinates of a tensor: the rows, columns and so on of an argument that an operand touches.

An operand has its place in elements of the argument's storage, with its own strides: dims of one element may have been
dropped, neighbours merged, every second element left out. This module finds its elements along the argument's own axes.
Elements that form no box there, such as two rows and a half, are given as the smallest box around them. An argument
whose elements share places, as overlapping windows do, has no such coordinates: its storage counts as one axis.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simulator.tileprogram.boxes import elements_of
from simulator.tileprogram.program import I64, Argument, Operand


@dataclass(frozen=True, slots=True)
class TensorBox:
    """A box along each axis: its first element, its number of elements, and the step from one to the next."""

    start: tuple[int, ...]
    extent: tuple[int, ...]
    step: tuple[int, ...]
    exact: bool = True
    """True if the operand touches all elements of the box, False if only some."""

    @property
    def end(self) -> tuple[int, ...]:
        """Along each axis, the place after the last element."""
        return tuple(a + (n - 1) * s + 1 for a, n, s in zip(self.start, self.extent, self.step, strict=True))


Pattern = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Offset, shape and strides of an operand."""


@dataclass(slots=True)
class Coordinates:
    """The axes of an argument; computes the boxes of operands along these axes."""

    argument: Argument
    axes: list[int] = field(init=False)
    """The argument's axes of more than one place and with a stride, widest stride first."""
    base: int = field(init=False)
    """The lowest element of the storage that belongs to the argument."""
    is_storage: bool = field(init=False)
    """True if the argument's axes share places; coordinates are then places in the storage, from `base` on."""
    _known: dict[Pattern, TensorBox] = field(default_factory=dict[Pattern, TensorBox])

    def __post_init__(self) -> None:
        shape, strides = self.argument.shape, self.argument.strides
        walked = [axis for axis, extent in enumerate(shape) if extent > 1 and strides[axis] != 0]
        self.axes = sorted(walked, key=lambda axis: -abs(strides[axis]))
        self.base = self.argument.offset + sum(min(strides[axis], 0) * (shape[axis] - 1) for axis in walked)
        reach = 0
        self.is_storage = False
        for axis in reversed(self.axes):
            self.is_storage |= abs(strides[axis]) <= reach
            reach += abs(strides[axis]) * (shape[axis] - 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the tensor along these coordinates; 1 for an axis that stays in one place."""
        if self.is_storage:
            strides, shape = self.argument.strides, self.argument.shape
            return (sum(abs(strides[axis]) * (shape[axis] - 1) for axis in self.axes) + 1,)
        return tuple(extent if axis in self.axes else 1 for axis, extent in enumerate(self.argument.shape))

    def box(self, operand: Operand) -> TensorBox:
        """The box of an operand of this argument, in these coordinates."""
        pattern = operand.offset, operand.shape, operand.strides
        if pattern not in self._known:
            self._known[pattern] = self._box(*pattern) or self._around(operand)
        return self._known[pattern]

    def elements(self, operand: Operand) -> I64:
        """Every element that an operand touches, by its number in row-major order."""
        digits = self._digits(elements_of(operand) - self.base)
        return np.unique(np.ravel_multi_index(tuple(digits), self.shape))

    def _digits(self, place: I64) -> list[I64]:
        """Coordinates of elements by their places in the storage, counted from the base."""
        if self.is_storage:
            return [place]
        found = [np.zeros_like(place) for _ in self.argument.shape]
        for axis in self.axes:
            stride, extent = self.argument.strides[axis], self.argument.shape[axis]
            digit, place = np.divmod(place, abs(stride))
            found[axis] = digit if stride > 0 else extent - 1 - digit
        return found

    def _around(self, operand: Operand) -> TensorBox:
        found = np.unravel_index(self.elements(operand), self.shape)
        start = tuple(int(each.min()) for each in found)
        extent = tuple(int(each.max()) - low + 1 for each, low in zip(found, start, strict=True))
        return TensorBox(start, extent, (1,) * len(start), exact=False)

    def _box(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> TensorBox | None:
        """The exact box of this offset, shape and strides; None if there is none."""
        if self.is_storage:
            return None
        walks = sorted((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1 and s != 0)
        low = offset - self.base + sum(min(s, 0) * (n - 1) for n, s in zip(shape, strides, strict=True))
        start = [int(digit[0]) for digit in self._digits(np.array([low], np.int64))]
        extent, step = [1] * len(start), [1] * len(start)
        for stride, count in walks:
            if not self._walk(stride, count, start, extent, step):
                return None
        for axis in self.axes:  # from here on the first element is the lowest along each axis
            if self.argument.strides[axis] < 0:
                start[axis] -= (extent[axis] - 1) * step[axis]
        return TensorBox(tuple(start), tuple(extent), tuple(step))

    def _walk(self, stride: int, count: int, start: list[int], extent: list[int], step: list[int]) -> bool:
        """Enters a walk of `count` elements along an axis, or several that form one; False if it fits none."""
        for axis in self.axes:
            own, whole = abs(self.argument.strides[axis]), self.argument.shape[axis]
            if own > stride or stride % own or extent[axis] > 1:
                continue
            each = stride // own
            from_here = start[axis] if self.argument.strides[axis] > 0 else whole - 1 - start[axis]
            if from_here + (count - 1) * each < whole:
                extent[axis], step[axis] = count, each
                return True
            if each > 1 or from_here or count % whole:
                return False
            extent[axis] = whole
            return self._walk(own * whole, count // whole, start, extent, step)
        return False
