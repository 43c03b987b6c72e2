# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
"""Builders of functions of real numbers for which MLIR has an op, and of rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from workbench.mlir.bindings import Value
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import UNSIGNED, NodeBuilder

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "log10": math.log10,
    "atan2": math.atan2,
}
"""Name in the overload `aten.<name>.default` -> function of MLIR; whole numbers give floats."""


def function(made: Callable[..., Any]) -> Callable[[NodeBuilder], Value]:
    return lambda op: op.elementwise(made, *op.operands, compute="float")


def rounding(made: Callable[..., Any]) -> Callable[[NodeBuilder], Value]:
    """Builds a rounding of floats; whole numbers stay as they are."""

    def build(op: NodeBuilder) -> Value:
        return op.elementwise(lambda x: made(x) if isinstance(x.type, ir.FloatType) else x, *op.operands)

    return build


def number_if_any(largest: bool) -> Callable[[NodeBuilder], Value]:
    """Builds fmax or fmin: if one number is a NaN, the other is the result."""

    def build(op: NodeBuilder) -> Value:
        unsigned = op.result_types[0].dtype in UNSIGNED  # an operand without dims may have another type
        of_whole = (arith.maxui if largest else arith.minui) if unsigned else (arith.maxsi if largest else arith.minsi)
        of_floats = arith.maxnumf if largest else arith.minnumf

        def one(x: Value, y: Value) -> Value:
            return (of_floats if isinstance(x.type, ir.FloatType) else of_whole)(x, y)

        return op.elementwise(one, *op.operands, compute="result")

    return build


def product_added(op: NodeBuilder) -> Value:
    """addcmul: a number plus a product that is not rounded before it is added, as in PyTorch's vectorized code."""
    value = op["value"]
    assert isinstance(value, bool | int | float)

    def one(start: Value, left: Value, right: Value) -> Value:
        floats = isinstance(start.type, ir.FloatType)
        if value != 1:
            left = (arith.mulf if floats else arith.muli)(op.number(value, like=left), left)
        return math.fma(left, right, start) if floats else arith.addi(start, arith.muli(left, right))

    return op.elementwise(one, *op.operands, compute="result")


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    builders = {f"aten.{name}.default": function(made) for name, made in FUNCTIONS.items()} | {
        "aten.trunc.default": rounding(math.trunc),
        "aten.fix.default": rounding(math.trunc),
        "aten.round.default": rounding(math.roundeven),
        "aten.fmax.default": number_if_any(largest=True),
        "aten.addcmul.default": product_added,
        "aten.fmin.default": number_if_any(largest=False),
    }
    for overload, builder in builders.items():
        registry.builder(overload, dialect="math", kind="elementwise")(builder)
