"""Makes numbers what PyTorch computes, where torch-mlir rounds, compares or selects differently.

A number in an ATen call is a double. torch-mlir puts the double before the loop and its conversion into the body, so
that every element repeats the conversion, and MLIR folds only exact conversions. PyTorch rounds the number once, and so
do we.

torch-mlir widens a tensor that is compared with a number. PyTorch instead rounds the number to the type of a float
tensor, so that a tensor filled with a number equals that number. Integers widened to 64 bits cost four 32-bit
operations for each element. If the number fits in the elements' type, the comparison in that type has the same result.

torch-mlir computes the larger of two numbers by a comparison and a select, which may return the wrong one if one is
NaN. PyTorch returns NaN, as `arith.maximumf` does, and a vector unit computes that in one operation.
"""

from __future__ import annotations

from typing import Any, Final

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import constant, integer, integer_attribute, maker, named, replace_op

_WIDENINGS: Final = ("arith.extf", "arith.extsi", "arith.extui")

_SIGNED: Final = (2, 3, 4, 5)
"""Signed order predicates of `arith.cmpi`: less, less or equal, greater, greater or equal."""

_TO_UNSIGNED: Final = 4
"""The difference between an unsigned predicate and the same signed predicate."""

_UNSIGNED: Final = tuple(predicate + _TO_UNSIGNED for predicate in _SIGNED)

_LARGER: Final = {"arith.cmpf": (2, 3, 9, 10), "arith.cmpi": (4, 5, 8, 9)}
"""Predicates, by number, that hold when the left operand is larger."""

_SMALLER: Final = {"arith.cmpf": (4, 5, 11, 12), "arith.cmpi": (2, 3, 6, 7)}


def round_constants(module: ir.Module) -> None:
    """Replaces every rounding of a constant by the rounded constant; in place."""
    for op in named(module, "arith.truncf"):
        source, kind = maker(op.operands[0], "arith.constant"), op.results[0].type
        if source is None or not isinstance(kind, ir.FloatType):
            continue
        with ir.InsertionPoint(source), op.location:
            value = ir.FloatAttr(source.attributes["value"]).value
            rounded = arith.ConstantOp(kind, ir.FloatAttr.get(kind, value)).result
        replace_op(op, rounded)


def narrow_compared(module: ir.Module) -> None:
    """Removes the widening of elements that are compared with a number: compares in their own type; in place."""
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
    """The number in the elements' type, and the predicate; None if the elements must be widened.

    Elements that were widened as unsigned are compared as unsigned.
    """
    kind, predicate = widening.operands[0].type, integer(op, "predicate")
    if isinstance(kind, ir.FloatType):
        if widening.block != op.block:  # a cast by the user is in another body
            return None
        return ir.FloatAttr.get(kind, ir.FloatAttr(number).value, op.location), predicate
    if not isinstance(kind, ir.IntegerType):
        return None
    value, half, signed = ir.IntegerAttr(number).value, 1 << (kind.width - 1), widening.name == "arith.extsi"
    if not (-half <= value < half if signed else 0 <= value < 2 * half):
        return None
    if not signed and predicate in _SIGNED:
        predicate += _TO_UNSIGNED
    return ir.IntegerAttr.get(kind, value if value < half else value - 2 * half), predicate


def choose_extremes(module: ir.Module) -> None:
    """Replaces every comparison and select that gives the larger or smaller of two numbers by one op; in place."""
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
