"""Roundings of constants: moved before the loop, and those that torch-mlir leaves out.

A number in an ATen call is a double. torch-mlir puts the double before the loop and its conversion into the body, so
that every element repeats it, and MLIR folds only exact conversions. PyTorch rounds the number once, and so do we.

A tensor that is compared with a number is widened to the double by torch-mlir. PyTorch rounds the number to the
tensor's type, so that the number that a tensor was filled with is equal to itself.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import Value, maker, named


def round_constants(module: ir.Module) -> None:
    """Puts the rounded number in place of every rounding of a constant; in place."""
    for op in named(module, "arith.truncf"):
        source = maker(op.operands[0])
        if source is None or source.name != "arith.constant":
            continue
        kind = op.results[0].type
        if not isinstance(kind, ir.FloatType):
            continue
        with ir.InsertionPoint(source), op.location:
            value = ir.FloatAttr(source.attributes["value"]).value
            rounded = arith.ConstantOp(kind, ir.FloatAttr.get(kind, value)).result
        op.results[0].replace_all_uses_with(rounded)
        op.erase()


def round_compared(module: ir.Module) -> None:
    """Compares a tensor's elements with a number in their own type; in place."""
    for op in named(module, "arith.cmpf"):
        narrow = [_widened_in(op, value) for value in op.operands]
        number = [_number(value) for value in op.operands]
        for place, other in ((0, 1), (1, 0)):
            element, value = narrow[place], number[other]
            if element is None or value is None:
                continue
            with ir.InsertionPoint(op), op.location:
                rounded = arith.ConstantOp(element.type, ir.FloatAttr.get(element.type, value)).result
                pair = (element, rounded) if place == 0 else (rounded, element)
                made = arith.CmpFOp(op.attributes["predicate"], *pair).result
            op.results[0].replace_all_uses_with(made)
            op.erase()
            break


def _widened_in(op: ir.Operation, value: Value) -> Value | None:
    """What is widened to a value in the same body as an op: a cast of the user's has a body of its own."""
    source = maker(value)
    if source is None or source.name != "arith.extf" or source.block != op.block:
        return None
    return source.operands[0]


def _number(value: Value) -> float | None:
    source = maker(value)
    if source is None or source.name != "arith.constant":
        return None
    return ir.FloatAttr(source.attributes["value"]).value
