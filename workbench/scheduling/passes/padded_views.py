# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
"""Padded views, which reach beyond their memref, and the code that loads their tiles.

A padded view has the extents of the padded tensor and the strides of its source; its offset means nothing. No op reads
it directly: to load a tile of the view, the part inside the memref is copied and the rest is filled in the scratchpad.
The two parts are disjoint, so that the copy never waits for a fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import Index, Value, copy, integers, kept_axes, maker, subview_groups
from workbench.mlir.dialect import PAD_INSIDE, PAD_LOW, PAD_VALUE
from workbench.mlir.index_arithmetic import greatest, least, weighted
from workbench.mlir.memrefs import mixed_shape, recast, subview


def padded_view(source: Value, low: Sequence[int], high: Sequence[int], number: ir.Attribute) -> Value:
    """A view of `source` with `low` elements before and `high` after it along each axis, all equal to `number`."""
    kind = ir.MemRefType(source.type)
    strides, offset = kind.get_strides_and_offset()
    shape = [extent + a + b for extent, a, b in zip(kind.shape, low, high, strict=True)]
    view = recast(source, shape, list(strides), offset + 1)  # so that a view of equal extents is not folded away
    op = view.owner.operation
    op.attributes[PAD_LOW] = ir.DenseI64ArrayAttr.get(list(low))
    op.attributes[PAD_INSIDE] = ir.DenseI64ArrayAttr.get(list(kind.shape))
    op.attributes[PAD_VALUE] = number
    return view


def with_all_axes(value: Value) -> tuple[Value, list[int]]:
    """A region of a padded view with all axes of the view, and the axes that the given region has dropped.

    Along a dropped axis the region has one element, which may be padding.
    """
    padded = _padded(value)
    if padded is None or len(padded.axes) == len(padded.starts):
        return value, []
    sizes: list[Index] = [1] * len(padded.starts)
    for axis, size in zip(padded.axes, mixed_shape(value), strict=True):
        sizes[axis] = size
    dropped = [axis for axis in range(len(sizes)) if axis not in padded.axes]
    return subview(padded.view.results[0], padded.starts, sizes), dropped


def load(value: Value, tile: Value) -> None:
    """Copies a region of DRAM into a tile, at the insertion point; fills the part of the tile that is padding."""
    padded = _padded(value)
    if padded is None:
        copy(value, tile)
        return
    view, starts = padded.view, padded.starts
    kind = ir.MemRefType(view.results[0].type)
    strides, offset = kind.get_strides_and_offset()
    low, extents = integers(view, PAD_LOW), integers(view, PAD_INSIDE)
    with ir.InsertionPoint(view):
        source = recast(view.operands[0], extents, list(strides), offset - 1)
        number = arith.ConstantOp(kind.element_type, view.attributes[PAD_VALUE]).result
    axes = [_Axis.of(*each) for each in zip(starts, mixed_shape(value), low, extents, strict=True)]
    for place, axis in enumerate(axes):
        for offset, size in ((0, axis.before), (axis.end, axis.after)):
            if size != 0:
                offsets = [each.before for each in axes[:place]] + [offset] + [0] * (len(axes) - place - 1)
                sizes = [each.inside for each in axes[:place]] + [size] + [each.size for each in axes[place + 1 :]]
                _fill(number, subview(tile, offsets, sizes))
    inside = [axis.inside for axis in axes]
    if 0 not in inside:
        copy(
            subview(source, [axis.source for axis in axes], inside),
            subview(tile, [axis.before for axis in axes], inside),
        )


def _fill(number: Value, target: Value) -> None:
    from torch_mlir.dialects import linalg

    build: Any = linalg.fill
    build(number, outs=[target])


@dataclass(frozen=True, slots=True)
class _Padded:
    """A region of a padded view: its start along each axis of the view, and the axes that it has not dropped."""

    view: ir.Operation
    starts: list[Index]
    axes: list[int]


def _padded(value: Value) -> _Padded | None:
    """The region's place in its padded view; None for a region of anything else."""
    chain: list[ir.Operation] = []
    op = maker(value)
    while op is not None and op.name == "memref.subview":
        chain.append(op)
        op = maker(op.operands[0])
    if op is None or PAD_LOW not in op.attributes:
        return None
    starts: list[Index] = [0] * len(integers(op, PAD_LOW))
    axes = list(range(len(starts)))
    for step in reversed(chain):
        offsets, sizes, strides = subview_groups(step)
        assert strides == [1] * len(sizes), "tiles of a padded tensor are boxes of it"
        for axis, offset in zip(axes, offsets, strict=True):
            starts[axis] = weighted((starts[axis], 1), (offset, 1))
        axes = [axes[place] for place in kept_axes(step)]
    return _Padded(op, starts, axes)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of a tile: the numbers of elements before, inside and after the memref."""

    before: Index
    inside: Index
    after: Index
    end: Index
    size: Index
    source: Index
    """The index in the memref of the first element inside."""

    @classmethod
    def of(cls, start: Index, size: Index, low: int, extent: int) -> _Axis:
        """Splits the elements from `start` to `start + size` at the memref's, which are `low` to `low + extent`."""
        before = least(greatest(weighted((low, 1), (start, -1)), 0), size)
        last = least(weighted((low + extent, 1), (start, -1)), size)
        end = greatest(last, before)
        source = weighted((start, 1), (before, 1), (-low, 1))
        return cls(before, weighted((end, 1), (before, -1)), weighted((size, 1), (end, -1)), end, size, source)
