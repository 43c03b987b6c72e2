# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
"""Builders of powers whose exponent is a tensor. torch-mlir imports them for floats only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from workbench.mlir.building import UNSIGNED, NodeBuilder, converted

if TYPE_CHECKING:
    from workbench.mlir.bindings import Value
    from workbench.ops.registry import Registry

_EQUAL, _LESS = arith.CmpIPredicate.eq, arith.CmpIPredicate.slt
_BITS: Final = 64


def power(op: NodeBuilder) -> Value:
    """One number to the power of another."""
    if isinstance(op.element, ir.FloatType):
        return op.elementwise(math.powf, *_both(op), compute="float")
    unsigned = [dtype in UNSIGNED for dtype in op.dtypes]

    def one(base: Value, exponent: Value) -> Value:
        wide = ir.IntegerType.get_signless(_BITS)
        pairs = zip((base, exponent), unsigned, strict=True)
        given = [converted(each, op.element, sign) for each, sign in pairs]
        made = _whole(op, *(converted(each, wide, op.result_types[0].dtype in UNSIGNED) for each in given))
        return converted(made, op.element)

    return op.elementwise(one, *_both(op))


def _both(op: NodeBuilder) -> tuple[Value, Value]:
    left, right = op.operands
    return left, right


def _whole(op: NodeBuilder, base: Value, exponent: Value) -> Value:
    """A power of integers, which wraps. With a negative exponent it is 1, -1, or else rounds to 0, as in PyTorch."""
    zero, one, minus = (op.number(each, like=base) for each in (0, 1, -1))
    negative = arith.cmpi(_LESS, exponent, zero)
    made = math.ipowi(base, arith.select(negative, zero, exponent))
    odd = arith.cmpi(_EQUAL, arith.andi(exponent, one), one)
    of_minus_one = arith.select(odd, minus, one)
    inverse = arith.select(arith.cmpi(_EQUAL, base, minus), of_minus_one, zero)
    inverse = arith.select(arith.cmpi(_EQUAL, base, one), one, inverse)
    return arith.select(negative, inverse, made)


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    for overload in ("aten.pow.Tensor_Tensor", "aten.pow.Scalar"):
        registry.builder(overload, dialect="math", kind="elementwise")(power)
