# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""Reductions for builders: fold dims of an operand into one number or several numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from workbench.mlir.bindings import Value
from workbench.mlir.index_arithmetic import as_value
from workbench.mlir.linalg_ops import end_body, generic_with_body
from workbench.scheduling.kernels.node_builder import NodeBuilder, converted, one_number, wide_type


def reduced_dims(op: NodeBuilder, rank: int) -> tuple[int, ...]:
    """The dims that a node reduces, counted from the front: those of its argument `dim`, or all if it has none."""
    given = op.arguments.get("dim")
    dims = given if isinstance(given, tuple) else () if given is None else (given,)
    return tuple(sorted(int(dim) % max(rank, 1) for dim in dims if isinstance(dim, int))) or tuple(range(rank))


def fold(
    op: NodeBuilder, operand: Value, start: Sequence[Value], fn: Callable[..., Sequence[Value]], keepdim: bool = False
) -> tuple[Value, ...]:
    """Makes a `linalg.generic` that folds the dims that a node reduces. `start` has the initial numbers, of any types.

    `fn` gets one number of the operand, the numbers so far, and a function `place()` that makes the element's index
    among the folded ones; it returns the new numbers. The results have the dims of the node's result.
    """
    from torch_mlir.dialects import linalg

    shape = list(ir.RankedTensorType(operand.type).shape)
    rank = len(shape)
    dims = [dim for dim in reduced_dims(op, rank) if rank]
    kept = [dim for dim in range(rank) if dim not in dims or keepdim]
    place = [ir.AffineExpr.get_constant(0) if dim in dims else ir.AffineExpr.get_dim(dim) for dim in kept]
    maps = [ir.AffineMap.get_identity(rank), *[ir.AffineMap.get(rank, 0, place)] * len(start)]
    kinds = ["reduction" if dim in dims else "parallel" for dim in range(rank)]
    outs: list[Value] = []
    for number in start:
        empty = tensor.EmptyOp([1 if dim in dims else shape[dim] for dim in kept], number.type).result
        outs.append(linalg.fill(number, outs=[empty]))
    generic, body = generic_with_body([operand], outs, maps, kinds)
    with ir.InsertionPoint(body):
        made = [one_number(each) for each in fn(*body.arguments, lambda: _place(dims, shape))]
    end_body(body, made)
    return tuple(generic.results)


def _place(dims: Sequence[int], shape: Sequence[int]) -> Value:
    """The index of an element among the folded ones, in row-major order."""
    from torch_mlir.dialects import linalg

    found: Value = linalg.IndexOp(dims[0]).result if dims else as_value(0)
    for dim in dims[1:]:
        found = arith.AddIOp(arith.MulIOp(found, as_value(shape[dim])).result, linalg.IndexOp(dim).result).result
    return found


def fold_numbers(
    op: NodeBuilder, start: bool | float, fn: Callable[[Value, Value], Value], through: ir.Type | None = None
) -> Value:
    """Folds the node's only operand to the result's type; 16-bit floats are folded in f32 and rounded at the end.

    With `through`, the numbers are converted to that type first.
    """
    (operand,) = op.operands
    wide, unsigned = wide_type(op.element), op.is_unsigned(operand)

    def one(number: Value, so_far: Value, place: object) -> list[Value]:
        if through is not None:
            number = converted(number, through, unsigned)
        return [fn(converted(number, wide, unsigned), so_far)]

    (total,) = fold(op, operand, [op.number(start, like=wide)], one, bool(op.arguments.get("keepdim")))
    return total if wide == op.element else op.elementwise(lambda x: x, total, compute="result")
