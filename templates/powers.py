"""Builders of powers of which base and exponent are any numbers. torch-mlir imports them for floats only."""

from __future__ import annotations

from typing import Final

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from templates.integers import is_number, of_two
from workbench.mlir.bindings import Value
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import UNSIGNED, NodeBuilder, converted

_EQUAL, _LESS = arith.CmpIPredicate.eq, arith.CmpIPredicate.slt
_BITS: Final = 64


def power(op: NodeBuilder) -> Value:
    """One number to the power of another; the base, or the exponent, may be a plain number."""
    if isinstance(op.element, ir.FloatType):
        return of_two(op, math.powf, "self", "exponent", rounded=is_number(op, "self"))

    def one(base: Value, exponent: Value) -> Value:
        wide, unsigned = ir.IntegerType.get_signless(_BITS), op.result_types[0].dtype in UNSIGNED
        made = _whole(op, *(converted(each, wide, unsigned) for each in (base, exponent)))
        return converted(made, op.element)

    return of_two(op, one, "self", "exponent")


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
    registry.builder("aten.pow.Tensor_Tensor", "aten.pow.Scalar", dialect="math", kind="elementwise")(power)
