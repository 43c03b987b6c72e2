"""Cuts long sums into blocks, each of which begins at zero.

If n floats are added one after the other, the sum loses digits as it grows: near the end each addition rounds to the
last place of the whole sum. For three million numbers near 1,000 in f32 that leaves an error of 3e-4. So a loop that
sums is cut into blocks, and a block's sum is added to the total when it is complete: only one addition for each block
rounds to the last place of the whole, instead of one for each number.

A block has one sum, or, if the innermost loop walks a dim that is not summed over, one for each element of that dim:
`WIDTH` at a time, in a buffer that stays in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from workbench.mlir.bindings import (
    DYNAMIC_EXTENT,
    Index,
    Value,
    block_of,
    integer,
    owner_of,
    replace_op,
    segments,
    shape_of,
)
from workbench.mlir.index_arithmetic import as_value, scf_loop
from workbench.mlir.linalg_loops import axis_loops, indexing_maps, is_opened, iterators
from workbench.mlir.linalg_ops import end_body, generic, generic_with_body
from workbench.mlir.memrefs import subview

BLOCK: Final = 512
"""Numbers that a block adds one after the other, along each dim that is summed over."""

LANES: Final = 16
"""Sums that a vector register makes of the innermost loop: each adds a part of the numbers."""

WIDTH: Final = 1024
"""The most sums that a block makes side by side."""

SHORT: Final = 32
"""The fewest numbers that are cut into blocks. With fewer, a block's own sum takes longer and rounds hardly less."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The part of a dim in one block: `size` elements from `start`, or the single element there if `size` is None."""

    start: Index
    size: Index | None


def cut_into_blocks(op: ir.Operation) -> None:
    """Puts loops over blocks around a `linalg.generic` that adds floats up; leaves any other op as it is."""
    if not is_opened(op) or not _only_adds_floats(op):
        return
    kinds = iterators(op)
    extents = [_extent_of(op, dim) for dim in range(len(kinds))]
    if _is_short([extent for extent, kind in zip(extents, kinds, strict=True) if kind == "reduction"]):
        return
    innermost = len(kinds) - 1
    side_by_side = kinds[innermost] == "parallel"
    steps = dict.fromkeys((dim for dim in range(innermost) if kinds[dim] == "parallel"), 1)
    if side_by_side:
        steps[innermost] = WIDTH
    steps |= {dim: BLOCK for dim in range(len(kinds)) if kinds[dim] == "reduction"}
    if not side_by_side:
        steps[innermost] = BLOCK * LANES
    point, stretches = ir.InsertionPoint(op), dict[int, _Stretch]()
    with op.context, op.location:
        for dim, step in steps.items():
            point, stretches[dim] = _loop(point, extents[dim], step)
        with point:
            _Block(op, stretches, innermost if side_by_side else None).write()
    op.erase()


def _only_adds_floats(op: ir.Operation) -> bool:
    """True if each result is its old value plus a term that does not depend on it."""
    block = op.regions[0].blocks[0]
    *_, end = block.operations
    outputs = list(block.arguments)[segments(op)[0] :]
    if len(outputs) != len(end.operation.operands):
        return False
    for old, new in zip(outputs, end.operation.operands, strict=True):
        uses = [use.owner.operation for use in old.uses]
        if [each.name for each in uses] != ["arith.addf"] or uses[0].results[0] != new:
            return False
    return True


def _extent_of(op: ir.Operation, dim: int) -> tuple[Value, int]:
    """The first operand with an axis that the dim walks, and that axis."""
    for value, indexing in zip(op.operands, indexing_maps(op), strict=True):
        if dim in (loops := axis_loops(indexing)):
            return value, loops.index(dim)
    raise AssertionError("linalg has each loop's extent in some operand")


def _is_short(extents: Sequence[tuple[Value, int]]) -> bool:
    count = 1
    for value, axis in extents:
        size = shape_of(value)[axis]
        if size == DYNAMIC_EXTENT:
            return False
        count *= size
    return count < SHORT


def _loop(point: ir.InsertionPoint, extent: tuple[Value, int], step: int) -> tuple[ir.InsertionPoint, _Stretch]:
    """Writes a loop over a dim in steps, unless a single step covers the dim. Returns where the loop's body is written,
    and the part of the dim in the body."""
    value, axis = extent
    size = shape_of(value)[axis]
    if size != DYNAMIC_EXTENT and size <= step:
        return point, _Stretch(0, size if step > 1 else None)
    with point:
        high = as_value(size) if size != DYNAMIC_EXTENT else memref.DimOp(value, as_value(axis)).result
        place, end = scf_loop(high, step)
    inside = ir.InsertionPoint(end)
    if step == 1:
        return inside, _Stretch(place, None)
    if size != DYNAMIC_EXTENT and size % step == 0:
        return inside, _Stretch(place, step)
    with inside:
        rest = arith.SubIOp(high, place).result
        return inside, _Stretch(place, arith.MinSIOp(as_value(step), rest).result)


@dataclass(frozen=True)
class _Block:
    """One block of an op that sums. Its loops are over the dims of the op whose part of the block has a size."""

    op: ir.Operation
    stretches: Mapping[int, _Stretch]
    side_by_side: int | None

    def write(self) -> None:
        """Writes the block's sums at the insertion point: they start from zero and are then added to the output."""
        inputs, _ = segments(self.op)
        operands, maps = list(self.op.operands), indexing_maps(self.op)
        parts = [self._part(*each) for each in zip(operands, maps, strict=True)]
        sums = [self._zeros(value) for value in operands[inputs:]]
        summed = [*parts[:inputs], *((each, parts[inputs][1]) for each in sums)]
        loops = [dim for dim in sorted(self.stretches) if self.stretches[dim].size is not None]
        self._renumber_indices(loops)
        body = self.op.regions[0].blocks[0]
        kinds = ["parallel" if dim == self.side_by_side else "reduction" for dim in loops]
        every = [value for value, _ in summed]
        made = generic(every[:inputs], every[inputs:], _walks(summed, loops), kinds)
        body.append_to(made.regions[0])
        for (old, axes), new in zip(parts[inputs:], sums, strict=True):
            _add(new, old, axes)

    def _part(self, value: Value, indexing: ir.AffineMap) -> tuple[Value, list[int]]:
        """The part of an operand that the block needs, and the dim that walks each axis of this part."""
        if not isinstance(value.type, ir.MemRefType):
            return value, []
        offsets, sizes, dropped, axes = list[Index](), list[Index](), list[int](), list[int]()
        for axis, dim in enumerate(axis_loops(indexing)):
            if dim is None:
                stretch = _Stretch(ir.AffineConstantExpr(indexing.results[axis]).value, None)
            else:
                stretch = self.stretches[dim]
            offsets.append(stretch.start)
            sizes.append(1 if stretch.size is None else stretch.size)
            if dim is None or stretch.size is None:
                dropped.append(axis)
            else:
                axes.append(dim)
        whole = offsets == [0] * len(offsets) and sizes == shape_of(value) and not dropped
        return value if whole else subview(value, offsets, sizes, dropped), axes

    def _zeros(self, like: Value) -> Value:
        """A buffer for the block's sums, allocated once in the function and filled with -0.0, which changes no sum."""
        from torch_mlir.dialects import linalg

        kind = ir.MemRefType(like.type)
        size = None if self.side_by_side is None else self.stretches[self.side_by_side].size
        shape = [] if size is None else [size if isinstance(size, int) else WIDTH]
        with ir.InsertionPoint.at_block_begin(_entry(self.op)):
            buffer = memref.AllocaOp(ir.MemRefType.get(shape, kind.element_type), [], []).result
        if size is not None and not isinstance(size, int):
            buffer = subview(buffer, [0], [size])
        fill: Any = linalg.fill
        fill(arith.ConstantOp(kind.element_type, ir.FloatAttr.get(kind.element_type, -0.0)).result, outs=[buffer])
        return buffer

    def _renumber_indices(self, loops: list[int]) -> None:
        """Replaces each `linalg.index` in the body by the index in the block's loops plus the block's start."""
        from torch_mlir.dialects import linalg

        for each in list(self.op.regions[0].blocks[0].operations):
            if each.operation.name != "linalg.index":
                continue
            dim = integer(each.operation, "dim")
            start = self.stretches[dim].start
            place = as_value(start)
            if dim in loops:
                with ir.InsertionPoint(each.operation):
                    place = arith.AddIOp(linalg.IndexOp(loops.index(dim)).result, place).result
            replace_op(each.operation, place)


def _entry(op: ir.Operation) -> ir.Block:
    """The first block of the function that the op is in."""
    while op.name != "func.func":
        op = owner_of(block_of(op))
    return op.regions[0].blocks[0]


def _walks(operands: Sequence[tuple[Value, list[int]]], loops: Sequence[int]) -> list[ir.AffineMap]:
    """The indexing map of each operand, from the loop that walks each of its axes."""
    number = {loop: ir.AffineDimExpr.get(position) for position, loop in enumerate(loops)}
    return [ir.AffineMap.get(len(loops), 0, [number[loop] for loop in axes]) for _, axes in operands]


def _add(new: Value, old: Value, axes: list[int]) -> None:
    """Adds a block's sums to the output."""
    walks = _walks([(new, axes), (old, axes)], axes)
    _, body = generic_with_body([new], [old], walks, ["parallel"] * len(axes))
    with ir.InsertionPoint(body):
        total = arith.AddFOp(*body.arguments).result
    end_body(body, [total])
