"""Norms that use the statistics of the batch itself, and update the running ones."""

from __future__ import annotations

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.reductions import mean

Statistics = tuple[Ref, Ref, Ref, Ref]
"""The normalised batch; then, one number a channel, mean, variance and reciprocal of the spread."""


def _normalised(b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, eps: float) -> Statistics:
    x, rank = compute(b, x), b.rank(x)
    dims = [dim for dim in range(rank) if dim != 1]
    centre = mean(b, x, dims, True)
    centred = b("aten.sub.Tensor", x, centre)
    variance = mean(b, b("aten.mul.Tensor", centred, centred), dims, True)
    spread = b("aten.rsqrt.default", b("aten.add.Tensor", variance, eps))
    made = b("aten.mul.Tensor", centred, spread)
    channels = b.type(x).shape[1]
    column = [channels, *[1] * (rank - 2)]
    if weight is not None:
        made = b("aten.mul.Tensor", made, b("aten.view.default", weight, column))
    if bias is not None:
        made = b("aten.add.Tensor", made, b("aten.view.default", bias, column))
    centre, variance, spread = (b("aten.view.default", each, [channels]) for each in (centre, variance, spread))
    return made, centre, variance, spread


def batch_norm(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, running_mean: Ref, running_var: Ref, training: bool,
    momentum: float, eps: float,
) -> tuple[Ref, ...] | None:  # fmt: skip
    """The result, the batch's statistics, and the running ones: a step of `momentum` towards the batch's."""
    if not training:
        return None
    made, centre, variance, spread = _normalised(b, x, weight, bias, eps)
    count = b.extent(x, [dim for dim in range(b.rank(x)) if dim != 1])
    unbiased = b("aten.mul.Tensor", variance, count / (count - 1)) if count > 1 else variance
    return (
        made,
        centre,
        spread,
        _towards(b, running_mean, centre, momentum),
        _towards(b, running_var, unbiased, momentum),
    )


def _towards(b: Builder, old: Ref, new: Ref, momentum: float) -> Ref:
    kept = b("aten.mul.Tensor", old, 1.0 - momentum)
    return b("aten.add.Tensor", kept, b("aten.mul.Tensor", new, momentum))


def batch_norm_without_history(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, training: bool, momentum: float, eps: float
) -> tuple[Ref, ...]:
    made, centre, _, spread = _normalised(b, x, weight, bias, eps)
    return made, centre, spread


FORMULAS: dict[str, Formula] = {
    "aten._native_batch_norm_legit_functional.default": batch_norm,
    "aten._native_batch_norm_legit.no_stats": batch_norm_without_history,
}
