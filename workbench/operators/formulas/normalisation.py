"""Softmax and the norms: a reduction, and a pointwise op that reads it; and the backward passes of the norms.

A norm for training also returns the statistics that its backward pass reads.
"""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import times
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.gradients import asked_for
from workbench.operators.formulas.known_contents import full
from workbench.operators.formulas.layout_changes import per_channel, reshape
from workbench.operators.formulas.reductions import mean


def softmax(b: Builder, x: Ref, dim: int, dtype: torch.dtype | None = None) -> Ref:
    x = compute(b, x, dtype)
    exponentials = b("aten.exp.default", b("aten.sub.Tensor", x, b("aten.amax.default", x, [dim], True)))
    return b("aten.div.Tensor", exponentials, b("aten.sum.dim_IntList", exponentials, [dim], True))


def log_softmax(b: Builder, x: Ref, dim: int, dtype: torch.dtype | None = None) -> Ref:
    x = compute(b, x, dtype)
    shifted = b("aten.sub.Tensor", x, b("aten.amax.default", x, [dim], True))
    total = b("aten.sum.dim_IntList", b("aten.exp.default", shifted), [dim], True)
    return b("aten.sub.Tensor", shifted, b("aten.log.default", total))


def _half_to_float(formula: Formula) -> Formula:
    """Adapts a formula to PyTorch's private overloads, whose last argument asks for float32 results of half inputs."""

    def changed(b: Builder, x: Ref, dim: int, half_to_float: bool) -> Ref | None:
        return formula(b, x, dim, torch.float32 if half_to_float else None)

    return changed


def _normalised(b: Builder, x: Ref, dims: list[int], eps: float) -> tuple[Ref, Ref, Ref, Ref]:
    """(x - mean) / spread; then the mean, the variance and 1 / spread. The spread is sqrt(variance + eps)."""
    centre = mean(b, x, dims, True)
    centred = b("aten.sub.Tensor", x, centre)
    variance = mean(b, b("aten.mul.Tensor", centred, centred), dims, True)
    spread = _spread(b, variance, eps)
    return b("aten.mul.Tensor", centred, spread), centre, variance, spread


def _spread(b: Builder, variance: Ref, eps: float) -> Ref:
    """1 / sqrt(variance + eps)."""
    return b("aten.rsqrt.default", b("aten.add.Tensor", variance, eps))


def _affine(b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, *column: int, wide: bool = True) -> Ref:
    """x * weight + bias. Weight and bias are viewed in the shape `column`, and `wide` converts them to the type of the
    computation."""
    for op, each in (("aten.mul.Tensor", weight), ("aten.add.Tensor", bias)):
        if each is not None:
            each = compute(b, each) if wide else each
            x = b(op, x, b("aten.view.default", each, [*column]) if column else each)
    return x


def _last(b: Builder, x: Ref, shape: list[int]) -> list[int]:
    """The last dims of `x`, as many as the shape has."""
    return list(range(b.rank(x) - len(shape), b.rank(x)))


def _others(b: Builder, x: Ref, dim: int) -> list[int]:
    return [each for each in range(b.rank(x)) if each != dim % b.rank(x)]


def layer_norm(
    b: Builder, x: Ref, shape: list[int], weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5,
    _cudnn: bool = True,
) -> Ref:  # fmt: skip
    x = compute(b, x)
    return _affine(b, _normalised(b, x, _last(b, x, shape), eps)[0], weight, bias, wide=False)


def layer_norm_with_statistics(
    b: Builder, x: Ref, shape: list[int], weight: Ref | None, bias: Ref | None, eps: float
) -> tuple[Ref, Ref, Ref]:
    x = compute(b, x)
    result, centre, _, spread = _normalised(b, x, _last(b, x, shape), eps)
    return _affine(b, result, weight, bias), centre, spread


def layer_norm_backward(
    b: Builder, gradient: Ref, x: Ref, shape: list[int], centre: Ref, spread: Ref, weight: Ref | None,
    bias: Ref | None, mask: list[bool],
) -> tuple[Ref, ...]:  # fmt: skip
    gradient, x = compute(b, gradient), compute(b, x)
    outer, inner = list(range(b.rank(x) - len(shape))), _last(b, x, shape)
    normed = times(b, b("aten.sub.Tensor", x, centre), spread)
    of_normed = gradient if weight is None else times(b, gradient, compute(b, weight))
    return asked_for(
        mask,
        lambda: _through_norm(b, of_normed, normed, spread, inner),
        lambda: _summed(b, times(b, gradient, normed), outer),
        lambda: _summed(b, gradient, outer),
    )


def _summed(b: Builder, x: Ref, dims: list[int]) -> Ref:
    return b("aten.sum.dim_IntList", x, dims, False) if dims else x


def _through_norm(b: Builder, gradient: Ref, normed: Ref, spread: Ref, dims: list[int]) -> Ref:
    """The gradient of a norm's input: the gradient of the normed values, less its mean and its part along them, over
    the spread."""
    flat = b("aten.sub.Tensor", gradient, mean(b, gradient, dims, True))
    along = mean(b, times(b, gradient, normed), dims, True)
    return times(b, b("aten.sub.Tensor", flat, times(b, normed, along)), spread)


def rms_norm(b: Builder, x: Ref, shape: list[int], weight: Ref | None = None, eps: float | None = None) -> Ref:
    return _rms_norm(b, x, shape, weight, eps, wide=False)[0]


def rms_norm_with_statistics(
    b: Builder, x: Ref, shape: list[int], weight: Ref | None, eps: float | None
) -> tuple[Ref, Ref]:
    return _rms_norm(b, x, shape, weight, eps, wide=True)


def _rms_norm(
    b: Builder, x: Ref, shape: list[int], weight: Ref | None, eps: float | None, *, wide: bool
) -> tuple[Ref, Ref]:
    x = compute(b, x)
    epsilon = torch.finfo(b.dtype(x)).eps if eps is None else eps  # the epsilon of the type of the computation
    spread = _spread(b, mean(b, b("aten.mul.Tensor", x, x), _last(b, x, shape), True), epsilon)
    return _affine(b, b("aten.mul.Tensor", x, spread), weight, None, wide=wide), spread


def rms_norm_backward(
    b: Builder, gradient: Ref, x: Ref, shape: list[int], spread: Ref, weight: Ref | None, mask: list[bool]
) -> tuple[Ref, ...]:
    gradient, x = compute(b, gradient), compute(b, x)
    outer, inner = list(range(b.rank(x) - len(shape))), _last(b, x, shape)
    normed = times(b, x, spread)
    of_normed = gradient if weight is None else times(b, gradient, compute(b, weight))

    def of_input() -> Ref:
        along = mean(b, times(b, of_normed, normed), inner, True)
        return times(b, b("aten.sub.Tensor", of_normed, times(b, normed, along)), spread)

    return asked_for(mask, of_input, lambda: _summed(b, times(b, gradient, normed), outer))


def batch_norm(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, mean: Ref, var: Ref, momentum: float, eps: float
) -> tuple[Ref | None, ...]:
    """Normalises with the running statistics: one factor and one summand for each channel, computed once and not at
    every element."""
    factor = _spread(b, compute(b, var), eps)
    if weight is not None:
        factor = b("aten.mul.Tensor", factor, compute(b, weight))
    summand = b("aten.mul.Tensor", compute(b, mean), factor)
    # Without a bias, 0 - summand: the sign of a zero is then PyTorch's. A negation would return -0.
    without = ("aten.rsub.Scalar", summand, 0.0)
    summand = b(*without) if bias is None else b("aten.sub.Tensor", compute(b, bias), summand)
    dims = b.rank(x) - 2
    scaled = b("aten.mul.Tensor", compute(b, x), per_channel(b, factor, dims))
    nothing = full(b, [0], 0.0, dtype=b.dtype(mean))  # in place of the batch's statistics
    return b("aten.add.Tensor", scaled, per_channel(b, summand, dims)), nothing, nothing


def batch_norm_any(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, mean: Ref | None, var: Ref | None, training: bool,
    momentum: float, eps: float, cudnn: bool,
) -> Ref | None:  # fmt: skip
    if training or mean is None or var is None:
        return None
    return batch_norm(b, x, weight, bias, mean, var, momentum, eps)[0]


def batch_norm_in_training(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, running_mean: Ref, running_var: Ref, training: bool,
    momentum: float, eps: float,
) -> tuple[Ref, ...] | None:  # fmt: skip
    """The result, the batch's mean and 1 / spread, and the running statistics moved towards the batch's by `momentum`.
    None outside training."""
    if not training:
        return None
    result, centre, variance, spread = _of_batch(b, x, weight, bias, eps)
    count = b.extent(x, _others(b, x, 1))
    unbiased = b("aten.mul.Tensor", variance, count / (count - 1)) if count > 1 else variance
    running = (_towards(b, *pair, momentum) for pair in ((running_mean, centre), (running_var, unbiased)))
    return result, centre, spread, *running


def _of_batch(b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, eps: float) -> tuple[Ref, Ref, Ref, Ref]:
    """The normalised batch; then, for each channel, the mean, the variance and 1 / spread."""
    x, channels = compute(b, x), b.type(x).shape[1]
    result, *statistics = _normalised(b, x, _others(b, x, 1), eps)
    result = _affine(b, result, weight, bias, channels, *[1] * (b.rank(x) - 2), wide=False)
    centre, variance, spread = (b("aten.view.default", each, [channels]) for each in statistics)
    return result, centre, variance, spread


def _towards(b: Builder, old: Ref, new: Ref, momentum: float) -> Ref:
    kept = b("aten.mul.Tensor", old, 1.0 - momentum)
    return b("aten.add.Tensor", kept, b("aten.mul.Tensor", new, momentum))


def batch_norm_without_history(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, training: bool, momentum: float, eps: float
) -> tuple[Ref, ...]:
    result, centre, _, spread = _of_batch(b, x, weight, bias, eps)
    return result, centre, spread


def batch_norm_backward(
    b: Builder, gradient: Ref, x: Ref, weight: Ref | None, running_mean: Ref | None, running_var: Ref | None,
    centre: Ref | None, spread: Ref | None, train: bool, eps: float, mask: list[bool],
) -> tuple[Ref, ...]:  # fmt: skip
    """In training the statistics are the batch's own, and the gradient goes through them; else they are constants."""
    gradient, x = compute(b, gradient), compute(b, x)
    dims, space = _others(b, x, 1), b.rank(x) - 2
    if not train:
        assert running_mean is not None and running_var is not None
        centre, spread = running_mean, _spread(b, compute(b, running_var), eps)
    assert centre is not None and spread is not None
    column, over = (per_channel(b, each, space) for each in (compute(b, centre), spread))
    normed = times(b, b("aten.sub.Tensor", x, column), over)

    def of_input() -> Ref:
        of_normed = gradient if weight is None else times(b, gradient, per_channel(b, compute(b, weight), space))
        return _through_norm(b, of_normed, normed, over, dims) if train else times(b, of_normed, over)

    return asked_for(
        mask, of_input, lambda: _summed(b, times(b, gradient, normed), dims), lambda: _summed(b, gradient, dims)
    )


def group_norm(
    b: Builder, x: Ref, groups: int, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5,
    cudnn: bool = True,
) -> Ref:  # fmt: skip
    """Normalises each group of channels by its own mean and spread, in the shape (image, group, channel of the group,
    place)."""
    images, channels, *space = b.type(x).shape
    inside = [groups, channels // groups, math.prod(space)]
    result = _normalised(b, compute(b, reshape(b, x, [images, *inside])), [2, 3], eps)[0]
    weight, bias = (None if each is None else b("aten.view.default", each, [*inside[:2], 1]) for each in (weight, bias))
    return b("aten.view.default", _affine(b, result, weight, bias, wide=False), [images, channels, *space])


def group_norm_with_statistics(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, images: int, channels: int, size: int, groups: int,
    eps: float,
) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    inside = [groups, channels // groups]
    result, centre, _, spread = _normalised(b, compute(b, reshape(b, x, [images, *inside, size])), [2, 3], eps)
    result = _affine(b, result, weight, bias, *inside, 1)
    centre, spread = (b("aten.view.default", each, [images, groups]) for each in (centre, spread))
    return b("aten.view.default", result, b.shape(x)), centre, spread


def group_norm_backward(
    b: Builder, gradient: Ref, x: Ref, centre: Ref, spread: Ref, weight: Ref | None, images: int, channels: int,
    size: int, groups: int, mask: list[bool],
) -> tuple[Ref, ...]:  # fmt: skip
    shape, inside = b.shape(x), [groups, channels // groups]
    gradient, y = (compute(b, reshape(b, each, [images, *inside, size])) for each in (gradient, x))
    centre, spread = (b("aten.view.default", each, [images, groups, 1, 1]) for each in (centre, spread))
    normed = times(b, b("aten.sub.Tensor", y, centre), spread)

    def of_input() -> Ref:
        of_normed = _affine(b, gradient, weight, None, *inside, 1)
        return b("aten.view.default", _through_norm(b, of_normed, normed, spread, [2, 3]), shape)

    def of_channels(x: Ref) -> Ref:
        return b("aten.view.default", _summed(b, x, [0, 3]), [channels])

    return asked_for(mask, of_input, lambda: of_channels(times(b, gradient, normed)), lambda: of_channels(gradient))


def instance_norm(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, running_mean: Ref | None, running_var: Ref | None,
    use_input_stats: bool, momentum: float, eps: float, cudnn: bool,
) -> Ref | None:  # fmt: skip
    if use_input_stats:
        return group_norm(b, x, b.type(x).shape[1], weight, bias, eps)
    return batch_norm_any(b, x, weight, bias, running_mean, running_var, False, momentum, eps, cudnn)


def weight_norm(b: Builder, direction: Ref, size: Ref, dim: int = 0) -> tuple[Ref, Ref]:
    """`direction` rescaled so that its slices along a dim have the norms `size`, and the norms of `direction`
    itself."""
    direction, dims = compute(b, direction), _others(b, direction, dim)
    square = b("aten.sum.dim_IntList", b("aten.mul.Tensor", direction, direction), dims, True)
    now = b("aten.sqrt.default", square)
    return b("aten.mul.Tensor", direction, b("aten.div.Tensor", compute(b, size), now)), now


def weight_norm_backward(b: Builder, gradient: Ref, direction: Ref, size: Ref, now: Ref, dim: int) -> tuple[Ref, Ref]:
    """The gradient of the direction, which has no part along the direction, and that of the sizes, which is this
    part."""
    gradient, direction, size, now = (compute(b, each) for each in (gradient, direction, size, now))
    product = b("aten.mul.Tensor", gradient, direction)
    along = b("aten.div.Tensor", b("aten.sum.dim_IntList", product, _others(b, direction, dim), True), now)
    rest = b("aten.sub.Tensor", gradient, b("aten.mul.Tensor", b("aten.div.Tensor", direction, now), along))
    return b("aten.mul.Tensor", rest, b("aten.div.Tensor", size, now)), along


FORMULAS: dict[str, Formula] = {
    "aten.softmax.int": softmax,
    "aten._softmax.default": _half_to_float(softmax),
    "aten.log_softmax.int": log_softmax,
    "aten._log_softmax.default": _half_to_float(log_softmax),
    "aten.layer_norm.default": layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten._native_batch_norm_legit_no_training.default": batch_norm,
    "aten.batch_norm.default": batch_norm_any,
    "aten.group_norm.default": group_norm,
    "aten.instance_norm.default": instance_norm,
    "aten._native_batch_norm_legit_functional.default": batch_norm_in_training,
    "aten._native_batch_norm_legit.no_stats": batch_norm_without_history,
    "aten.native_layer_norm.default": layer_norm_with_statistics,
    "aten.native_layer_norm_backward.default": layer_norm_backward,
    "aten._weight_norm_interface.default": weight_norm,
    "aten._weight_norm_interface_backward.default": weight_norm_backward,
    "aten._fused_rms_norm.default": rms_norm_with_statistics,
    "aten._fused_rms_norm_backward.default": rms_norm_backward,
    "aten.native_batch_norm_backward.default": batch_norm_backward,
    "aten.native_group_norm.default": group_norm_with_statistics,
    "aten.native_group_norm_backward.default": group_norm_backward,
}
