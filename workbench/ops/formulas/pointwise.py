"""Pointwise ops made of simpler ones."""

from __future__ import annotations

import math

from workbench.ir import Ref
from workbench.ops.formulas.builder import Builder, Formula, compute

SQRT_HALF = math.sqrt(0.5)
SQRT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)
GELU_CUBIC = 0.044715
"""The coefficient of the cubic in the tanh form of gelu, part of its definition."""


def gelu(b: Builder, x: Ref, *, approximate: str = "none") -> Ref:
    x = compute(b, x)
    half = b("aten.mul.Tensor", x, 0.5)
    if approximate == "none":
        bent = b("aten.erf.default", b("aten.mul.Tensor", x, SQRT_HALF))
    else:
        cube = b("aten.mul.Tensor", b("aten.mul.Tensor", x, x), x)
        inner = b("aten.add.Tensor", x, b("aten.mul.Tensor", cube, GELU_CUBIC))
        bent = b("aten.tanh.default", b("aten.mul.Tensor", inner, SQRT_TWO_OVER_PI))
    return b("aten.mul.Tensor", half, b("aten.add.Tensor", bent, 1.0))


def silu(b: Builder, x: Ref) -> Ref:
    x = compute(b, x)
    return b("aten.mul.Tensor", x, b("aten.sigmoid.default", x))


def power(b: Builder, x: Ref, exponent: float) -> Ref | None:
    """Powers that are a few multiplications or a root, which is how PyTorch computes them too."""
    if exponent == 2:
        return b("aten.mul.Tensor", x, x)
    if exponent == 3:
        return b("aten.mul.Tensor", b("aten.mul.Tensor", x, x), x)
    simple = {0.5: "aten.sqrt.default", -0.5: "aten.rsqrt.default"}
    if exponent == -1:
        return reciprocal(b, x)
    return b(simple[exponent], x) if exponent in simple else None


def reciprocal(b: Builder, x: Ref) -> Ref:
    """The importer's own form ends the process on a zero, where PyTorch gives infinity."""
    return b("aten.div.Tensor", 1.0, x)


FORMULAS: dict[str, Formula] = {
    "aten.gelu.default": gelu,
    "aten.silu.default": silu,
    "aten.pow.Tensor_Scalar": power,
    "aten.reciprocal.default": reciprocal,
}
