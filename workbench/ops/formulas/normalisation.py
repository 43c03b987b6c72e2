"""Softmax and the norms: a reduction, and a pointwise op that reads it."""

from __future__ import annotations

import torch

from workbench.ir import Ref
from workbench.ops.formulas.builder import Builder, Formula, compute
from workbench.ops.formulas.reductions import mean
from workbench.torch_types import to_dtype


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
    epsilon = torch.finfo(to_dtype(b.type(x).dtype)).eps if eps is None else eps
    x, dims = compute(b, x), list(range(b.rank(x) - len(shape), b.rank(x)))
    power = mean(b, b("aten.mul.Tensor", x, x), dims, True)
    scaled = b("aten.mul.Tensor", x, b("aten.rsqrt.default", b("aten.add.Tensor", power, epsilon)))
    return _affine(b, scaled, weight, None)


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
}
