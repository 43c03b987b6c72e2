# pyright: reportUnknownArgumentType=false
"""Makes gathers on tensors, and separates fused ones.

On tensors a gather's body takes its element with `tensor.extract`; bufferization turns that into the `memref.load` of
the scheduled form (see `mlir/indexed_moves.py`). Fusion puts arithmetic of elementwise neighbours beside the load, but
a DMA queue computes nothing: so a fused gather is split again, into a gather and an op on the gathered tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from workbench.mlir.bindings import Value, integer, integer_attribute, replace_op, segments, shape_of
from workbench.mlir.index_arithmetic import as_value
from workbench.mlir.indexed_moves import NotIndexed, body_slice, read_indexed
from workbench.mlir.linalg_loops import axis_loops, indexing_maps, iterators, loop_extents
from workbench.mlir.linalg_ops import (
    Read,
    clone_into,
    end_body,
    generic_with_body,
    linalg_ops,
    reads_of,
    with_reads,
)
from workbench.scheduling.passes.kernel_pass import module_pass


def gather(
    table: Value,
    indices: Sequence[tuple[Value, Sequence[int | None]]],
    axes: Sequence[int],
    kind: ir.RankedTensorType,
    *,
    wraps: bool = False,
) -> Value:
    """Gathers a tensor of type `kind` from elements of `table`, at the insertion point.

    `indices` are index tensors, each with the result's dim that walks each of its axes (None for a broadcast axis of
    extent one). `axes` has for each axis of `table` the result's dim that walks it, or `-1 - k` if the k-th index
    tensor chooses. With `wraps` a negative index counts from the end.
    """
    rank = len(kind.shape)
    maps = [_walk(rank, dims) for _, dims in indices] + [ir.AffineMap.get_identity(rank)]
    empty = tensor.EmptyOp(list(kind.shape), kind.element_type).result
    made, block = generic_with_body([value for value, _ in indices], [empty], maps, ["parallel"] * rank)
    with ir.InsertionPoint(block):
        extents = shape_of(table)
        places = [
            index_of(block.arguments[-1 - code], extents[axis] if wraps else None) if code < 0 else loop(code)
            for axis, code in enumerate(axes)
        ]
        element = tensor.ExtractOp(table, places).result
    end_body(block, [element])
    return made.results[0]


def index_of(number: Value, extent: int | None) -> Value:
    """An integer from a tensor as an MLIR index; if `extent` is given, a negative one counts from the end."""
    index = arith.IndexCastOp(ir.IndexType.get(), number).result
    if extent is None:
        return index
    zero, length = as_value(0), as_value(extent)
    below = arith.cmpi(arith.CmpIPredicate.slt, index, zero)
    return arith.select(below, arith.addi(index, length), index)


def loop(dim: int) -> Value:
    from torch_mlir.dialects import linalg

    return linalg.IndexOp(integer_attribute(dim)).result


def _walk(rank: int, dims: Sequence[int | None]) -> ir.AffineMap:
    same = ir.AffineExpr.get_constant(0)
    return ir.AffineMap.get(rank, 0, [same if dim is None else ir.AffineExpr.get_dim(dim) for dim in dims])


def holds_gathers(module: ir.Module) -> bool:
    return any(op.name == "linalg.generic" and _extracts(op) for op in linalg_ops(module))


@module_pass("npu-split-gathers")
def split_gathers(module: ir.Module) -> None:
    """Gives each fused gather an op of its own."""
    for op in linalg_ops(module):
        if op.name == "linalg.generic" and _extracts(op) and not _is_gather(op):
            _split(op)


def _extracts(op: ir.Operation) -> list[ir.Operation]:
    return [each.operation for each in op.regions[0].blocks[0].operations if each.operation.name == "tensor.extract"]


def _is_gather(op: ir.Operation) -> bool:
    try:
        return read_indexed(op) is not None
    except NotIndexed:
        return False


def _split(op: ir.Operation) -> None:
    """Replaces each extract of an op by a new operand, which a new gather before the op makes."""
    taken = _extracts(op)
    with ir.InsertionPoint(op):
        made = [_taken_out(op, each) for each in taken]
    block = op.regions[0].blocks[0]
    *_, ret = [each.operation for each in block.operations]
    needed = [ret, *body_slice(list(ret.operands), block, taken)]
    rest = [each.operation for each in block.operations if each.operation in needed]
    used = {value for each in rest for value in each.operands}
    kept = [number for number in range(segments(op)[0]) if block.arguments[number] in used]
    with ir.InsertionPoint(op), op.location:
        wider = with_reads(op, [*reads_of(op, kept), *made], rest)
    replace_op(op, *wider.results)


def _taken_out(op: ir.Operation, extract: ir.Operation) -> Read:
    """Makes a gather of `extract`'s elements, over the loops that its indices depend on; returns its read by the op."""
    block = op.regions[0].blocks[0]
    needed = [each for each in block.operations if each.operation in body_slice(list(extract.operands)[1:], block)]
    used = {value for each in (extract, *needed) for value in each.operands}
    numbers = [argument.arg_number for argument in block.arguments if argument in used]
    maps = indexing_maps(op)
    loops = {place for number in numbers for place in axis_loops(maps[number])}
    loops |= {integer(each.operation, "dim") for each in needed if each.operation.name == "linalg.index"}
    assert None not in loops, "an index that is read along no single loop"
    kept = sorted(each for each in loops if each is not None)
    extents = loop_extents(op, shape_of)
    shape = [extents[each] for each in kept]
    walks = [
        _walk(len(kept), [kept.index(place) for place in axis_loops(maps[number]) if place is not None])
        for number in numbers
    ]
    element = extract.results[0].type
    with extract.location:
        out = tensor.EmptyOp(shape, element).result
        walks.append(ir.AffineMap.get_identity(len(kept)))
        made, body = generic_with_body([op.operands[n] for n in numbers], [out], walks, ["parallel"] * len(kept))
        known: dict[Value, Value] = dict(
            zip([block.arguments[number] for number in numbers], body.arguments, strict=False)
        )
        clone_into(body, [*(each.operation for each in needed), extract], known, kept)
        end_body(body, [known[extract.results[0]]])
    return made.results[0], _walk(len(iterators(op)), kept), extract.results[0]
