"""Orders a buffer's axes in the host's memory like those of the tensor that is copied into or out of it.

A tile in the scratchpad has the axes of its op, whatever order the tensor in DRAM has them in. The simulated machine's
DMA reorders them; on the host each number would come from another cache line, for example for transposed weights or
images with channels last. So here a buffer keeps its shape and its bytes, and gets the strides of the tensor that it is
copied from. A buffer that is not copied takes the order of another operand of its op.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from torch_mlir import ir

from workbench.ir.graph import row_major
from workbench.mlir.bindings import DYNAMIC_STRIDE, Value, kept_axes, maker, replace_op, shape_of, subview_groups
from workbench.mlir.context import operations
from workbench.mlir.linalg_loops import axis_loops, indexing_maps, is_opened, iterators, product_loops
from workbench.mlir.memrefs import recast, root_of, subview
from workbench.running.tile_products import is_plain_product

Order: TypeAlias = "tuple[int, ...]"
"""The axes of a buffer, the axis with the longest steps first."""

_READERS: Final = ("memref.load", "memref.store", "memref.dim", "memref.dealloc")
"""Ops that take a memref of any strides, beside linalg's ops and subviews."""


def order_buffers(module: ir.Module, *, calls: bool) -> None:
    """Gives the buffers of a module the strides of the tensors that are copied into and out of them; in place.

    If a product `calls` a BLAS, it takes its factors in any order. As loops it needs its factors unchanged, so that its
    innermost loop walks a row of the right factor.
    """
    ops = list(operations(module.operation))
    linalg = [op for op in ops if op.name.startswith("linalg.") and op.regions and is_opened(op)]
    loops = [op for op in linalg if not (calls and is_plain_product(op)) and product_loops(op)]
    factors = {_buffer_of(value)[0] for op in loops for value in op.operands if isinstance(value.type, ir.MemRefType)}
    allocated = [op.results[0] for op in ops if op.name == "memref.alloc"]
    buffers = {value: None for value in allocated if value not in factors and _may_move(value)}
    found = _asked_by_copies([op for op in linalg if op.name == "linalg.copy"], list(buffers))
    pointwise = [op for op in linalg if "reduction" not in iterators(op)]
    for group in (pointwise, linalg):
        while new := _asked_by_neighbours(group, [each for each in buffers if each not in found], found):
            found |= new
    for buffer, order in found.items():
        if list(order) != sorted(order):
            _lay_out(buffer, order)


def _may_move(value: Value) -> bool:
    """True if all ops that use a buffer take it with other strides."""
    for use in value.uses:
        op = use.owner.operation
        if op.name == "memref.subview":
            if not _may_move(op.results[0]):
                return False
        elif not (op.name in _READERS or op.name.startswith("linalg.")):
            return False
    return True


def _asked_by_copies(copies: Sequence[ir.Operation], buffers: Sequence[Value]) -> dict[Value, Order]:
    """For each buffer that is copied from or to an argument of the function: the axis order of most copied elements."""
    asked: dict[Value, Counter[Order]] = {}
    for op in copies:
        for mine, other in (list(op.operands), list(op.operands)[::-1]):
            buffer, axes = _buffer_of(mine)
            strides, _ = ir.MemRefType(other.type).get_strides_and_offset()
            if buffer not in buffers or maker(_buffer_of(other)[0]) is not None or DYNAMIC_STRIDE in strides:
                continue
            # An axis of extent 1 may be the one that chooses a slot: it comes first.
            by_step = sorted(range(len(axes)), key=lambda axis: (shape_of(mine)[axis] != 1, -strides[axis]))
            size = math.prod(max(extent, 1) for extent in shape_of(mine))
            asked.setdefault(buffer, Counter())[_completed(buffer, [axes[axis] for axis in by_step])] += size
    return {buffer: counts.most_common(1)[0][0] for buffer, counts in asked.items()}


def _asked_by_neighbours(
    ops: Sequence[ir.Operation], buffers: Sequence[Value], known: dict[Value, Order]
) -> dict[Value, Order]:
    """For each buffer without an order: the order of another operand of an op, if all loops that walk the buffer walk
    that operand too."""
    found: dict[Value, Order] = {}
    for op in ops:
        operands = zip(op.operands, indexing_maps(op), strict=True)
        shaped = [(value, each) for value, each in operands if isinstance(value.type, ir.MemRefType)]
        walks = [(*_buffer_of(value), axis_loops(each)) for value, each in shaped]
        for buffer, axes, loops in walks:
            if buffer not in buffers or buffer in found:
                continue
            for other, their_axes, their_loops in walks:
                if other not in known or not {*loops} <= {*their_loops}:
                    continue
                place = [known[other].index(axis) for axis in their_axes]
                by_step = sorted(range(len(axes)), key=lambda axis: place[their_loops.index(loops[axis])])
                found[buffer] = _completed(buffer, [axes[axis] for axis in by_step])
                break
    return found


def _buffer_of(value: Value) -> tuple[Value, list[int]]:
    """Returns the buffer of a view, and the buffer's axis for each axis of the view."""
    axes = list(range(len(shape_of(value))))
    while (op := maker(value)) is not None and op.name == "memref.subview":
        kept = kept_axes(op)
        axes = [kept[axis] for axis in axes]
        value = op.operands[0]
    if op is not None and op.name != "memref.alloc":  # another view, of a tensor: its type has the strides
        value = root_of(value)
    return value, axes


def _completed(buffer: Value, order: list[int]) -> Order:
    """Puts the axes that no view has first, such as the axis of slots."""
    return (*(axis for axis in range(len(shape_of(buffer))) if axis not in order), *order)


def _lay_out(buffer: Value, order: Order) -> None:
    """Gives a buffer the strides of this order of axes, for all ops but the one that frees it, if its views keep their
    shapes."""
    shape = shape_of(buffer)
    strides = list(row_major(shape, order))
    if not _views_keep_shapes(buffer, strides):
        return
    made = maker(buffer)
    assert made is not None
    uses = list(buffer.uses)
    with made.context, made.location, ir.InsertionPoint.after(made):
        laid = recast(buffer, shape, strides, 0)
    for use in uses:
        if use.owner.operation.name != "memref.dealloc":
            use.owner.operation.operands[use.operand_number] = laid
    _retype(laid)


def _views_keep_shapes(value: Value, strides: Sequence[int]) -> bool:
    """True if the subviews of a memref keep their shapes with these strides.

    Two axes of one element may get the same stride. MLIR then takes the first for the dropped axis, although it may
    have been the second: `1x?` would become `?x1`.
    """
    for use in value.uses:
        op = use.owner.operation
        if op.name != "memref.subview":
            continue
        _, sizes, steps = subview_groups(op)
        kept = kept_axes(op)
        dropped = _first_alike(strides, sizes, [axis for axis in range(len(sizes)) if axis not in kept])
        left = [axis for axis in range(len(sizes)) if axis not in dropped]
        if [sizes[axis] for axis in left] != [sizes[axis] for axis in kept]:
            return False
        walked = [strides[axis] * step for axis, step in enumerate(steps) if axis in left and isinstance(step, int)]
        if not _views_keep_shapes(op.results[0], walked):
            return False
    return True


def _retype(value: Value) -> None:
    """Replaces the subviews of a memref by new subviews, whose types follow from the memref's type."""
    for use in list(value.uses):
        op = use.owner.operation
        if op.name != "memref.subview":
            continue
        offsets, sizes, steps = subview_groups(op)
        strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
        dropped = _first_alike(strides, sizes, [axis for axis in range(len(sizes)) if axis not in kept_axes(op)])
        with op.context, op.location, ir.InsertionPoint(op):
            made = subview(value, offsets, sizes, dropped, [step for step in steps if isinstance(step, int)])
        replace_op(op, made)
        _retype(made)


def _first_alike(strides: Sequence[int], sizes: Sequence[Value | int], dropped: Sequence[int]) -> list[int]:
    """The axes of one element that a subview drops, as MLIR finds them: of several with the same stride the first."""
    wanted, found = Counter(strides[axis] for axis in dropped), list[int]()
    for axis, size in enumerate(sizes):
        if size == 1 and wanted[strides[axis]]:
            wanted[strides[axis]] -= 1
            found.append(axis)
    return found
