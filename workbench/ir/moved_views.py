"""Moves views of a storage along when the storage's axes get another order.

A view has some of its storage's elements at even steps. In another order these elements may still lie at even steps:
then the view stays a view, with other strides. Otherwise it would have to be a copy, for example a reshape that joins
two axes which no longer follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from workbench.ir.graph import TensorType


class _Axis(NamedTuple):
    """An axis of the storage's tensor, or several that follow each other in both orders."""

    extent: int
    before: int
    """The stride in the old order; `after` is the stride in the new one."""
    after: int


def moved(view: TensorType, before: TensorType, after: TensorType) -> TensorType | None:
    """The type of a view whose storage's tensor lay as `before` and now lies as `after`; None if it is no view any
    more."""
    axes = _axes(before, after)
    start = _coordinates(view.offset - before.offset, axes)
    steps = [
        _coordinates(stride if extent > 1 else 0, axes) for extent, stride in zip(view.shape, view.strides, strict=True)
    ]
    known = [step for step in steps if step is not None]
    if start is None or len(known) < len(steps):
        return None
    for number, axis in enumerate(axes):
        last = start[number] + sum((extent - 1) * step[number] for extent, step in zip(view.shape, known, strict=True))
        if last >= axis.extent:  # it goes on in the next row
            return None
    strides = (
        _distance(step, axes) if extent > 1 else stride
        for extent, stride, step in zip(view.shape, view.strides, known, strict=True)
    )
    return replace(view, strides=tuple(strides), offset=after.offset + _distance(start, axes))


def overlaps_itself(kind: TensorType) -> bool:
    """True if several elements of the tensor may share memory, as in an expanded tensor."""
    reach = 0
    for stride, extent in sorted(zip(kind.strides, kind.shape, strict=True)):
        if extent > 1:
            if stride <= reach:
                return True
            reach += (extent - 1) * stride
    return False


def _axes(before: TensorType, after: TensorType) -> list[_Axis]:
    """The axes of the storage's tensor, with merged neighbours, outermost first in the old order."""
    found = list[_Axis]()
    each = map(_Axis, before.shape, before.strides, after.strides)
    for axis in sorted((axis for axis in each if axis.extent > 1), key=lambda axis: -axis.before):
        outer = found[-1] if found else None
        if outer and (outer.before, outer.after) == (axis.before * axis.extent, axis.after * axis.extent):
            found[-1] = _Axis(outer.extent * axis.extent, axis.before, axis.after)
        else:
            found.append(axis)
    return found


def _coordinates(distance: int, axes: Sequence[_Axis]) -> list[int] | None:
    """The steps along each axis for a distance in the old order; None for a distance that ends between elements."""
    steps = list[int]()
    for axis in axes:
        count, distance = divmod(distance, axis.before)
        steps.append(count)
    return steps if not distance and min(steps, default=0) >= 0 else None


def _distance(steps: Sequence[int], axes: Sequence[_Axis]) -> int:
    return sum(count * axis.after for count, axis in zip(steps, axes, strict=True))
