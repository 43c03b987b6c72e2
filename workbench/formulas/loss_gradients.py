"""Losses that only training asks for, and the backward passes of losses of numbers."""

from __future__ import annotations

from workbench.formulas.formula_builder import Builder, Formula, compute
from workbench.ir import Ref

_MEAN = 1


def _through_reduction(b: Builder, gradient: Ref, x: Ref, reduction: int) -> Ref:
    """The gradient at each element before the loss was reduced."""
    gradient = compute(b, gradient)
    count = b.type(x).numel
    return b("aten.mul.Tensor", gradient, 1.0 / count) if reduction == _MEAN and count else gradient


def _difference(b: Builder, x: Ref, target: Ref) -> Ref:
    return b("aten.sub.Tensor", compute(b, x), compute(b, target))


def mse(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int) -> Ref:
    each = b("aten.mul.Tensor", _difference(b, x, target), 2.0)
    return b("aten.mul.Tensor", each, _through_reduction(b, gradient, each, reduction))


def smooth_l1(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int, beta: float) -> Ref:
    apart = _difference(b, x, target)
    slope = (
        b("aten.clamp.default", b("aten.div.Tensor", apart, beta), -1.0, 1.0) if beta else b("aten.sgn.default", apart)
    )
    return b("aten.mul.Tensor", slope, _through_reduction(b, gradient, apart, reduction))


def _sign(b: Builder, x: Ref) -> Ref:
    return b("aten.sgn.default", x)


def huber(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int, delta: float) -> Ref:
    apart = _difference(b, x, target)
    slope = b("aten.clamp.default", apart, -delta, delta)
    return b("aten.mul.Tensor", slope, _through_reduction(b, gradient, apart, reduction))


def cross_entropy_of_two(
    b: Builder, gradient: Ref, x: Ref, target: Ref, weight: Ref | None = None, reduction: int = _MEAN
) -> Ref:
    """The denominator is bounded below as PyTorch bounds it, where a probability is 0 or 1."""
    x = compute(b, x)
    both = b("aten.mul.Tensor", b("aten.rsub.Scalar", x, 1.0), x)
    each = b("aten.div.Tensor", _difference(b, x, target), b("aten.clamp_min.default", both, 1e-12))
    if weight is not None:
        each = b("aten.mul.Tensor", each, compute(b, weight))
    return b("aten.mul.Tensor", each, _through_reduction(b, gradient, x, reduction))


def soft_margin(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int) -> Ref:
    x, target = compute(b, x), compute(b, target)
    gate = b("aten.sigmoid.default", b("aten.neg.default", b("aten.mul.Tensor", x, target)))
    each = b("aten.neg.default", b("aten.mul.Tensor", target, gate))
    return b("aten.mul.Tensor", each, _through_reduction(b, gradient, x, reduction))


FORMULAS: dict[str, Formula] = {
    "aten.mse_loss_backward.default": mse,
    "aten.smooth_l1_loss_backward.default": smooth_l1,
    "aten.huber_loss_backward.default": huber,
    "aten.binary_cross_entropy_backward.default": cross_entropy_of_two,
    "aten.soft_margin_loss_backward.default": soft_margin,
}
