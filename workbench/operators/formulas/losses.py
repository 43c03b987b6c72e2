"""Losses and their backward passes: of numbers, element by element, and of classes, by `gather`."""

from __future__ import annotations

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import square
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, compute
from workbench.operators.formulas.reductions import mean

_NONE, _MEAN = 0, 1


def _reduced(b: Builder, loss: Ref, reduction: int) -> Ref:
    if reduction == _NONE or not b.rank(loss):
        return loss
    return mean(b, loss) if reduction == _MEAN else b("aten.sum.dim_IntList", loss, b.dims(loss, None), False)


def _through_reduction(b: Builder, gradient: Ref, x: Ref, reduction: int) -> Ref:
    """The gradient of each element's loss, before the reduction."""
    gradient, count = compute(b, gradient), b.type(x).numel
    return b("aten.mul.Tensor", gradient, 1.0 / count) if reduction == _MEAN and count else gradient


def _difference(b: Builder, x: Ref, target: Ref) -> Ref:
    return b("aten.sub.Tensor", compute(b, x), compute(b, target))


def mse(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN) -> Ref:
    return _reduced(b, square(b, _difference(b, x, target)), reduction)


def mse_backward(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int) -> Ref:
    each = b("aten.mul.Tensor", _difference(b, x, target), 2.0)
    return b("aten.mul.Tensor", each, _through_reduction(b, gradient, each, reduction))


def l1(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN) -> Ref:
    return _reduced(b, b("aten.abs.default", _difference(b, x, target)), reduction)


def smooth_l1(b: Builder, x: Ref, target: Ref, reduction: int = _MEAN, beta: float = 1.0) -> Ref:
    if not beta:
        return l1(b, x, target, reduction)
    size = b("aten.abs.default", _difference(b, x, target))
    bent = b("aten.mul.Tensor", square(b, size), 0.5 / beta)
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
    bent = b("aten.mul.Tensor", square(b, size), 0.5)
    straight = b("aten.mul.Tensor", b("aten.sub.Scalar", size, 0.5 * delta), delta)
    return _reduced(b, b("aten.where.self", b("aten.lt.Scalar", size, delta), bent, straight), reduction)


def huber_backward(b: Builder, gradient: Ref, x: Ref, target: Ref, reduction: int, delta: float) -> Ref:
    apart = _difference(b, x, target)
    slope = b("aten.clamp.default", apart, -delta, delta)
    return b("aten.mul.Tensor", slope, _through_reduction(b, gradient, apart, reduction))


def _weighed(b: Builder, loss: Ref, weight: Ref | None) -> Ref:
    return loss if weight is None else b("aten.mul.Tensor", loss, compute(b, weight))


def of_two_classes(b: Builder, x: Ref, target: Ref, weight: Ref | None = None, reduction: int = _MEAN) -> Ref:
    """Binary cross-entropy of probabilities. Logarithms are at least -100, as in PyTorch."""
    x, target = compute(b, x), compute(b, target)
    right = b("aten.clamp_min.default", b("aten.log.default", x), -100.0)
    wrong = b("aten.clamp_min.default", b("aten.log1p.default", b("aten.neg.default", x)), -100.0)
    loss = b("aten.mul.Tensor", b("aten.sub.Scalar", target, 1.0), wrong)
    loss = b("aten.sub.Tensor", loss, b("aten.mul.Tensor", target, right))
    return _reduced(b, _weighed(b, loss, weight), reduction)


def of_two_classes_backward(
    b: Builder, gradient: Ref, x: Ref, target: Ref, weight: Ref | None = None, reduction: int = _MEAN
) -> Ref:
    """The denominator x (1 - x) is at least 1e-12, as in PyTorch: it is 0 where a probability is 0 or 1."""
    x = compute(b, x)
    both = b("aten.mul.Tensor", b("aten.rsub.Scalar", x, 1.0), x)
    each = b("aten.div.Tensor", _difference(b, x, target), b("aten.clamp_min.default", both, 1e-12))
    return b("aten.mul.Tensor", _weighed(b, each, weight), _through_reduction(b, gradient, x, reduction))


def of_two_scores(
    b: Builder, x: Ref, target: Ref, weight: Ref | None = None, positive: Ref | None = None, reduction: int = _MEAN
) -> Ref:
    """Binary cross-entropy of scores: (1 - target) x + f log(1 + exp(-x)), written so that nothing overflows; f is 1 +
    (positive - 1) target."""
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


def nll_loss(
    b: Builder, x: Ref, target: Ref, weight: Ref | None = None, reduction: int = _MEAN, ignore_index: int = -100
) -> Ref:
    """Minus the score of the target's class, times the weight of the class; the mean divides by the sum of these
    weights."""
    found = _Classes(b, compute(b, x), target, weight, ignore_index)
    return cast(b, found.reduced(found.at_target(), reduction), b.dtype(x))


def nll_loss_with_weight(
    b: Builder, x: Ref, target: Ref, weight: Ref | None, reduction: int, ignore_index: int
) -> tuple[Ref, Ref]:
    """The loss, and the sum of the weights, which the backward pass reads. For a batch without a reduction the sum is
    zero, as in PyTorch."""
    found = _Classes(b, compute(b, x), target, weight, ignore_index)
    each, loss = found.each(), found.at_target()
    total = found.sum(each)
    if reduction == _NONE and b.rank(x) > 1:
        total = b("aten.mul.Scalar", total, 0.0)
    result = loss if reduction == _NONE else found.sum(loss)
    result = b("aten.div.Tensor", result, total) if reduction == _MEAN else result
    return cast(b, result, b.dtype(x)), cast(b, total, b.dtype(x))


def nll_loss_backward(
    b: Builder, gradient: Ref, x: Ref, target: Ref, weight: Ref | None, reduction: int, ignore_index: int, total: Ref
) -> Ref:
    """The gradient of the scores: minus the weight at the target's class, zero at all other classes and for ignored
    targets. If all targets are ignored, the mean would divide by zero."""
    found = _Classes(b, compute(b, x), target, weight, ignore_index)
    gradient = compute(b, gradient)
    if reduction != _NONE or b.rank(x) == 1:  # one number, maybe with dims of 1
        gradient = b("aten.view.default", gradient, [])
    if reduction == _MEAN:
        gradient = b("aten.div.Tensor", gradient, compute(b, total))
    each = b("aten.neg.default", b("aten.mul.Tensor", found.each(), gradient))
    each = b("aten.where.ScalarOther", found.counts, each, 0.0)
    return b("aten.where.ScalarOther", found.is_target(), b("aten.unsqueeze.default", each, found.dim), 0.0)


def cross_entropy(
    b: Builder,
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Ref | None:
    """`nll_loss` of a log-softmax; smoothing mixes in the mean over all classes. None if the targets are
    probabilities."""
    if b.dtype(target).is_floating_point:
        return None
    found = _Classes(b, compute(b, x), target, weight, ignore_index, softmax=True)
    loss = found.at_target()
    if label_smoothing:
        spread = b("aten.mul.Tensor", found.over_all(), label_smoothing / found.count)
        loss = b("aten.add.Tensor", b("aten.mul.Tensor", loss, 1 - label_smoothing), spread)
    return cast(b, found.reduced(loss, reduction), b.dtype(x))


class _Classes:
    """Scores, with the classes along dim 1 or the only dim, and the target classes."""

    def __init__(
        self, b: Builder, x: Ref, target: Ref, weight: Ref | None, ignored: int, *, softmax: bool = False
    ) -> None:
        self.b, self.weight = b, weight
        self.dim = min(1, b.rank(x) - 1)
        self.count = b.type(x).shape[self.dim]
        self.dtype = b.dtype(x)
        self.scores = b("aten.log_softmax.int", x, self.dim) if softmax else x
        if b.rank(x) == 1 and b.rank(target) == 1:  # of several targets of one row PyTorch takes the first
            target = b("aten.select.int", target, 0, 0)
        self.counts = b("aten.ne.Scalar", target, ignored)
        # An ignored target may lie outside of all classes: class 0 takes its place, and its loss is then left out.
        kept = b("aten._to_copy.default", self.counts, dtype=b.dtype(target))
        self.target = b("aten.mul.Tensor", target, kept)

    def at_target(self) -> Ref:
        b = self.b
        index = b("aten.unsqueeze.default", self.target, self.dim)
        found = b("aten.squeeze.dim", b("aten.gather.default", self.scores, self.dim, index), self.dim)
        if self.weight is not None:
            found = b("aten.mul.Tensor", found, self._weights())
        return self._counted(b("aten.neg.default", found))

    def over_all(self) -> Ref:
        """Minus the sum over all classes, weighed."""
        b, scores = self.b, self.scores
        if self.weight is not None:
            scores = b("aten.mul.Tensor", scores, self._along(self.weight))
        return self._counted(b("aten.neg.default", b("aten.sum.dim_IntList", scores, [self.dim], False)))

    def reduced(self, loss: Ref, reduction: int) -> Ref:
        if reduction == _NONE:
            return loss
        total = self.sum(loss)
        return total if reduction != _MEAN else self.b("aten.div.Tensor", total, self.sum(self.each()))

    def each(self) -> Ref:
        """The weight of each target in a mean."""
        each = self.b("aten._to_copy.default", self.counts, dtype=self.dtype)
        return self.b("aten.mul.Tensor", each, self._weights()) if self.weight is not None else each

    def is_target(self) -> Ref:
        """True at each score of the target's class."""
        b = self.b
        classes = b("aten.arange.default", self.count, dtype=b.dtype(self.target), device="cpu")
        return b("aten.eq.Tensor", self._along(classes), b("aten.unsqueeze.default", self.target, self.dim))

    def _along(self, values: Ref) -> Ref:
        """A number for each class, along the dim of the classes."""
        shape = [self.count if dim == self.dim else 1 for dim in range(self.b.rank(self.scores))]
        return self.b("aten.view.default", values, shape)

    def _weights(self) -> Ref:
        return self.b("aten.index.Tensor", self.weight, [self.target])

    def _counted(self, loss: Ref) -> Ref:
        """The loss, with zeros for ignored targets, even if their scores are NaN."""
        b = self.b
        nothing = b("aten._to_copy.default", b("aten.ne.Tensor", self.target, self.target), dtype=self.dtype)
        return b("aten.where.self", self.counts, loss, nothing)

    def sum(self, value: Ref) -> Ref:
        return self.b("aten.sum.dim_IntList", value, self.b.dims(value, None), False) if self.b.rank(value) else value


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
    "aten.nll_loss_nd.default": nll_loss,
    "aten.nll_loss.default": nll_loss,
    "aten.nll_loss2d.default": nll_loss,
    "aten.nll_loss_forward.default": nll_loss_with_weight,
    "aten.nll_loss2d_forward.default": nll_loss_with_weight,
    "aten.nll_loss_backward.default": nll_loss_backward,
    "aten.nll_loss2d_backward.default": nll_loss_backward,
    "aten.cross_entropy_loss.default": cross_entropy,
}
