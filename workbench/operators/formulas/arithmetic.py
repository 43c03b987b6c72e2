"""Arithmetic and tests on numbers, made of simpler ops."""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.aten.automatic_route import COMPARISONS
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, common_type, compute

Number = bool | int | float


def is_float(b: Builder, x: Ref) -> bool:
    return b.dtype(x).is_floating_point


def isnan(b: Builder, x: Ref) -> Ref:
    """True where x != x: only NaN differs from itself."""
    return b("aten.ne.Tensor", x, x)


def isinf(b: Builder, x: Ref) -> Ref:
    return b("aten.eq.Scalar", b("aten.abs.default", x), math.inf) if is_float(b, x) else isnan(b, x)


def equal(b: Builder, x: Ref, y: Ref | Number) -> Ref | None:
    """Compares a tensor with itself: true except at NaN, where the importer would return true. None for other
    operands."""
    if not isinstance(y, Ref) or x.value != y.value:
        return None
    return b("aten.logical_not.default", isnan(b, x)) if is_float(b, x) else _all_true(b, x)


def compared(op: str) -> Formula:
    """A formula that compares both operands in the type to which PyTorch promotes them. The importer would convert both
    to the larger of their types. PyTorch converts a tensor without dims to the other operand's type, which may change
    an integer, and integers beside floats to the float type."""

    def formula(b: Builder, x: Ref, y: Ref | Number) -> Ref | None:
        if op == "aten.eq.Tensor" and (same := equal(b, x, y)) is not None:
            return same
        kinds = [b.dtype(each) for each in (x, y) if isinstance(each, Ref)]
        common = common_type(b, x, y)
        narrower = len(kinds) == 2 and common != torch.promote_types(*kinds)
        if not (common.is_floating_point or narrower) or all(kind == common for kind in kinds):
            return None
        return b(op, cast(b, x, common), cast(b, y, common) if isinstance(y, Ref) else y)

    return formula


def taken_from(b: Builder, x: Ref, y: Ref, *, alpha: Number = 1) -> Ref:
    return b("aten.sub.Tensor", y, x, alpha=alpha)


def _all_true(b: Builder, x: Ref) -> Ref:
    return b("aten.full.default", b.shape(x), True, dtype=torch.bool)


def isfinite(b: Builder, x: Ref) -> Ref:
    if not is_float(b, x):
        return _all_true(b, x)
    return b("aten.lt.Scalar", b("aten.abs.default", x), math.inf)


def is_exactly(value: float) -> Formula:
    def formula(b: Builder, x: Ref) -> Ref:
        return b("aten.eq.Scalar", x, value) if is_float(b, x) else isnan(b, x)

    return formula


def nan_to_num(
    b: Builder, x: Ref, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Ref:
    if not is_float(b, x):
        return x
    limits = torch.finfo(b.dtype(x))
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    known = b("aten.where.ScalarSelf", isnan(b, x), 0.0 if nan is None else nan, x)
    known = b("aten.where.ScalarSelf", b("aten.eq.Scalar", x, math.inf), high, known)
    return b("aten.where.ScalarSelf", b("aten.eq.Scalar", x, -math.inf), low, known)


def times(b: Builder, *factors: Ref | float) -> Ref:
    """The product of all factors, of which the first is a tensor."""
    result, *rest = factors
    for factor in rest:
        result = b("aten.mul.Tensor", result, factor)
    assert isinstance(result, Ref)
    return result


def square(b: Builder, x: Ref) -> Ref:
    return b("aten.mul.Tensor", x, x)


def frac(b: Builder, x: Ref) -> Ref:
    return b("aten.sub.Tensor", x, b("aten.trunc.default", x))


def round_decimals(b: Builder, x: Ref, *, decimals: int) -> Ref:
    if not is_float(b, x):
        return x
    x, power = compute(b, x), 10.0 ** abs(decimals)
    away, back = ("aten.mul.Tensor", "aten.div.Tensor") if decimals > 0 else ("aten.div.Tensor", "aten.mul.Tensor")
    return b(back, b("aten.round.default", b(away, x, power)), power)


def lerp_scalar(b: Builder, x: Ref, y: Ref, weight: float) -> Ref:
    """Starts at the nearer end, so that the results for the weights 0 and 1 are exact."""
    x, y = compute(b, x), compute(b, y)
    apart = b("aten.sub.Tensor", y, x)
    if abs(weight) < 0.5:
        return b("aten.add.Tensor", x, b("aten.mul.Tensor", apart, weight))
    return b("aten.add.Tensor", y, b("aten.mul.Tensor", apart, weight - 1))


def lerp(b: Builder, x: Ref, y: Ref, weight: Ref) -> Ref:
    x, y, weight = (compute(b, each) for each in (x, y, weight))
    apart = b("aten.sub.Tensor", y, x)
    near = b("aten.addcmul.default", x, weight, apart)
    far = b("aten.addcmul.default", y, b("aten.sub.Tensor", weight, 1.0), apart)
    return b("aten.where.self", b("aten.lt.Scalar", b("aten.abs.default", weight), 0.5), near, far)


def plus_quotient(b: Builder, x: Ref, left: Ref, right: Ref, *, value: Number = 1) -> Ref:
    """addcdiv: `x + value * left / right`."""
    x, left, right = (compute(b, each) for each in (x, left, right))
    both = b("aten.div.Tensor", left, right)
    return b("aten.add.Tensor", x, both if value == 1 else b("aten.mul.Tensor", both, value))


def clamp_tensor(b: Builder, x: Ref, low: Ref | None = None, high: Ref | None = None) -> Ref:
    if low is not None:
        x = b("aten.maximum.default", x, low)
    return x if high is None else b("aten.minimum.default", x, high)


def plus_truth(b: Builder, x: Ref | Number, other: Ref | Number, alpha: Number = 1) -> Ref | None:
    """Adds a Python bool to a bool tensor: true everywhere, or a copy of `x`. The importer would add bits. None for
    other operands."""
    if not isinstance(x, Ref) or b.type(x).dtype != "bool" or not isinstance(other, bool):
        return None
    return _all_true(b, x) if other and alpha else b("aten.clone.default", x)


def log_of_sum(exp: str, base: float) -> Formula:
    """A formula for max(x, y) + log1p(exp(-|x - y|)), in the given base: the exponential never overflows, and log1p
    keeps small parts."""

    def formula(b: Builder, x: Ref, y: Ref) -> Ref:
        x, y = compute(b, x), compute(b, y)
        apart = b("aten.abs.default", b("aten.sub.Tensor", x, y))
        rest = b("aten.log1p.default", b(exp, b("aten.neg.default", apart)))
        if base != math.e:
            rest = b("aten.mul.Tensor", rest, 1 / math.log(base))
        total = b("aten.add.Tensor", b("aten.maximum.default", x, y), rest)
        same = b("aten.eq.Tensor", x, y)  # inf - inf is NaN
        return b("aten.where.self", b("aten.logical_and.default", same, isinf(b, x)), x, total)

    return formula


def xlogy(b: Builder, x: Ref, y: Ref) -> Ref:
    """x times log y, and 0 where x is 0, unless y is a NaN."""
    common = common_type(b, x, y)
    if common.is_floating_point:  # else the importer casts each operand
        x, y = cast(b, x, common), cast(b, y, common)
    product = b("aten.mul.Tensor", x, b("aten.log.default", y))
    known = b("aten.logical_not.default", isnan(b, y))  # not y == y, which the importer replaces by true
    none = b("aten.logical_and.default", b("aten.eq.Scalar", x, 0), known)
    return b("aten.where.ScalarSelf", none, 0.0, product)


def heaviside(b: Builder, x: Ref, at_zero: Ref) -> Ref:
    step = b("aten._to_copy.default", b("aten.gt.Scalar", x, 0), dtype=b.dtype(x))
    return b("aten.where.self", b("aten.eq.Scalar", x, 0), at_zero, step)


def renamed(op: str, *more: object) -> Formula:
    """A formula that calls `op` with the same arguments, followed by the fixed arguments `more`."""

    def formula(b: Builder, *args: object, **kwargs: object) -> Ref:
        return b(op, *args, *more, **kwargs)

    return formula


def cross(b: Builder, x: Ref, y: Ref, *, dim: int = -1) -> Ref:
    """The cross product: x[i + 1] * y[i + 2] - x[i + 2] * y[i + 1], with indices modulo 3."""
    x, y = compute(b, x), compute(b, y)
    ahead, behind = (
        b("aten.mul.Tensor", b("aten.roll.default", x, [-one], [dim]), b("aten.roll.default", y, [-other], [dim]))
        for one, other in ((1, 2), (2, 1))
    )
    return b("aten.sub.Tensor", ahead, behind)


FORMULAS: dict[str, Formula] = {
    **{op: compared(op) for op in COMPARISONS},
    "aten.add.Scalar": plus_truth,
    "aten.add.Tensor": plus_truth,
    "aten.rsub.Tensor": taken_from,
    "aten.isnan.default": isnan,
    "aten.isinf.default": isinf,
    "aten.isfinite.default": isfinite,
    "aten.isposinf.default": is_exactly(math.inf),
    "aten.isneginf.default": is_exactly(-math.inf),
    "aten.nan_to_num.default": nan_to_num,
    "aten.square.default": square,
    "aten.frac.default": frac,
    "aten.deg2rad.default": renamed("aten.mul.Tensor", math.pi / 180),
    "aten.rad2deg.default": renamed("aten.mul.Tensor", 180 / math.pi),
    "aten.round.decimals": round_decimals,
    "aten.lerp.Scalar": lerp_scalar,
    "aten.lerp.Tensor": lerp,
    "aten.addcdiv.default": plus_quotient,
    "aten.clamp.Tensor": clamp_tensor,
    "aten.clip.Tensor": clamp_tensor,
    "aten.clip.default": renamed("aten.clamp.default"),
    "aten.logaddexp.default": log_of_sum("aten.exp.default", math.e),
    "aten.logaddexp2.default": log_of_sum("aten.exp2.default", 2.0),
    "aten.xlogy.Tensor": xlogy,
    "aten.special_xlogy.default": xlogy,
    "aten.heaviside.default": heaviside,
    "aten.sgn.default": renamed("aten.sign.default"),
    "aten.linalg_cross.default": cross,
}
