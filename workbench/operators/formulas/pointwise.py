"""Pointwise ops made of simpler ones."""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import HALF, Builder, Formula, cast, common_type, compute
from workbench.operators.tensors.element_types import to_dtype

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
    given, kind = b.type(x).dtype, common_type(b, x, exponent)
    x = cast(b, x, kind)
    if not kind.is_floating_point:
        return _whole_power(b, x, int(exponent))
    if exponent == 2:
        return b("aten.mul.Tensor", x, x)
    if exponent == -2:
        x = compute(b, x)
        return reciprocal(b, b("aten.mul.Tensor", x, x))
    if exponent == 3:
        x = compute(b, x)
        return b("aten.mul.Tensor", b("aten.mul.Tensor", x, x), x)
    if exponent == -1:
        return reciprocal(b, x)
    simple = {0.5: "aten.sqrt.default", -0.5: "aten.rsqrt.default"}
    if exponent in simple and kind == torch.float16:  # PyTorch takes no root there: as a power, that of -inf is inf
        number = b("aten.full.default", [], exponent, dtype=torch.float32, device="cpu")
        return b("aten.pow.Tensor_Tensor", compute(b, x), number)
    if exponent in simple:
        return b(simple[exponent], x)
    return b("aten.pow.Tensor_Scalar", x, exponent) if kind != to_dtype(given) else None


def _whole_power(b: Builder, x: Ref, exponent: int) -> Ref:
    """A power of integers by squaring, which wraps as every product does. PyTorch refuses negative exponents."""
    if b.type(x).dtype == "u8":
        x = cast(b, x, torch.int16)
    made, square = None, x
    while exponent:
        if exponent & 1:
            made = square if made is None else b("aten.mul.Tensor", made, square)
        exponent >>= 1
        square = b("aten.mul.Tensor", square, square) if exponent else square
    return b("aten.add.Scalar", b("aten.mul.Scalar", x, 0), 1) if made is None else made


def negated(b: Builder, x: Ref) -> Ref | None:
    """The importer negates integers as floats, which do not hold them all."""
    return None if to_dtype(b.type(x).dtype).is_floating_point else b("aten.rsub.Scalar", x, 0)


def reciprocal(b: Builder, x: Ref) -> Ref:
    """The importer's own form ends the process on a zero, where PyTorch gives infinity."""
    return b("aten.div.Tensor", 1.0, x)


def converted(b: Builder, x: Ref, *, dtype: torch.dtype | None = None, **how: object) -> Ref | None:
    """A double becomes a 16-bit float by way of float32, in PyTorch as well."""
    if dtype not in HALF or b.type(x).dtype != "f64":
        return None
    return b("aten._to_copy.default", cast(b, x, torch.float32), dtype=dtype, **how)


FORMULAS: dict[str, Formula] = {
    "aten.gelu.default": gelu,
    "aten.silu.default": silu,
    "aten.pow.Tensor_Scalar": power,
    "aten.reciprocal.default": reciprocal,
    "aten.neg.default": negated,
    "aten._to_copy.default": converted,
}
