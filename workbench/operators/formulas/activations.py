"""Activations made of simpler ops. Operands that are 16-bit floats are computed in float32."""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import is_float, renamed
from workbench.operators.formulas.formula_builder import HALF, Builder, Formula, cast, common_type, compute
from workbench.operators.formulas.layout_changes import reshape
from workbench.operators.tensors.torch_literals import to_dtype

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
"""The two constants that selu is defined by: they keep mean 0 and variance 1."""


def bent(b: Builder, x: Ref, low: Ref) -> Ref:
    """`x` where it is above zero, else `low`, which is also taken where `x` is NaN."""
    return b("aten.where.self", b("aten.gt.Scalar", x, 0), x, low)


def celu(b: Builder, x: Ref, alpha: float = 1.0) -> Ref:
    x = compute(b, x)
    return bent(b, x, b("aten.mul.Tensor", b("aten.expm1.default", b("aten.mul.Tensor", x, 1 / alpha)), alpha))


def elu(b: Builder, x: Ref, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Ref:
    """Uses expm1, because the importer's own form, exp(x) - 1, loses the digits of small numbers."""
    x = compute(b, x)
    low = b("aten.expm1.default", _times(b, x, input_scale))
    return _times(b, bent(b, x, _times(b, low, alpha)), scale)


def _times(b: Builder, x: Ref, factor: float) -> Ref:
    return x if factor == 1 else b("aten.mul.Tensor", x, factor)


def selu(b: Builder, x: Ref) -> Ref:
    x = compute(b, x)
    low = b("aten.mul.Tensor", b("aten.expm1.default", x), SELU_ALPHA)
    return b("aten.mul.Tensor", bent(b, x, low), SELU_SCALE)


def mish(b: Builder, x: Ref) -> Ref:
    x = compute(b, x)
    return b("aten.mul.Tensor", x, b("aten.tanh.default", b("aten.softplus.default", x)))


def log_sigmoid(b: Builder, x: Ref) -> Ref:
    """min(x, 0) - log(1 + exp(-|x|)), in which nothing overflows."""
    x = compute(b, x)
    rest = b("aten.log1p.default", b("aten.exp.default", b("aten.neg.default", b("aten.abs.default", x))))
    return b("aten.sub.Tensor", b("aten.clamp_max.default", x, 0.0), rest)


def glu(b: Builder, x: Ref, dim: int = -1) -> Ref:
    (dim,) = b.dims(x, dim)
    half = b.type(x).shape[dim] // 2
    value, gate = (b("aten.slice.Tensor", x, dim, start, start + half) for start in (0, half))
    return b("aten.mul.Tensor", compute(b, value), b("aten.sigmoid.default", compute(b, gate)))


def threshold(b: Builder, x: Ref, limit: float, value: float) -> Ref:
    """Compares 16-bit floats in float32, with the limit unrounded. For integers the limit loses its fraction."""
    if not is_float(b, x):
        limit = math.trunc(limit)
    return b("aten.where.ScalarSelf", b("aten.le.Scalar", compute(b, x), limit), value, x)


def softshrink(b: Builder, x: Ref, limit: float = 0.5) -> Ref:
    """The result near zero is 0.0; NaN stays NaN. The limit is not rounded to 16 bits."""
    x = compute(b, x)
    below, nothing = b("aten.lt.Scalar", x, -limit), b("aten.abs.default", b("aten.mul.Scalar", x, 0))
    near = b("aten.where.self", below, b("aten.add.Scalar", x, limit), nothing)
    return b("aten.where.self", b("aten.gt.Scalar", x, limit), b("aten.sub.Scalar", x, limit), near)


def hardshrink(b: Builder, x: Ref, limit: float = 0.5) -> Ref:
    inside = b("aten.le.Scalar", b("aten.abs.default", x), limit)
    return b("aten.where.ScalarSelf", inside, 0.0, x)


def leaky_relu(b: Builder, x: Ref, slope: Ref | float = 0.01) -> Ref:
    """Chooses between `x` and `slope * x`. The importer's own form adds two halves, which turns -0.0 into 0.0."""
    return bent(b, x, b("aten.mul.Tensor", x, slope))


def prelu(b: Builder, x: Ref, weight: Ref) -> Ref:
    """The slope for negative `x` is one number, or one number for each channel (dim 1)."""
    channels, rank = b.type(weight).numel, b.rank(x)
    if rank > 1:
        weight = reshape(b, weight, [1, channels] + [1] * (rank - 2))
    return leaky_relu(b, x, weight)


def rrelu(
    b: Builder, x: Ref, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: None = None
) -> Ref | None:
    """Uses the middle of the slope's range. None in training, which draws random slopes."""
    return None if training else b("aten.leaky_relu.default", x, (lower + upper) / 2)


def logit(b: Builder, x: Ref, eps: float | None = None) -> Ref:
    """PyTorch rounds both bounds to the type of `x` and tests the lower bound first; if `eps` is above 0.5, the lower
    bound is the larger one."""
    given = _float(b, x) or b.dtype(x)
    x = compute(b, x, _float(b, x))
    if eps is not None and eps >= 0:
        low = torch.tensor(eps, dtype=given)
        high = 1 - low
        below = b("aten.where.ScalarSelf", b("aten.gt.Scalar", x, high.item()), high.item(), x)
        x = b("aten.where.ScalarSelf", b("aten.lt.Scalar", x, low.item()), low.item(), below)
    return b("aten.log.default", b("aten.div.Tensor", x, b("aten.rsub.Scalar", x, 1.0)))


def sinc(b: Builder, x: Ref) -> Ref:
    x = compute(b, x, _float(b, x))
    turned = b("aten.mul.Tensor", x, math.pi)
    ratio = b("aten.div.Tensor", b("aten.sin.default", turned), turned)
    return b("aten.where.ScalarSelf", b("aten.eq.Scalar", x, 0.0), 1.0, ratio)


def _float(b: Builder, x: Ref) -> torch.dtype | None:
    """The default float type if `x` holds integers; None if it holds floats."""
    return None if b.dtype(x).is_floating_point else torch.get_default_dtype()


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
    """Computes a few exponents by multiplications or a root, as PyTorch does, and converts mixed types. None if the
    node can stay."""
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
    if exponent in simple and kind == torch.float16:  # PyTorch computes a power here, not a root: that of -inf is inf
        number = b("aten.full.default", [], exponent, dtype=torch.float32, device="cpu")
        return b("aten.pow.Tensor_Tensor", compute(b, x), number)
    if exponent in simple:
        return b(simple[exponent], x)
    return b("aten.pow.Tensor_Scalar", x, exponent) if kind != to_dtype(given) else None


def _whole_power(b: Builder, x: Ref, exponent: int) -> Ref:
    """An integer power by repeated squaring; an overflow wraps, as in every integer product. PyTorch refuses negative
    exponents."""
    if b.type(x).dtype == "u8":
        x = cast(b, x, torch.int16)
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else b("aten.mul.Tensor", result, square)
        exponent >>= 1
        square = b("aten.mul.Tensor", square, square) if exponent else square
    return b("aten.add.Scalar", b("aten.mul.Scalar", x, 0), 1) if result is None else result


def negated(b: Builder, x: Ref) -> Ref | None:
    """0 - x for integers: the importer would negate them as floats, which cannot hold all integers. None for floats."""
    return None if b.dtype(x).is_floating_point else b("aten.rsub.Scalar", x, 0)


def reciprocal(b: Builder, x: Ref) -> Ref:
    """1 / x. The importer's own form ends the process if `x` is zero, where PyTorch returns infinity."""
    return b("aten.div.Tensor", 1.0, x)


def converted(b: Builder, x: Ref, *, dtype: torch.dtype | None = None, **how: object) -> Ref | None:
    """Converts float64 to a 16-bit float by way of float32, as PyTorch does; None for other conversions."""
    if dtype not in HALF or b.type(x).dtype != "f64":
        return None
    return b("aten._to_copy.default", cast(b, x, torch.float32), dtype=dtype, **how)


FORMULAS: dict[str, Formula] = {
    "aten.relu6.default": renamed("aten.clamp.default", 0, 6),
    "aten.celu.default": celu,
    "aten.elu.default": elu,
    "aten.selu.default": selu,
    "aten.mish.default": mish,
    "aten.log_sigmoid.default": log_sigmoid,
    "aten.glu.default": glu,
    "aten.threshold.default": threshold,
    "aten.hardshrink.default": hardshrink,
    "aten.softshrink.default": softshrink,
    "aten.leaky_relu.default": leaky_relu,
    "aten.prelu.default": prelu,
    "aten._prelu_kernel.default": leaky_relu,
    "aten.rrelu.default": rrelu,
    "aten.logit.default": logit,
    "aten.sinc.default": sinc,
    "aten.special_sinc.default": sinc,
    "aten.gelu.default": gelu,
    "aten.silu.default": silu,
    "aten.pow.Tensor_Scalar": power,
    "aten.reciprocal.default": reciprocal,
    "aten.neg.default": negated,
    "aten._to_copy.default": converted,
}
