"""Whole numbers of a tensor compared with a number in their own type.

torch-mlir widens the elements to 64 bits, which are four operations of 32 for each of them. Where the number fits in
the elements' type, the comparison in that type says the same.
"""

from __future__ import annotations

from typing import Final

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import Value, integer, maker, named

_SIGNED: Final = (2, 3, 4, 5)
"""Predicates of `arith.cmpi`, by number."""

_TO_UNSIGNED: Final = 4
"""From a signed predicate to the same without signs."""


def narrow_compared(module: ir.Module) -> None:
    """Compares elements that are widened for a comparison with a number as they are, if the number fits; in place."""
    for op in named(module, "arith.cmpi"):
        for place, other in ((0, 1), (1, 0)):
            widening, number = maker(op.operands[place]), _number(op.operands[other])
            if widening is None or widening.name not in ("arith.extsi", "arith.extui") or number is None:
                continue
            signed, element = widening.name == "arith.extsi", widening.operands[0]
            kind = element.type
            if isinstance(kind, ir.IntegerType) and _fits(number, kind.width, signed=signed):
                _compare(op, element, number, first=place == 0, signed=signed)
                break


def _compare(op: ir.Operation, element: Value, number: int, *, first: bool, signed: bool) -> None:
    """Puts a comparison in the element's type in the op's place. Elements that were widened without a sign are compared
    without one."""
    kind, predicate = ir.IntegerType(element.type), integer(op, "predicate")
    if not signed and predicate in _SIGNED:
        predicate += _TO_UNSIGNED
    with ir.InsertionPoint(op), op.location:
        bits = number if number < 1 << (kind.width - 1) else number - (1 << kind.width)
        constant = arith.ConstantOp(kind, ir.IntegerAttr.get(kind, bits)).result
        pair = (element, constant) if first else (constant, element)
        made = arith.CmpIOp(predicate, *pair).result
    op.results[0].replace_all_uses_with(made)
    op.erase()


def _fits(number: int, width: int, *, signed: bool) -> bool:
    half = 1 << (width - 1)
    return -half <= number < half if signed else 0 <= number < 2 * half


def _number(value: Value) -> int | None:
    source = maker(value)
    if source is None or source.name != "arith.constant" or not isinstance(value.type, ir.IntegerType):
        return None
    return ir.IntegerAttr(source.attributes["value"]).value
