"""Walks windows point by point, on tiles in the scratchpad.

An op that moves a window becomes loops over the window's points, with a plain op for one point inside. The plain op
reads a box of the tile, with a stride along an axis if the window has one. So a convolution becomes a chain of matrix
products into one accumulator, and a pool a chain of vector passes.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch_mlir import ir
from torch_mlir.dialects import scf

from workbench.mlir.bindings import Index, Value, integer, integer_attribute, replace_op, segments
from workbench.mlir.index_arithmetic import as_value, weighted
from workbench.mlir.linalg_loops import (
    Terms,
    axis_terms,
    indexing_maps,
    is_opened,
    iterators,
    loop_extents,
    window_loops,
)
from workbench.mlir.linalg_ops import generic, linalg_ops
from workbench.mlir.memrefs import mixed_shape, subview
from workbench.scheduling.passes.kernel_pass import module_pass


def has_windows(module: ir.Module) -> bool:
    """True if some op indexes an axis by more than a plain loop."""
    return not all(is_opened(op) for op in linalg_ops(module))


@module_pass("npu-walk-windows")
def walk_windows(module: ir.Module) -> None:
    """Replaces each op that indexes an axis by more than a plain loop by loops over its window's points."""
    with module.context:
        for op in linalg_ops(module):
            if not is_opened(op):
                _walk(op)


def _walk(op: ir.Operation) -> None:
    windows, extents = window_loops(op), loop_extents(op, mixed_shape)
    place: dict[int, Index] = dict.fromkeys(windows, 0)
    with op.location:
        point = ir.InsertionPoint(op)
        for loop in windows:
            if extents[loop] != 1:
                with point:
                    made = scf.ForOp(as_value(0), as_value(extents[loop]), as_value(1))
                    with ir.InsertionPoint(made.body):
                        scf.YieldOp([])
                place[loop] = made.induction_variable
                point = ir.InsertionPoint.at_block_terminator(made.body)
        with point:
            _standing(op, place, extents)
    op.erase()


def _standing(op: ir.Operation, place: Mapping[int, Index], extents: Mapping[int, Index]) -> None:
    """Makes the plain op for the point `place` of the windows, at the insertion point."""
    kinds = iterators(op)
    kept = [loop for loop in range(len(kinds)) if loop not in place]
    number = {loop: position for position, loop in enumerate(kept)}
    block, inputs = op.regions[0].blocks[0], segments(op)[0]
    # An operand that the body does not use only gave the window's size.
    used = [position >= inputs or bool(list(argument.uses)) for position, argument in enumerate(block.arguments)]
    operands: list[Value] = []
    maps: list[ir.AffineMap] = []
    for wanted, value, indexing in zip(used, op.operands, indexing_maps(op), strict=True):
        if not wanted:
            continue
        if isinstance(value.type, ir.MemRefType):
            value, axes = _box(value, axis_terms(indexing), place, extents)
            exprs = [ir.AffineDimExpr.get(number[loop]) for loop in axes]
        else:
            exprs = []
        operands.append(value)
        maps.append(ir.AffineMap.get(len(kept), 0, exprs))
    reads = sum(used[:inputs])
    made = generic(operands[:reads], operands[reads:], maps, [kinds[loop] for loop in kept])
    for name in op.attributes:
        if name.startswith("npu."):
            made.attributes[name] = op.attributes[name]
    _renumber(block, number, place)
    block.append_to(made.regions[0])
    for position in reversed(range(len(used))):
        if not used[position]:
            block.erase_argument(position)


def _box(
    value: Value, axes: list[Terms], place: Mapping[int, Index], extents: Mapping[int, Index]
) -> tuple[Value, list[int]]:
    """The part of a tile that the op reads at the point `place`, and the loop that walks each axis of that part."""
    offsets: list[Index] = []
    sizes: list[Index] = []
    steps: list[int] = []
    walked: list[int] = []
    for terms in axes:
        offsets.append(weighted(*((place[loop], factor) for loop, factor in terms if loop in place)))
        over = [(loop, factor) for loop, factor in terms if loop not in place]
        assert len(over) <= 1, "an axis walked by two loops over results"
        sizes.append(extents[over[0][0]] if over else 1)
        steps.append(over[0][1] if over else 1)
        walked += [loop for loop, _ in over]
    dropped = [axis for axis, terms in enumerate(axes) if all(loop in place for loop, _ in terms)]
    whole = steps == [1] * len(steps) and offsets == [0] * len(offsets) and sizes == mixed_shape(value) and not dropped
    return value if whole else subview(value, offsets, sizes, dropped, steps), walked


def _renumber(block: ir.Block, number: Mapping[int, int], place: Mapping[int, Index]) -> None:
    """Renumbers the `linalg.index` ops of the body to the remaining loops; others become the point's index."""
    for each in list(block.operations):
        if each.operation.name == "linalg.index":
            loop = integer(each.operation, "dim")
            if loop in number:
                each.operation.attributes["dim"] = integer_attribute(number[loop])
            else:
                replace_op(each.operation, as_value(place[loop]))
