"""Norms, distances, sums in the logarithm, and reductions with several results."""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import isinf, isnan
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.matrix_products import broadcast
from workbench.operators.formulas.reductions import mean, variance
from workbench.operators.tensors.torch_literals import to_dtype

Dims = int | list[int] | None


def vector_norm(
    b: Builder, x: Ref, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Ref:
    x = compute(b, x, dtype)
    dims, size = b.dims(x, dim), b("aten.abs.default", x)
    if ord in (math.inf, -math.inf):
        return b("aten.amax.default" if ord > 0 else "aten.amin.default", size, dims, keepdim)
    if ord == 0:
        there = b("aten._to_copy.default", b("aten.ne.Scalar", x, 0), dtype=to_dtype(b.type(x).dtype))
        return b("aten.sum.dim_IntList", there, dims, keepdim)
    if ord == 1:
        return b("aten.sum.dim_IntList", size, dims, keepdim)
    powers = b("aten.mul.Tensor", x, x) if ord == 2 else b("aten.pow.Tensor_Scalar", size, ord)
    total = b("aten.sum.dim_IntList", powers, dims, keepdim)
    return b("aten.sqrt.default", total) if ord == 2 else b("aten.pow.Tensor_Scalar", total, 1 / ord)

    return to_dtype(b.type(x).dtype)


def norm(b: Builder, x: Ref, p: float | None = 2, dim: Dims = None, keepdim: bool = False) -> Ref:
    return vector_norm(b, x, 2 if p is None else p, dim, keepdim)


def dist(b: Builder, x: Ref, y: Ref, p: float = 2) -> Ref:
    return vector_norm(b, b("aten.sub.Tensor", compute(b, x), compute(b, y)), p)


def pairwise_distance(b: Builder, x: Ref, y: Ref, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Ref:
    apart = b("aten.sub.Tensor", compute(b, x), compute(b, y))
    return vector_norm(b, b("aten.add.Tensor", apart, eps), p, -1, keepdim)


def cosine_similarity(b: Builder, x: Ref, y: Ref, dim: int = 1, eps: float = 1e-8) -> Ref:
    shape = broadcast(b.type(x).shape, b.type(y).shape)
    x, y = (b("aten.expand.default", compute(b, each), shape) for each in (x, y))  # `dim` is one of the common shape
    product = b("aten.mul.Tensor", x, y)
    lengths = (b("aten.clamp_min.default", vector_norm(b, each, 2, dim), eps) for each in (x, y))
    return b("aten.div.Tensor", b("aten.sum.dim_IntList", product, [dim]), b("aten.mul.Tensor", *lengths))


def logsumexp(b: Builder, x: Ref, dim: Dims, keepdim: bool = False) -> Ref:
    """The largest, plus the logarithm of the sum of the others relative to it; an infinite largest one is not
    subtracted."""
    x = compute(b, x)
    dims = b.dims(x, dim)
    largest = b("aten.amax.default", x, dims, True)
    beside = b("aten.where.ScalarSelf", isinf(b, largest), 0.0, largest)
    total = b("aten.sum.dim_IntList", b("aten.exp.default", b("aten.sub.Tensor", x, beside)), dims, True)
    made = b("aten.add.Tensor", b("aten.log.default", total), beside)
    return made if keepdim or not dims else b("aten.squeeze.dims", made, dims)


def nansum(
    b: Builder, x: Ref, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Ref:  # fmt: skip
    known = b("aten.where.ScalarSelf", isnan(b, x), 0, x)
    return b("aten.sum.dim_IntList", compute(b, known, dtype), b.dims(x, dim), keepdim)


def count_nonzero(b: Builder, x: Ref, dim: Dims = None) -> Ref:
    return b("aten.sum.dim_IntList", b("aten.ne.Scalar", x, 0), b.dims(x, dim), False)


def aminmax(b: Builder, x: Ref, *, dim: int | None = None, keepdim: bool = False) -> tuple[Ref, Ref]:
    dims = b.dims(x, dim)
    return b("aten.amin.default", x, dims, keepdim), b("aten.amax.default", x, dims, keepdim)


def variance_and_mean(
    b: Builder, x: Ref, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Ref, Ref]:
    return variance(b, x, dim, correction=correction, keepdim=keepdim), mean(b, x, dim, keepdim)


def variance_and_mean_dim(
    b: Builder, x: Ref, dim: Dims, unbiased: bool = True, keepdim: bool = False
) -> tuple[Ref, Ref]:
    return variance_and_mean(b, x, dim, correction=float(unbiased), keepdim=keepdim)


def variance_and_mean_all(b: Builder, x: Ref, unbiased: bool = True) -> tuple[Ref, Ref]:
    return variance_and_mean(b, x, correction=float(unbiased))


def rooted(formula: Formula) -> Formula:
    """With the standard deviation in place of the variance."""

    def made(b: Builder, *args: object, **kwargs: object) -> tuple[Ref, Ref]:
        spread, middle = formula(b, *args, **kwargs)
        return b("aten.sqrt.default", spread), middle

    return made


FORMULAS: dict[str, Formula] = {
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.norm.Scalar": norm,
    "aten.norm.ScalarOpt_dim": norm,
    "aten.dist.default": dist,
    "aten.pairwise_distance.default": pairwise_distance,
    "aten.cosine_similarity.default": cosine_similarity,
    "aten.logsumexp.default": logsumexp,
    "aten.nansum.default": nansum,
    "aten.count_nonzero.default": count_nonzero,
    "aten.count_nonzero.dim_IntList": count_nonzero,
    "aten.aminmax.default": aminmax,
    "aten.var_mean.correction": variance_and_mean,
    "aten.var_mean.dim": variance_and_mean_dim,
    "aten.var_mean.default": variance_and_mean_all,
    "aten.std_mean.correction": rooted(variance_and_mean),
    "aten.std_mean.dim": rooted(variance_and_mean_dim),
    "aten.std_mean.default": rooted(variance_and_mean_all),
}
