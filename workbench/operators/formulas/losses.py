"""Losses of classes: the network's score of the right class, by `gather`."""

from __future__ import annotations

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.tensors.torch_literals import to_dtype

_NONE, _MEAN = 0, 1


def nll_loss(
    b: Builder, x: Ref, target: Ref, weight: Ref | None = None, reduction: int = _MEAN, ignore_index: int = -100
) -> Ref:
    """Minus the number at the target's class, weighed; the mean is over what the weights add up to."""
    found = _Classes(b, compute(b, x), target, weight, ignore_index)
    return _like(b, found.reduced(found.at_target(), reduction), x)


def nll_loss_with_weight(
    b: Builder, x: Ref, target: Ref, weight: Ref | None, reduction: int, ignore_index: int
) -> tuple[Ref, Ref]:
    """The loss, and the sum of the weights, which its backward pass reads; PyTorch has zero where a batch keeps its
    losses."""
    found = _Classes(b, compute(b, x), target, weight, ignore_index)
    each, loss = found.each(), found.at_target()
    total = found.sum(each)
    if reduction == _NONE and b.rank(x) > 1:
        total = b("aten.mul.Scalar", total, 0.0)
    made = loss if reduction == _NONE else found.sum(loss)
    return _like(b, b("aten.div.Tensor", made, total) if reduction == _MEAN else made, x), _like(b, total, x)


def nll_loss_backward(
    b: Builder, gradient: Ref, x: Ref, target: Ref, weight: Ref | None, reduction: int, ignore_index: int, total: Ref
) -> Ref:
    """Minus the weight of the target's class at its place, and zero at all others, and where nothing counts: there the
    mean's gradient is one of no numbers."""
    found = _Classes(b, compute(b, x), target, weight, ignore_index)
    gradient = compute(b, gradient)
    if reduction != _NONE or b.rank(x) == 1:  # one number, which may come with dims of one
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
    """`nll_loss` of a log-softmax; smoothing mixes in the mean over all classes. Targets that are probabilities have no
    formula here."""
    if to_dtype(b.type(target).dtype).is_floating_point:
        return None
    found = _Classes(b, compute(b, x), target, weight, ignore_index, softmax=True)
    loss = found.at_target()
    if label_smoothing:
        spread = b("aten.mul.Tensor", found.over_all(), label_smoothing / found.count)
        loss = b("aten.add.Tensor", b("aten.mul.Tensor", loss, 1 - label_smoothing), spread)
    return _like(b, found.reduced(loss, reduction), x)


def _like(b: Builder, made: Ref, x: Ref) -> Ref:
    dtype = to_dtype(b.type(x).dtype)
    return made if to_dtype(b.type(made).dtype) == dtype else b("aten._to_copy.default", made, dtype=dtype)


class _Classes:
    """Scores of classes, along dim 1 or the only one, and the right ones."""

    def __init__(
        self, b: Builder, x: Ref, target: Ref, weight: Ref | None, ignored: int, *, softmax: bool = False
    ) -> None:
        self.b, self.weight = b, weight
        self.dim = min(1, b.rank(x) - 1)
        self.count = b.type(x).shape[self.dim]
        self.dtype = to_dtype(b.type(x).dtype)
        self.scores = b("aten.log_softmax.int", x, self.dim) if softmax else x
        if b.rank(x) == 1 and b.rank(target) == 1:  # of several targets of one row PyTorch takes the first
            target = b("aten.select.int", target, 0, 0)
        self.counts = b("aten.ne.Scalar", target, ignored)
        # An ignored target may lie outside of all classes: class 0 stands for it, and is then left out.
        kept = b("aten._to_copy.default", self.counts, dtype=to_dtype(b.type(target).dtype))
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
            shape = [self.count if dim == self.dim else 1 for dim in range(b.rank(scores))]
            scores = b("aten.mul.Tensor", scores, b("aten.view.default", self.weight, shape))
        return self._counted(b("aten.neg.default", b("aten.sum.dim_IntList", scores, [self.dim], False)))

    def reduced(self, loss: Ref, reduction: int) -> Ref:
        if reduction == _NONE:
            return loss
        total = self.sum(loss)
        return total if reduction != _MEAN else self.b("aten.div.Tensor", total, self.sum(self.each()))

    def each(self) -> Ref:
        """What each target counts in a mean."""
        each = self.b("aten._to_copy.default", self.counts, dtype=self.dtype)
        return self.b("aten.mul.Tensor", each, self._weights()) if self.weight is not None else each

    def is_target(self) -> Ref:
        """For each score whether it is that of the target's class."""
        b = self.b
        classes = b("aten.arange.default", self.count, dtype=to_dtype(b.type(self.target).dtype), device="cpu")
        shape = [self.count if dim == self.dim else 1 for dim in range(b.rank(self.scores))]
        return b(
            "aten.eq.Tensor", b("aten.view.default", classes, shape), b("aten.unsqueeze.default", self.target, self.dim)
        )

    def _weights(self) -> Ref:
        return self.b("aten.index.Tensor", self.weight, [self.target])

    def _counted(self, loss: Ref) -> Ref:
        """The loss where it counts, else zero, whatever the scores are there."""
        b = self.b
        nothing = b("aten._to_copy.default", b("aten.ne.Tensor", self.target, self.target), dtype=self.dtype)
        return b("aten.where.self", self.counts, loss, nothing)

    def sum(self, value: Ref) -> Ref:
        return self.b("aten.sum.dim_IntList", value, self.b.dims(value, None), False) if self.b.rank(value) else value


FORMULAS: dict[str, Formula] = {
    "aten.nll_loss_nd.default": nll_loss,
    "aten.nll_loss.default": nll_loss,
    "aten.nll_loss2d.default": nll_loss,
    "aten.nll_loss_forward.default": nll_loss_with_weight,
    "aten.nll_loss2d_forward.default": nll_loss_with_weight,
    "aten.nll_loss_backward.default": nll_loss_backward,
    "aten.nll_loss2d_backward.default": nll_loss_backward,
    "aten.cross_entropy_loss.default": cross_entropy,
}
