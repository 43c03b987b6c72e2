"""Numbers as PyTorch computes them, where torch-mlir rounds, compares or chooses them otherwise.

A number in an ATen call is a double. torch-mlir puts the double before the loop and its conversion into the body, so
that every element repeats it, and MLIR folds only exact conversions. PyTorch rounds the number once, and so do we.

A tensor that is compared with a number is widened by torch-mlir. PyTorch rounds the number to the type of a tensor of
floats, so that the number that a tensor was filled with is equal to itself. Whole numbers widened to 64 bits are four
operations of 32 for each element. Where the number fits in the elements' type, the comparison in that type says the
same.

The larger of two numbers is a comparison and a select for torch-mlir, which gives the wrong one of the two if one is
NaN. PyTorch gives NaN, as `arith.maximumf` does, and a vector unit computes it in one operation.
"""

from __future__ import annotations

from typing import Any, Final

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import constant, integer, integer_attribute, maker, named, replace_op

_WIDENINGS: Final = ("arith.extf", "arith.extsi", "arith.extui")

_SIGNED: Final = (2, 3, 4, 5)
"""Predicates of `arith.cmpi`, by number."""

_TO_UNSIGNED: Final = 4
"""From a signed predicate to the same without signs."""

_UNSIGNED: Final = tuple(predicate + _TO_UNSIGNED for predicate in _SIGNED)

_LARGER: Final = {"arith.cmpf": (2, 3, 9, 10), "arith.cmpi": (4, 5, 8, 9)}
"""Predicates, by number, that hold when the left operand is larger."""

_SMALLER: Final = {"arith.cmpf": (4, 5, 11, 12), "arith.cmpi": (2, 3, 6, 7)}


def round_constants(module: ir.Module) -> None:
    """Puts the rounded number in place of every rounding of a constant; in place."""
    for op in named(module, "arith.truncf"):
        source, kind = maker(op.operands[0], "arith.constant"), op.results[0].type
        if source is None or not isinstance(kind, ir.FloatType):
            continue
        with ir.InsertionPoint(source), op.location:
            value = ir.FloatAttr(source.attributes["value"]).value
            rounded = arith.ConstantOp(kind, ir.FloatAttr.get(kind, value)).result
        replace_op(op, rounded)


def narrow_compared(module: ir.Module) -> None:
    """Compares elements that are widened for a comparison with a number in their own type; in place."""
    for op in [*named(module, "arith.cmpf"), *named(module, "arith.cmpi")]:
        for place, other in ((0, 1), (1, 0)):
            widening, number = maker(op.operands[place], *_WIDENINGS), constant(op.operands[other])
            if widening is None or number is None or (narrow := _narrow(op, widening, number)) is None:
                continue
            element, (number, predicate) = widening.operands[0], narrow
            compare: Any = arith.CmpFOp if op.name == "arith.cmpf" else arith.CmpIOp
            with ir.InsertionPoint(op), op.location:
                pair = [element, arith.ConstantOp(element.type, number).result]
                made = compare(integer_attribute(predicate), pair[place], pair[other]).result
            replace_op(op, made)
            break


def _narrow(op: ir.Operation, widening: ir.Operation, number: ir.Attribute) -> tuple[ir.Attribute, int] | None:
    """The number in the elements' type, with the predicate to compare it by; None if it has to be compared widened.

    Elements that were widened without a sign are compared without one.
    """
    kind, predicate = widening.operands[0].type, integer(op, "predicate")
    if isinstance(kind, ir.FloatType):
        same_body = widening.block == op.block  # a cast of the user's has a body of its own
        with op.location:
            return (ir.FloatAttr.get(kind, ir.FloatAttr(number).value), predicate) if same_body else None
    if not isinstance(kind, ir.IntegerType):
        return None
    value, half, signed = ir.IntegerAttr(number).value, 1 << (kind.width - 1), widening.name == "arith.extsi"
    if not (-half <= value < half if signed else 0 <= value < 2 * half):
        return None
    if not signed and predicate in _SIGNED:
        predicate += _TO_UNSIGNED
    return ir.IntegerAttr.get(kind, value if value < half else value - 2 * half), predicate


def choose_extremes(module: ir.Module) -> None:
    """Replaces every select between two numbers by their comparison with one operation; in place."""
    for op in named(module, "arith.select"):
        condition, then, otherwise = op.operands
        compared = maker(condition, *_LARGER)
        kept, swapped = [then, otherwise], [otherwise, then]
        if compared is None or list(compared.operands) not in (kept, swapped):
            continue
        predicate = integer(compared, "predicate")
        larger, smaller = predicate in _LARGER[compared.name], predicate in _SMALLER[compared.name]
        if not larger and not smaller:
            continue
        largest = larger == (list(compared.operands) == kept)
        if compared.name == "arith.cmpf":
            made = arith.MaximumFOp if largest else arith.MinimumFOp
        elif predicate in _UNSIGNED:
            made = arith.MaxUIOp if largest else arith.MinUIOp
        else:
            made = arith.MaxSIOp if largest else arith.MinSIOp
        with ir.InsertionPoint(op), op.location:
            result = made(then, otherwise).result
        replace_op(op, result)
