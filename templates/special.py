"""Builders of elementwise ops that torch-mlir does not import: hypot, erfc, copysign, signbit, angle.

Each builder computes one number of the result with arith and math ops; corner values follow PyTorch.
"""

from __future__ import annotations

import math as numbers

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from workbench.mlir.bindings import Value
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import UNSIGNED, NodeBuilder

_EQUAL, _LESS = arith.CmpFPredicate.OEQ, arith.CmpFPredicate.OLT
_LESS_INT = arith.CmpIPredicate.slt


def hypot(op: NodeBuilder) -> Value:
    """The root of x² + y², scaled by the larger of |x| and |y| so that squares neither overflow nor vanish."""

    def one(x: Value, y: Value) -> Value:
        x, y = math.absf(x), math.absf(y)
        large, small = arith.maximumf(x, y), arith.minimumf(x, y)
        zero, unit, infinite = (op.number(value, like=x) for value in (0.0, 1.0, numbers.inf))
        ratio = arith.divf(small, large)
        length = arith.mulf(large, math.sqrt(arith.addf(unit, arith.mulf(ratio, ratio))))
        length = arith.select(arith.cmpf(_EQUAL, large, zero), zero, length)  # 0 / 0 has no ratio
        either = arith.ori(arith.cmpf(_EQUAL, x, infinite), arith.cmpf(_EQUAL, y, infinite))
        return arith.select(either, infinite, length)  # also if the other is a NaN, as in C

    return op.elementwise(one, *op.operands, compute="float")


def erfc(op: NodeBuilder) -> Value:
    """1 - erf(x), without the cancellation of this formula."""
    return op.elementwise(math.erfc, *op.operands, compute="float")


def copysign(op: NodeBuilder) -> Value:
    """The size of the first number with the sign of the second, which may be the sign of a zero or a NaN."""
    sign = op["other"]
    if isinstance(sign, int | float):

        def one(size: Value) -> Value:
            return math.copysign(size, op.number(sign, like=size))

        return op.elementwise(one, op.operands[0], compute="float")
    return op.elementwise(math.copysign, *op.operands, compute="float")


def signbit(op: NodeBuilder) -> Value:
    """True where the sign bit is set, as it also is in -0.0 and may be in a NaN."""

    def one(x: Value) -> Value:
        if isinstance(x.type, ir.FloatType):
            x = arith.bitcast(ir.IntegerType.get_signless(x.type.width), x)
        if op.dtypes[0] in UNSIGNED:
            return op.number(False)
        return arith.cmpi(_LESS_INT, x, op.number(0, like=x))

    return op.elementwise(one, *op.operands)


def angle(op: NodeBuilder) -> Value:
    """The angle of a real number: pi left of zero, 0 right of it and at either zero, NaN for NaN."""

    def one(x: Value) -> Value:
        zero, pi = op.number(0.0, like=x), op.number(numbers.pi, like=x)
        turned = arith.select(arith.cmpf(_LESS, x, zero), pi, zero)
        return arith.select(arith.cmpf(arith.CmpFPredicate.UNO, x, x), x, turned)

    return op.elementwise(one, *op.operands, compute="float")


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    for overload, builder in (
        ("aten.hypot.default", hypot),
        ("aten.erfc.default", erfc),
        ("aten.special_erfc.default", erfc),
        ("aten.copysign.Tensor", copysign),
        ("aten.copysign.Scalar", copysign),
        ("aten.signbit.default", signbit),
        ("aten.angle.default", angle),
    ):
        registry.builder(overload, dialect="math", kind="elementwise")(builder)
