"""Writes index arithmetic at the insertion point; results that can only be one number are returned as numbers."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import affine, arith, scf

from workbench.mlir.affine import range_of
from workbench.mlir.bindings import Index, Value


def as_value(index: Index) -> Value:
    """An index as an SSA value; a number becomes a constant."""
    return arith.ConstantOp(ir.IndexType.get(), index).result if isinstance(index, int) else index


def scf_loop(end: Index, step: Index = 1) -> tuple[Value, ir.Operation]:
    """Writes a loop from 0 at the insertion point; returns its variable, and the op before which its body belongs."""
    made = scf.ForOp(as_value(0), as_value(end), as_value(step))
    with ir.InsertionPoint(made.body):
        return made.induction_variable, scf.YieldOp([]).operation


def weighted(*terms: tuple[Index, int]) -> Index:
    """The sum of indices, each with its factor."""
    total: ir.AffineExpr = ir.AffineConstantExpr.get(0)
    values: list[Value] = []
    for index, factor in terms:
        if isinstance(index, int):
            total = total + index * factor
        else:
            total = total + ir.AffineDimExpr.get(len(values)) * factor
            values.append(index)
    if not values:
        return sum(index * factor for index, factor in terms if isinstance(index, int))
    if len(values) == 1 and isinstance(total, ir.AffineDimExpr):
        return values[0]
    return _settled(affine.AffineApplyOp(ir.AffineMap.get(len(values), 0, [total]), values).result)


def least(*choices: Index) -> Index:
    """The smallest of several indices."""
    return _chosen(choices, affine.AffineMinOp)


def greatest(*choices: Index) -> Index:
    """The largest of several indices."""
    return _chosen(choices, affine.AffineMaxOp)


def _chosen(choices: tuple[Index, ...], op: Any) -> Index:
    values = [each for each in choices if not isinstance(each, int)]
    numbers = [each for each in choices if isinstance(each, int)]
    if not values:
        return min(numbers) if op is affine.AffineMinOp else max(numbers)
    exprs: list[ir.AffineExpr] = [ir.AffineDimExpr.get(place) for place in range(len(values))]
    exprs += [ir.AffineConstantExpr.get(number) for number in numbers]
    return _settled(op(ir.AffineMap.get(len(values), 0, exprs), values).result)


def _settled(value: Value) -> Index:
    """The number, if a value is the same in every iteration; else the value."""
    bounds = range_of(value)
    return bounds.low if bounds.low == bounds.high else value
