"""Losses of numbers, element by element, and their backward passes."""

from __future__ import annotations

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.reductions import mean

_NONE, _MEAN = 0, 1


def _reduced(b: Builder, loss: Ref, reduction: int) -> Ref:
    if reduction == _NONE or not b.rank(loss):
        return loss
    return mean(b, loss) if reduction == _MEAN else b("aten.sum.dim_IntList", loss, b.dims(loss, None), False)


def _through_reduction(b: Builder, gradient: Ref, x: Ref, reduction: int) -> Ref:
    """The gradient at each element before the loss was reduced."""
    gradient, count = compute(b, gradient), b.type(x).numel
    return b("aten.mul.Tensor", gradient, 1.0 / count) if reduction == _MEAN and count else gradient


def _difference(b: Builder, x: Ref, target: Ref) -> Ref:
    return b("aten.sub.Tensor", compute(b, x), compute(b, target))


def _square(b: Builder, x: Ref) -> Ref:
    return b("aten.mul.Tensor", x, x)


def mse(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN) -> Ref:
    return _reduced(b, _square(b, _difference(b, x, target)), reduction)


def mse_backward(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int) -> Ref:
    each = b("aten.mul.Tensor", _difference(b, x, target), 2.0)
    return b("aten.mul.Tensor", each, _through_reduction(b, gradient, each, reduction))


def l1(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN) -> Ref:
    return _reduced(b, b("aten.abs.default", _difference(b, x, target)), reduction)


def smooth_l1(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN, beta: float = 1.0) -> Ref:
    if not beta:
        return l1(b, x, target, reduction)
    size = b("aten.abs.default", _difference(b, x, target))
    bent = b("aten.mul.Tensor", _square(b, size), 0.5 / beta)
    straight = b("aten.sub.Scalar", size, 0.5 * beta)
    return _reduced(b, b("aten.where.self", b("aten.lt.Scalar", size, beta), bent, straight), reduction)


def smooth_l1_backward(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int, beta: float) -> Ref:
    apart = _difference(b, x, target)
    if beta:
        slope = b("aten.clamp.default", b("aten.mul.Tensor", apart, 1 / beta), -1.0, 1.0)
    else:
        slope = b("aten.sgn.default", apart)
    return b("aten.mul.Tensor", slope, _through_reduction(b, gradient, apart, reduction))


def huber(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN, delta: float = 1.0) -> Ref:
    size = b("aten.abs.default", _difference(b, x, target))
    bent = b("aten.mul.Tensor", _square(b, size), 0.5)
    straight = b("aten.mul.Tensor", b("aten.sub.Scalar", size, 0.5 * delta), delta)
    return _reduced(b, b("aten.where.self", b("aten.lt.Scalar", size, delta), bent, straight), reduction)


def huber_backward(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int, delta: float) -> Ref:
    apart = _difference(b, x, target)
    slope = b("aten.clamp.default", apart, -delta, delta)
    return b("aten.mul.Tensor", slope, _through_reduction(b, gradient, apart, reduction))


def _weighed(b: Builder, loss: Ref, weight: Ref | None) -> Ref:
    return loss if weight is None else b("aten.mul.Tensor", loss, compute(b, weight))


def of_two_classes(b: Builder, x: Ref, target: Ref, weight: Ref | None = None, reduction: int = _MEAN) -> Ref:
    """Logarithms are at least -100, as in PyTorch."""
    x, target = compute(b, x), compute(b, target)
    right = b("aten.clamp_min.default", b("aten.log.default", x), -100.0)
    wrong = b("aten.clamp_min.default", b("aten.log1p.default", b("aten.neg.default", x)), -100.0)
    loss = b("aten.mul.Tensor", b("aten.sub.Scalar", target, 1.0), wrong)
    loss = b("aten.sub.Tensor", loss, b("aten.mul.Tensor", target, right))
    return _reduced(b, _weighed(b, loss, weight), reduction)


def of_two_classes_backward(
    b: Builder, gradient: Ref, x: Ref, target: Ref, weight: Ref | None = None, reduction: int = _MEAN
) -> Ref:
    """The denominator is bounded below as PyTorch bounds it, where a probability is 0 or 1."""
    x = compute(b, x)
    both = b("aten.mul.Tensor", b("aten.rsub.Scalar", x, 1.0), x)
    each = b("aten.div.Tensor", _difference(b, x, target), b("aten.clamp_min.default", both, 1e-12))
    return b("aten.mul.Tensor", _weighed(b, each, weight), _through_reduction(b, gradient, x, reduction))


def of_two_scores(
    b: Builder, x: Ref, target: Ref, weight: Ref | None = None, positive: Ref | None = None, reduction: int = _MEAN
) -> Ref:
    """(1 - target) x + f log(1 + exp(-x)), in which nothing overflows; f is 1, or more for positive targets."""
    x, target = compute(b, x), compute(b, target)
    small = b("aten.log1p.default", b("aten.exp.default", b("aten.neg.default", b("aten.abs.default", x))))
    rest = b("aten.add.Tensor", small, b("aten.clamp_min.default", b("aten.neg.default", x), 0.0))
    if positive is not None:
        more = b("aten.mul.Tensor", b("aten.sub.Scalar", compute(b, positive), 1.0), target)
        rest = b("aten.mul.Tensor", rest, b("aten.add.Scalar", more, 1.0))
    loss = b("aten.add.Tensor", b("aten.mul.Tensor", b("aten.rsub.Scalar", target, 1.0), x), rest)
    return _reduced(b, _weighed(b, loss, weight), reduction)


def soft_margin(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN) -> Ref:
    wrong = b("aten.neg.default", b("aten.mul.Tensor", compute(b, x), compute(b, target)))
    return _reduced(b, b("aten.log1p.default", b("aten.exp.default", wrong)), reduction)


def soft_margin_backward(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int) -> Ref:
    x, target = compute(b, x), compute(b, target)
    gate = b("aten.sigmoid.default", b("aten.neg.default", b("aten.mul.Tensor", x, target)))
    each = b("aten.neg.default", b("aten.mul.Tensor", target, gate))
    return b("aten.mul.Tensor", each, _through_reduction(b, gradient, x, reduction))


def divergence(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN, *, log_target: bool = False) -> Ref:
    x, target = compute(b, x), compute(b, target)
    if log_target:
        loss = b("aten.mul.Tensor", b("aten.exp.default", target), b("aten.sub.Tensor", target, x))
    else:
        loss = b("aten.sub.Tensor", b("aten.xlogy.Tensor", target, target), b("aten.mul.Tensor", target, x))
    return _reduced(b, loss, reduction)


FORMULAS: dict[str, Formula] = {
    "aten.mse_loss.default": mse,
    "aten.mse_loss_backward.default": mse_backward,
    "aten.l1_loss.default": l1,
    "aten.smooth_l1_loss.default": smooth_l1,
    "aten.smooth_l1_loss_backward.default": smooth_l1_backward,
    "aten.huber_loss.default": huber,
    "aten.huber_loss_backward.default": huber_backward,
    "aten.binary_cross_entropy.default": of_two_classes,
    "aten.binary_cross_entropy_backward.default": of_two_classes_backward,
    "aten.binary_cross_entropy_with_logits.default": of_two_scores,
    "aten.soft_margin_loss.default": soft_margin,
    "aten.soft_margin_loss_backward.default": soft_margin_backward,
    "aten.kl_div.default": divergence,
}
