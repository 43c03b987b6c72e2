"""Backward passes of activations, softmax and norms: what autograd calls for them, written in simpler ops.

A formula is given the gradient of the op's result and makes those of its operands. Of several results an op gives only
those that are asked for, so a formula leaves out the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.layout_changes import per_channel, reshape
from workbench.operators.formulas.reductions import mean
from workbench.operators.tensors.element_types import to_dtype


def asked_for(made: Sequence[Ref | None], mask: Sequence[bool]) -> tuple[Ref | None, ...]:
    return tuple(each for each, wanted in zip(made, mask, strict=True) if wanted)


def _product(b: Builder, *factors: Ref | float) -> Ref:
    made, *rest = factors
    for factor in rest:
        made = b("aten.mul.Tensor", made, factor)
    assert isinstance(made, Ref)
    return made


def _kept(b: Builder, where: Ref, gradient: Ref) -> Ref:
    """The gradient where the op lets it through, else zero."""
    return b("aten.where.ScalarOther", where, gradient, 0.0)


def _between(b: Builder, x: Ref, low: float, high: float) -> Ref:
    return b("aten.logical_and.default", b("aten.gt.Scalar", x, low), b("aten.lt.Scalar", x, high))


def threshold(b: Builder, gradient: Ref, x: Ref, limit: float) -> Ref:
    return b("aten.where.ScalarSelf", b("aten.le.Scalar", compute(b, x), limit), 0.0, gradient)


def sigmoid(b: Builder, gradient: Ref, y: Ref) -> Ref:
    gradient, y = compute(b, gradient), compute(b, y)
    return _product(b, gradient, b("aten.rsub.Scalar", y, 1.0), y)


def tanh(b: Builder, gradient: Ref, y: Ref) -> Ref:
    gradient, y = compute(b, gradient), compute(b, y)
    return _product(b, gradient, b("aten.rsub.Scalar", _product(b, y, y), 1.0))


def silu(b: Builder, gradient: Ref, x: Ref) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    gate = b("aten.sigmoid.default", x)
    slope = b("aten.add.Scalar", _product(b, x, b("aten.rsub.Scalar", gate, 1.0)), 1.0)
    return _product(b, gradient, gate, slope)


def gelu(b: Builder, gradient: Ref, x: Ref, *, approximate: str = "none") -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    if approximate == "tanh":
        cube, scale = _product(b, x, x, x), math.sqrt(2 / math.pi)
        inner = _product(b, b("aten.add.Tensor", x, _product(b, cube, 0.044715)), scale)
        curve = b("aten.tanh.default", inner)
        slope = _product(b, b("aten.add.Scalar", _product(b, x, x, 3 * 0.044715), 1.0), scale)
        bend = _product(b, x, b("aten.rsub.Scalar", _product(b, curve, curve), 1.0), slope)
        return _product(b, gradient, b("aten.add.Tensor", b("aten.add.Scalar", curve, 1.0), bend), 0.5)
    below = _product(b, b("aten.add.Scalar", b("aten.erf.default", _product(b, x, math.sqrt(0.5))), 1.0), 0.5)
    density = _product(b, b("aten.exp.default", _product(b, x, x, -0.5)), 1 / math.sqrt(2 * math.pi))
    return _product(b, gradient, b("aten.add.Tensor", below, _product(b, x, density)))


def elu(b: Builder, gradient: Ref, alpha: float, scale: float, input_scale: float, is_result: bool, x: Ref) -> Ref:
    """`x` is the op's operand or, where that was overwritten, its result."""
    gradient, x = compute(b, gradient), compute(b, x)
    if is_result:
        low = _product(b, b("aten.add.Scalar", x, alpha * scale), input_scale)
    else:
        low = _product(b, b("aten.exp.default", _product(b, x, input_scale)), input_scale * alpha * scale)
    return _product(b, gradient, b("aten.where.ScalarSelf", b("aten.gt.Scalar", x, 0), scale, low))


def leaky_relu(b: Builder, gradient: Ref, x: Ref, slope: float, is_result: bool) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    return b("aten.where.self", b("aten.gt.Scalar", x, 0), gradient, _product(b, gradient, slope))


def rrelu(
    b: Builder, gradient: Ref, x: Ref, slopes: Ref, lower: float, upper: float, training: bool, is_result: bool
) -> Ref:
    """With the slopes that were drawn; outside training the middle of their range."""
    if training and upper - lower > 1e-6:
        return _product(b, compute(b, gradient), compute(b, slopes))
    return leaky_relu(b, gradient, x, (lower + upper) / 2, is_result)


def rrelu_with_noise(
    b: Builder, x: Ref, noise: Ref, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: None = None,
) -> tuple[Ref, Ref] | None:  # fmt: skip
    """The result, and the slopes that it draws in training. Outside it the slope is the middle of its range."""
    return None if training else (b("aten.leaky_relu.default", x, (lower + upper) / 2), noise)


def hardtanh(b: Builder, gradient: Ref, x: Ref, low: float, high: float) -> Ref:
    """In 16 bits the bounds are not rounded."""
    return _kept(b, _between(b, compute(b, x), low, high), gradient)


def hardsigmoid(b: Builder, gradient: Ref, x: Ref) -> Ref:
    return _kept(b, _between(b, x, -3.0, 3.0), _product(b, compute(b, gradient), 1 / 6))


def hardswish(b: Builder, gradient: Ref, x: Ref) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    middle = _product(b, gradient, b("aten.add.Scalar", _product(b, x, 1 / 3), 0.5))
    above = b("aten.where.self", b("aten.ge.Scalar", x, 3.0), gradient, middle)
    return b("aten.where.ScalarSelf", b("aten.le.Scalar", x, -3.0), 0.0, above)


def hardshrink(b: Builder, gradient: Ref, x: Ref, limit: float) -> Ref:
    inside = b("aten.logical_and.default", b("aten.ge.Scalar", x, -limit), b("aten.le.Scalar", x, limit))
    return b("aten.where.ScalarSelf", inside, 0.0, gradient)


def softplus(b: Builder, gradient: Ref, x: Ref, beta: float, limit: float) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    scaled = _product(b, x, beta)
    bent = _product(b, gradient, b("aten.sigmoid.default", scaled))
    return b("aten.where.self", b("aten.gt.Scalar", scaled, limit), gradient, bent)


def mish(b: Builder, gradient: Ref, x: Ref) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    curve, gate = b("aten.tanh.default", b("aten.softplus.default", x)), b("aten.sigmoid.default", x)
    bend = _product(b, x, gate, b("aten.rsub.Scalar", _product(b, curve, curve), 1.0))
    return _product(b, gradient, b("aten.add.Tensor", curve, bend))


def log_sigmoid(b: Builder, gradient: Ref, x: Ref, buffer: Ref) -> Ref:
    return _product(b, compute(b, gradient), b("aten.sigmoid.default", b("aten.neg.default", compute(b, x))))


def log_sigmoid_with_buffer(b: Builder, x: Ref) -> tuple[Ref, Ref]:
    """The result, and what PyTorch keeps for its own backward pass."""
    size = b("aten.abs.default", compute(b, x))
    return b("aten.log_sigmoid.default", x), b("aten.exp.default", b("aten.neg.default", size))


def glu(b: Builder, gradient: Ref, x: Ref, dim: int) -> Ref:
    (dim,) = b.dims(x, dim)
    half = b.type(x).shape[dim] // 2
    value, gate = (compute(b, b("aten.slice.Tensor", x, dim, start, start + half)) for start in (0, half))
    gradient, gate = compute(b, gradient), b("aten.sigmoid.default", gate)
    first = _product(b, gradient, gate)
    second = _product(b, first, b("aten.rsub.Scalar", gate, 1.0), value)
    return b("aten.cat.default", [first, second], dim)


def prelu(b: Builder, gradient: Ref, x: Ref, weight: Ref) -> tuple[Ref, Ref]:
    gradient, x = compute(b, gradient), compute(b, x)
    right = b("aten.gt.Scalar", x, 0)
    of_weight = b("aten.where.ScalarSelf", right, 0.0, _product(b, x, gradient))
    return b("aten.where.self", right, gradient, _product(b, gradient, compute(b, weight))), of_weight


def softmax(b: Builder, gradient: Ref, y: Ref, dim: int, dtype: torch.dtype) -> Ref:
    weighed, y = _product(b, compute(b, gradient), compute(b, y)), compute(b, y)
    total = b("aten.sum.dim_IntList", weighed, [dim], True)
    return b("aten.sub.Tensor", weighed, _product(b, y, total))


def log_softmax(b: Builder, gradient: Ref, y: Ref, dim: int, dtype: torch.dtype) -> Ref:
    gradient, y = compute(b, gradient), compute(b, y)
    total = b("aten.sum.dim_IntList", gradient, [dim], True)
    return b("aten.sub.Tensor", gradient, _product(b, b("aten.exp.default", y), total))


def layer_norm_with_statistics(
    b: Builder, x: Ref, shape: list[int], weight: Ref | None, bias: Ref | None, eps: float
) -> tuple[Ref, Ref, Ref]:
    """The norm, and what its backward pass reads: mean and reciprocal of the spread of each row."""
    x, dims = compute(b, x), list(range(b.rank(x) - len(shape), b.rank(x)))
    centre = mean(b, x, dims, True)
    centred = b("aten.sub.Tensor", x, centre)
    spread = b("aten.rsqrt.default", b("aten.add.Scalar", mean(b, _product(b, centred, centred), dims, True), eps))
    made = _product(b, centred, spread)
    if weight is not None:
        made = _product(b, made, compute(b, weight))
    return made if bias is None else b("aten.add.Tensor", made, compute(b, bias)), centre, spread


def layer_norm(
    b: Builder, gradient: Ref, x: Ref, shape: list[int], centre: Ref, spread: Ref, weight: Ref | None,
    bias: Ref | None, mask: list[bool],
) -> tuple[Ref | None, ...]:  # fmt: skip
    gradient, x = compute(b, gradient), compute(b, x)
    outer, inner = list(range(b.rank(x) - len(shape))), list(range(b.rank(x) - len(shape), b.rank(x)))
    normed = _product(b, b("aten.sub.Tensor", x, centre), spread)
    of_normed = gradient if weight is None else _product(b, gradient, compute(b, weight))
    made: list[Ref | None] = [None, None, None]
    if mask[0]:
        made[0] = _through_norm(b, of_normed, normed, spread, inner)
    if mask[1]:
        made[1] = _summed(b, _product(b, gradient, normed), outer)
    if mask[2]:
        made[2] = _summed(b, gradient, outer)
    return asked_for(made, mask)


def _summed(b: Builder, x: Ref, dims: list[int]) -> Ref:
    return b("aten.sum.dim_IntList", x, dims, False) if dims else x


def _through_norm(b: Builder, gradient: Ref, normed: Ref, spread: Ref, dims: list[int]) -> Ref:
    """The gradient of what was centred and scaled: without its own mean, and without its part along the result."""
    flat = b("aten.sub.Tensor", gradient, mean(b, gradient, dims, True))
    along = mean(b, _product(b, gradient, normed), dims, True)
    return _product(b, b("aten.sub.Tensor", flat, _product(b, normed, along)), spread)


def rms_norm_with_statistics(
    b: Builder, x: Ref, shape: list[int], weight: Ref | None, eps: float | None
) -> tuple[Ref, Ref]:
    x, dims = compute(b, x), list(range(b.rank(x) - len(shape), b.rank(x)))
    epsilon = torch.finfo(to_dtype(b.type(x).dtype)).eps if eps is None else eps
    spread = b("aten.rsqrt.default", b("aten.add.Scalar", mean(b, _product(b, x, x), dims, True), epsilon))
    made = _product(b, x, spread)
    return made if weight is None else _product(b, made, compute(b, weight)), spread


def rms_norm(
    b: Builder, gradient: Ref, x: Ref, shape: list[int], spread: Ref, weight: Ref | None, mask: list[bool]
) -> tuple[Ref | None, ...]:
    gradient, x = compute(b, gradient), compute(b, x)
    outer, inner = list(range(b.rank(x) - len(shape))), list(range(b.rank(x) - len(shape), b.rank(x)))
    normed = _product(b, x, spread)
    of_normed = gradient if weight is None else _product(b, gradient, compute(b, weight))
    made: list[Ref | None] = [None, None]
    if mask[0]:
        along = mean(b, _product(b, of_normed, normed), inner, True)
        made[0] = _product(b, b("aten.sub.Tensor", of_normed, _product(b, normed, along)), spread)
    if mask[1]:
        made[1] = _summed(b, _product(b, gradient, normed), outer)
    return asked_for(made, mask)


def batch_norm(
    b: Builder, gradient: Ref, x: Ref, weight: Ref | None, running_mean: Ref | None, running_var: Ref | None,
    centre: Ref | None, spread: Ref | None, train: bool, eps: float, mask: list[bool],
) -> tuple[Ref | None, ...]:  # fmt: skip
    """In training the statistics are the batch's own and have gradients; else they are constants."""
    gradient, x = compute(b, gradient), compute(b, x)
    dims, space = [dim for dim in range(b.rank(x)) if dim != 1], b.rank(x) - 2
    if not train:
        assert running_mean is not None and running_var is not None
        centre = running_mean
        spread = b("aten.rsqrt.default", b("aten.add.Scalar", compute(b, running_var), eps))
    assert centre is not None and spread is not None
    columns = [per_channel(b, each, space) for each in (compute(b, centre), spread)]
    normed = _product(b, b("aten.sub.Tensor", x, columns[0]), columns[1])
    made: list[Ref | None] = [None, None, None]
    if mask[0]:
        scale = None if weight is None else per_channel(b, compute(b, weight), space)
        of_normed = gradient if scale is None else _product(b, gradient, scale)
        made[0] = _through_norm(b, of_normed, normed, columns[1], dims) if train else _product(b, of_normed, columns[1])
    if mask[1]:
        made[1] = _summed(b, _product(b, gradient, normed), dims)
    if mask[2]:
        made[2] = _summed(b, gradient, dims)
    return asked_for(made, mask)


def group_norm_with_statistics(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, images: int, channels: int, size: int, groups: int,
    eps: float,
) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    shape = list(b.type(x).shape)
    y = compute(b, reshape(b, x, [images, groups, channels // groups, size]))
    centre = mean(b, y, [2, 3], True)
    centred = b("aten.sub.Tensor", y, centre)
    spread = b("aten.rsqrt.default", b("aten.add.Scalar", mean(b, _product(b, centred, centred), [2, 3], True), eps))
    y = _product(b, centred, spread)
    column = [groups, channels // groups, 1]
    if weight is not None:
        y = _product(b, y, b("aten.view.default", compute(b, weight), column))
    if bias is not None:
        y = b("aten.add.Tensor", y, b("aten.view.default", compute(b, bias), column))
    centre, spread = (b("aten.view.default", each, [images, groups]) for each in (centre, spread))
    return b("aten.view.default", y, shape), centre, spread


def group_norm(
    b: Builder, gradient: Ref, x: Ref, centre: Ref, spread: Ref, weight: Ref | None, images: int, channels: int,
    size: int, groups: int, mask: list[bool],
) -> tuple[Ref | None, ...]:  # fmt: skip
    shape, parts = list(b.type(x).shape), [images, groups, channels // groups, size]
    gradient, y = (compute(b, reshape(b, each, parts)) for each in (gradient, x))
    centre, spread = (b("aten.view.default", each, [images, groups, 1, 1]) for each in (centre, spread))
    normed = _product(b, b("aten.sub.Tensor", y, centre), spread)
    made: list[Ref | None] = [None, None, None]
    if mask[0]:
        column = [groups, channels // groups, 1]
        scaled = None if weight is None else b("aten.view.default", compute(b, weight), column)
        of_normed = gradient if scaled is None else _product(b, gradient, scaled)
        made[0] = b("aten.view.default", _through_norm(b, of_normed, normed, spread, [2, 3]), shape)
    if mask[1]:
        made[1] = b("aten.view.default", _summed(b, _product(b, gradient, normed), [0, 3]), [channels])
    if mask[2]:
        made[2] = b("aten.view.default", _summed(b, gradient, [0, 3]), [channels])
    return asked_for(made, mask)


def weight_norm(b: Builder, direction: Ref, size: Ref, dim: int = 0) -> tuple[Ref, Ref]:
    """Weights whose parts along a dim have these sizes, and the sizes that they have now."""
    direction, dims = compute(b, direction), _others(b, direction, dim)
    square = b("aten.sum.dim_IntList", b("aten.mul.Tensor", direction, direction), dims, True)
    now = b("aten.sqrt.default", square)
    return b("aten.mul.Tensor", direction, b("aten.div.Tensor", compute(b, size), now)), now


def weight_norm_backward(b: Builder, gradient: Ref, direction: Ref, size: Ref, now: Ref, dim: int) -> tuple[Ref, Ref]:
    """Of the direction: without its part along the direction. Of the sizes: that part."""
    gradient, direction, size, now = (compute(b, each) for each in (gradient, direction, size, now))
    product = b("aten.mul.Tensor", gradient, direction)
    along = b("aten.div.Tensor", b("aten.sum.dim_IntList", product, _others(b, direction, dim), True), now)
    rest = b("aten.sub.Tensor", gradient, b("aten.mul.Tensor", b("aten.div.Tensor", direction, now), along))
    return b("aten.mul.Tensor", rest, b("aten.div.Tensor", size, now)), along


def _others(b: Builder, x: Ref, dim: int) -> list[int]:
    return [each for each in range(b.rank(x)) if each != dim % b.rank(x)]


FORMULAS: dict[str, Formula] = {
    "aten.threshold_backward.default": threshold,
    "aten.sigmoid_backward.default": sigmoid,
    "aten.tanh_backward.default": tanh,
    "aten.silu_backward.default": silu,
    "aten.gelu_backward.default": gelu,
    "aten.elu_backward.default": elu,
    "aten.leaky_relu_backward.default": leaky_relu,
    "aten.rrelu_with_noise_functional.default": rrelu_with_noise,
    "aten.rrelu_with_noise_backward.default": rrelu,
    "aten.hardtanh_backward.default": hardtanh,
    "aten.hardsigmoid_backward.default": hardsigmoid,
    "aten.hardswish_backward.default": hardswish,
    "aten.hardshrink_backward.default": hardshrink,
    "aten.softshrink_backward.default": hardshrink,
    "aten.softplus_backward.default": softplus,
    "aten.mish_backward.default": mish,
    "aten.log_sigmoid_backward.default": log_sigmoid,
    "aten.log_sigmoid_forward.default": log_sigmoid_with_buffer,
    "aten.glu_backward.default": glu,
    "aten._prelu_kernel_backward.default": prelu,
    "aten._softmax_backward_data.default": softmax,
    "aten._log_softmax_backward_data.default": log_softmax,
    "aten.native_layer_norm.default": layer_norm_with_statistics,
    "aten.native_layer_norm_backward.default": layer_norm,
    "aten._weight_norm_interface.default": weight_norm,
    "aten._weight_norm_interface_backward.default": weight_norm_backward,
    "aten._fused_rms_norm.default": rms_norm_with_statistics,
    "aten._fused_rms_norm_backward.default": rms_norm,
    "aten.native_batch_norm_backward.default": batch_norm,
    "aten.native_group_norm.default": group_norm_with_statistics,
    "aten.native_group_norm_backward.default": group_norm,
}
