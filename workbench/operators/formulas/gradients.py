"""Backward passes of activations, softmax and norms: what autograd calls for them, written in simpler ops.

A formula takes the gradient of the op's result and returns the gradients of its operands, but only those for which the
op's mask is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import times
from workbench.operators.formulas.formula_builder import Builder, Formula, compute


def asked_for(mask: Sequence[bool], *gradients: Callable[[], Ref]) -> tuple[Ref, ...]:
    """Computes and returns only the gradients for which `mask` is true."""
    return tuple(result() for result, wanted in zip(gradients, mask, strict=True) if wanted)


def _kept(b: Builder, where: Ref, gradient: Ref) -> Ref:
    """The gradient where the op lets it through, else zero."""
    return b("aten.where.ScalarOther", where, gradient, 0.0)


def _between(b: Builder, x: Ref, low: float, high: float) -> Ref:
    return b("aten.logical_and.default", b("aten.gt.Scalar", x, low), b("aten.lt.Scalar", x, high))


def threshold(b: Builder, gradient: Ref, x: Ref, limit: float) -> Ref:
    return b("aten.where.ScalarSelf", b("aten.le.Scalar", compute(b, x), limit), 0.0, gradient)


def sigmoid(b: Builder, gradient: Ref, y: Ref) -> Ref:
    gradient, y = compute(b, gradient), compute(b, y)
    return times(b, gradient, b("aten.rsub.Scalar", y, 1.0), y)


def tanh(b: Builder, gradient: Ref, y: Ref) -> Ref:
    gradient, y = compute(b, gradient), compute(b, y)
    return times(b, gradient, b("aten.rsub.Scalar", times(b, y, y), 1.0))


def silu(b: Builder, gradient: Ref, x: Ref) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    gate = b("aten.sigmoid.default", x)
    slope = b("aten.add.Scalar", times(b, x, b("aten.rsub.Scalar", gate, 1.0)), 1.0)
    return times(b, gradient, gate, slope)


def gelu(b: Builder, gradient: Ref, x: Ref, *, approximate: str = "none") -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    if approximate == "tanh":
        cube, scale = times(b, x, x, x), math.sqrt(2 / math.pi)
        inner = times(b, b("aten.add.Tensor", x, times(b, cube, 0.044715)), scale)
        curve = b("aten.tanh.default", inner)
        slope = times(b, b("aten.add.Scalar", times(b, x, x, 3 * 0.044715), 1.0), scale)
        bend = times(b, x, b("aten.rsub.Scalar", times(b, curve, curve), 1.0), slope)
        return times(b, gradient, b("aten.add.Tensor", b("aten.add.Scalar", curve, 1.0), bend), 0.5)
    below = times(b, b("aten.add.Scalar", b("aten.erf.default", times(b, x, math.sqrt(0.5))), 1.0), 0.5)
    density = times(b, b("aten.exp.default", times(b, x, x, -0.5)), 1 / math.sqrt(2 * math.pi))
    return times(b, gradient, b("aten.add.Tensor", below, times(b, x, density)))


def elu(b: Builder, gradient: Ref, alpha: float, scale: float, input_scale: float, is_result: bool, x: Ref) -> Ref:
    """`x` is the op's operand, or its result if `is_result`: then the operand was overwritten."""
    gradient, x = compute(b, gradient), compute(b, x)
    if is_result:
        low = times(b, b("aten.add.Scalar", x, alpha * scale), input_scale)
    else:
        low = times(b, b("aten.exp.default", times(b, x, input_scale)), input_scale * alpha * scale)
    return times(b, gradient, b("aten.where.ScalarSelf", b("aten.gt.Scalar", x, 0), scale, low))


def leaky_relu(b: Builder, gradient: Ref, x: Ref, slope: float, is_result: bool) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    return b("aten.where.self", b("aten.gt.Scalar", x, 0), gradient, times(b, gradient, slope))


def rrelu(
    b: Builder, gradient: Ref, x: Ref, slopes: Ref, lower: float, upper: float, training: bool, is_result: bool
) -> Ref:
    """Uses the slopes that the forward pass drew; outside training, the middle of their range."""
    if training and upper - lower > 1e-6:
        return times(b, compute(b, gradient), compute(b, slopes))
    return leaky_relu(b, gradient, x, (lower + upper) / 2, is_result)


def rrelu_with_noise(
    b: Builder, x: Ref, noise: Ref, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: None = None,
) -> tuple[Ref, Ref] | None:  # fmt: skip
    """The result with the middle of the slope's range, and the unchanged noise. None in training, which draws random
    slopes."""
    return None if training else (b("aten.leaky_relu.default", x, (lower + upper) / 2), noise)


def hardtanh(b: Builder, gradient: Ref, x: Ref, low: float, high: float) -> Ref:
    """Compares 16-bit floats in float32, so that the bounds are not rounded."""
    return _kept(b, _between(b, compute(b, x), low, high), gradient)


def hardsigmoid(b: Builder, gradient: Ref, x: Ref) -> Ref:
    return _kept(b, _between(b, x, -3.0, 3.0), times(b, compute(b, gradient), 1 / 6))


def hardswish(b: Builder, gradient: Ref, x: Ref) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    middle = times(b, gradient, b("aten.add.Scalar", times(b, x, 1 / 3), 0.5))
    above = b("aten.where.self", b("aten.ge.Scalar", x, 3.0), gradient, middle)
    return b("aten.where.ScalarSelf", b("aten.le.Scalar", x, -3.0), 0.0, above)


def hardshrink(b: Builder, gradient: Ref, x: Ref, limit: float) -> Ref:
    inside = b("aten.logical_and.default", b("aten.ge.Scalar", x, -limit), b("aten.le.Scalar", x, limit))
    return b("aten.where.ScalarSelf", inside, 0.0, gradient)


def softplus(b: Builder, gradient: Ref, x: Ref, beta: float, limit: float) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    scaled = times(b, x, beta)
    bent = times(b, gradient, b("aten.sigmoid.default", scaled))
    return b("aten.where.self", b("aten.gt.Scalar", scaled, limit), gradient, bent)


def mish(b: Builder, gradient: Ref, x: Ref) -> Ref:
    gradient, x = compute(b, gradient), compute(b, x)
    curve, gate = b("aten.tanh.default", b("aten.softplus.default", x)), b("aten.sigmoid.default", x)
    bend = times(b, x, gate, b("aten.rsub.Scalar", times(b, curve, curve), 1.0))
    return times(b, gradient, b("aten.add.Tensor", curve, bend))


def log_sigmoid(b: Builder, gradient: Ref, x: Ref, buffer: Ref) -> Ref:
    return times(b, compute(b, gradient), b("aten.sigmoid.default", b("aten.neg.default", compute(b, x))))


def log_sigmoid_with_buffer(b: Builder, x: Ref) -> tuple[Ref, Ref]:
    """The result, and exp(-|x|), which PyTorch keeps for the backward pass."""
    size = b("aten.abs.default", compute(b, x))
    return b("aten.log_sigmoid.default", x), b("aten.exp.default", b("aten.neg.default", size))


def glu(b: Builder, gradient: Ref, x: Ref, dim: int) -> Ref:
    (dim,) = b.dims(x, dim)
    half = b.type(x).shape[dim] // 2
    value, gate = (compute(b, b("aten.slice.Tensor", x, dim, start, start + half)) for start in (0, half))
    gradient, gate = compute(b, gradient), b("aten.sigmoid.default", gate)
    first = times(b, gradient, gate)
    second = times(b, first, b("aten.rsub.Scalar", gate, 1.0), value)
    return b("aten.cat.default", [first, second], dim)


def prelu(b: Builder, gradient: Ref, x: Ref, weight: Ref) -> tuple[Ref, Ref]:
    gradient, x = compute(b, gradient), compute(b, x)
    right = b("aten.gt.Scalar", x, 0)
    of_weight = b("aten.where.ScalarSelf", right, 0.0, times(b, x, gradient))
    return b("aten.where.self", right, gradient, times(b, gradient, compute(b, weight))), of_weight


def softmax(b: Builder, gradient: Ref, y: Ref, dim: int, dtype: torch.dtype) -> Ref:
    weighed, y = times(b, compute(b, gradient), compute(b, y)), compute(b, y)
    total = b("aten.sum.dim_IntList", weighed, [dim], True)
    return b("aten.sub.Tensor", weighed, times(b, y, total))


def log_softmax(b: Builder, gradient: Ref, y: Ref, dim: int, dtype: torch.dtype) -> Ref:
    gradient, y = compute(b, gradient), compute(b, y)
    total = b("aten.sum.dim_IntList", gradient, [dim], True)
    return b("aten.sub.Tensor", gradient, times(b, b("aten.exp.default", y), total))


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
}
