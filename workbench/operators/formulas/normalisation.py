"""Softmax and the norms: a reduction, and a pointwise op that reads it."""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.layout_changes import per_channel, reshape
from workbench.operators.formulas.reductions import mean
from workbench.operators.tensors.element_types import to_dtype


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
    """The private overloads end in a flag that asks for float results of half inputs."""

    def made(b: Builder, x: Ref, dim: int, half_to_float: bool) -> Ref | None:
        return formula(b, x, dim, torch.float32 if half_to_float else None)

    return made


def layer_norm(
    b: Builder, x: Ref, shape: list[int], weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5,
    _cudnn: bool = True,
) -> Ref:  # fmt: skip
    x, dims = compute(b, x), list(range(b.rank(x) - len(shape), b.rank(x)))
    centred = b("aten.sub.Tensor", x, mean(b, x, dims, True))
    spread = mean(b, b("aten.mul.Tensor", centred, centred), dims, True)
    scaled = b("aten.mul.Tensor", centred, b("aten.rsqrt.default", b("aten.add.Tensor", spread, eps)))
    return _affine(b, scaled, weight, bias)


def rms_norm(b: Builder, x: Ref, shape: list[int], weight: Ref | None = None, eps: float | None = None) -> Ref:
    x, dims = compute(b, x), list(range(b.rank(x) - len(shape), b.rank(x)))
    epsilon = torch.finfo(to_dtype(b.type(x).dtype)).eps if eps is None else eps  # of what it computes in
    power = mean(b, b("aten.mul.Tensor", x, x), dims, True)
    scaled = b("aten.mul.Tensor", x, b("aten.rsqrt.default", b("aten.add.Tensor", power, epsilon)))
    return _affine(b, scaled, weight, None)


def batch_norm(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, mean: Ref, var: Ref, momentum: float, eps: float
) -> tuple[Ref | None, ...]:
    """With the statistics of training: a factor and a summand for each channel, made once and not at every element."""
    factor = b("aten.rsqrt.default", b("aten.add.Tensor", compute(b, var), eps))
    if weight is not None:
        factor = b("aten.mul.Tensor", factor, compute(b, weight))
    summand = b("aten.mul.Tensor", compute(b, mean), factor)
    # Without a bias 0 - 0, which has the sign of PyTorch's zero, and not -0.
    without = ("aten.rsub.Scalar", summand, 0.0)
    summand = b(*without) if bias is None else b("aten.sub.Tensor", compute(b, bias), summand)
    dims = b.rank(x) - 2
    scaled = b("aten.mul.Tensor", compute(b, x), per_channel(b, factor, dims))
    nothing = b("aten.full.default", [0], 0.0, dtype=to_dtype(b.type(mean).dtype), device=torch.device("cpu"))
    return (
        b("aten.add.Tensor", scaled, per_channel(b, summand, dims)),
        nothing,
        nothing,
    )  # where there are no statistics


def batch_norm_any(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, mean: Ref | None, var: Ref | None, training: bool,
    momentum: float, eps: float, cudnn: bool,
) -> Ref | None:  # fmt: skip
    if training or mean is None or var is None:
        return None
    return batch_norm(b, x, weight, bias, mean, var, momentum, eps)[0]


def group_norm(
    b: Builder, x: Ref, groups: int, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5,
    cudnn: bool = True,
) -> Ref:  # fmt: skip
    """Every group of channels by its own mean and spread, over (image, group, channel of the group, place)."""
    images, channels, *space = b.type(x).shape
    inside = [groups, channels // groups, math.prod(space)]
    y = compute(b, reshape(b, x, [images, *inside]))
    centred = b("aten.sub.Tensor", y, mean(b, y, [2, 3], True))
    spread = mean(b, b("aten.mul.Tensor", centred, centred), [2, 3], True)
    y = b("aten.mul.Tensor", centred, b("aten.rsqrt.default", b("aten.add.Tensor", spread, eps)))
    weight, bias = (None if each is None else b("aten.view.default", each, [*inside[:2], 1]) for each in (weight, bias))
    return b("aten.view.default", _affine(b, y, weight, bias), [images, channels, *space])


def instance_norm(
    b: Builder, x: Ref, weight: Ref | None, bias: Ref | None, running_mean: Ref | None, running_var: Ref | None,
    use_input_stats: bool, momentum: float, eps: float, cudnn: bool,
) -> Ref | None:  # fmt: skip
    if use_input_stats:
        return group_norm(b, x, b.type(x).shape[1], weight, bias, eps)
    return batch_norm_any(b, x, weight, bias, running_mean, running_var, False, momentum, eps, cudnn)


def _affine(b: Builder, x: Ref, weight: Ref | None, bias: Ref | None) -> Ref:
    if weight is not None:
        x = b("aten.mul.Tensor", x, weight)
    return x if bias is None else b("aten.add.Tensor", x, bias)


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
}
