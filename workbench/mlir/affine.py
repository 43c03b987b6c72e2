# pyright: reportAttributeAccessIssue=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
"""Index arithmetic of the scheduled form: computes values for given loop variables, and ranges over all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from workbench.mlir.bindings import DYNAMIC_STRIDE, Value, block_owning, constant, integers, maker, owner_of

FORALL_BOUNDS = ("staticLowerBound", "staticUpperBound", "staticStep")

Compiled = Callable[[Sequence[int]], int]


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds of an index."""

    low: int
    high: int


def compile_map(op: ir.Operation) -> list[Compiled]:
    """For each result of an op's map, a Python function that takes the op's operands and returns the result's value."""
    found = affine_map(op)
    return [compile_expr(expr, found.n_dims) for expr in found.results]


def compile_expr(expr: ir.AffineExpr, dims: int = 0) -> Compiled:
    """A Python function from the values of a map's `dims` dims and then its symbols to the expression's value."""
    if isinstance(expr, ir.AffineConstantExpr):
        number = expr.value
        return lambda dims: number
    if isinstance(expr, ir.AffineDimExpr):
        position = expr.position
        return lambda dims: dims[position]
    if isinstance(expr, ir.AffineSymbolExpr):
        after = dims + expr.position
        return lambda dims: dims[after]
    left, right = compile_expr(expr.lhs, dims), compile_expr(expr.rhs, dims)
    if isinstance(expr, ir.AffineAddExpr):
        return lambda dims: left(dims) + right(dims)
    if isinstance(expr, ir.AffineMulExpr):
        return lambda dims: left(dims) * right(dims)
    if isinstance(expr, ir.AffineModExpr):
        return lambda dims: left(dims) % right(dims)
    if isinstance(expr, ir.AffineFloorDivExpr):
        return lambda dims: left(dims) // right(dims)
    return lambda dims: -(-left(dims) // right(dims))


def range_of_expr(expr: ir.AffineExpr, operands: Sequence[Range], dims: int = 0) -> Range:
    """Bounds of the expression, if each operand (dims, then symbols) lies anywhere in its own range."""
    if isinstance(expr, ir.AffineConstantExpr):
        return Range(expr.value, expr.value)
    if isinstance(expr, ir.AffineDimExpr):
        return operands[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return operands[dims + expr.position]
    left, right = range_of_expr(expr.lhs, operands, dims), range_of_expr(expr.rhs, operands, dims)
    if isinstance(expr, ir.AffineAddExpr):
        return Range(left.low + right.low, left.high + right.high)
    if isinstance(expr, ir.AffineModExpr):
        return Range(0, right.high - 1)
    corners = [_combine(expr, a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return Range(min(corners), max(corners))


def _combine(expr: ir.AffineExpr, left: int, right: int) -> int:
    if isinstance(expr, ir.AffineMulExpr):
        return left * right
    return left // right if isinstance(expr, ir.AffineFloorDivExpr) else -(-left // right)


def constant_of(value: Value) -> int | None:
    """The integer of an SSA value that an `arith.constant` makes; None for any other value."""
    number = constant(value)
    return None if number is None else ir.IntegerAttr(number).value


def affine_map(op: ir.Operation) -> ir.AffineMap:
    """The map of an `affine.apply`, `affine.min` or `affine.max`."""
    return ir.AffineMapAttr(op.attributes["map"]).value


def range_of(value: Value) -> Range:
    """Bounds of an index value over all iterations of the loops around it."""
    op = maker(value)
    if op is None:
        loop = owner_of(block_owning(value))
        if loop.name == "scf.forall":
            low, high, _ = forall_bounds(loop)[ir.BlockArgument(value).arg_number]
        else:
            low, high, _ = loop_bounds(loop)
        return Range(low, high - 1)
    if (number := constant_of(value)) is not None:
        return Range(number, number)
    operands, found = [range_of(operand) for operand in op.operands], affine_map(op)
    results = [range_of_expr(expr, operands, found.n_dims) for expr in found.results]
    if op.name == "affine.max":
        return Range(max(each.low for each in results), max(each.high for each in results))
    return Range(min(each.low for each in results), min(each.high for each in results))


def loop_bounds(loop: ir.Operation) -> tuple[int, int, int]:
    """Lower bound, upper bound and step of an `scf.for`; if the upper bound varies, its largest value."""
    low, step = constant_of(loop.operands[0]), constant_of(loop.operands[2])
    assert low is not None and step is not None, "where a loop of the scheduled form begins, and its step, are constant"
    return low, range_of(loop.operands[1]).high, step


def forall_bounds(loop: ir.Operation) -> list[tuple[int, int, int]]:
    """Lower bound, upper bound and step of each dim of an `scf.forall`, which are constants."""
    low, high, step = (integers(loop, name) for name in FORALL_BOUNDS)
    assert DYNAMIC_STRIDE not in (*low, *high, *step), "what is spread over cores is known beforehand"
    return list(zip(low, high, step, strict=True))
