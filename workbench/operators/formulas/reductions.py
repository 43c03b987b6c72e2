"""Sums, means, variances and extremes; norms and distances; results read from a sorted row."""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import is_float, isinf, isnan, renamed
from workbench.operators.formulas.formula_builder import HALF, Builder, Formula, compute
from workbench.operators.formulas.layout_changes import reshape
from workbench.operators.formulas.matrix_products import broadcast

Dims = int | list[int] | None


def mean(b: Builder, x: Ref, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Ref:
    x, dims = compute(b, x, torch.float32 if dtype in HALF else dtype), b.dims(x, dim)  # rounds once, at the end
    extent = b.extent(x, dims)
    return b("aten.mul.Tensor", b("aten.sum.dim_IntList", x, dims, keepdim), 1.0 / extent if extent else math.nan)


def sum_all(b: Builder, x: Ref, *, dtype: torch.dtype | None = None) -> Ref:
    x = compute(b, x, dtype)
    return b("aten.sum.dim_IntList", x, b.dims(x, None), False)


def variance(b: Builder, x: Ref, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Ref:
    """The mean square distance from the mean, in two passes over the data: a single pass would lose digits."""
    x, dims = compute(b, x), b.dims(x, dim)
    squares = squares_about_mean(b, b("aten.sub.Tensor", x, mean(b, x, dims, True)), dims, keepdim)
    freedom = b.extent(x, dims) - (1.0 if correction is None else correction)
    return b("aten.mul.Tensor", squares, 1.0 / freedom if freedom > 0 else math.inf)


def squares_about_mean(b: Builder, centred: Ref, dims: list[int], keepdim: bool) -> Ref:
    """The sum of squared distances from the mean, of numbers from which the rounded mean was subtracted.

    Rounding leaves a small mean in these numbers, which counts in every square; for numbers far from zero it is not
    small. Its part of the sum is subtracted.
    """
    squares = b("aten.sum.dim_IntList", b("aten.mul.Tensor", centred, centred), dims, keepdim)
    left = b("aten.sum.dim_IntList", centred, dims, keepdim)
    extent = b.extent(centred, dims)
    excess = b("aten.mul.Tensor", b("aten.mul.Tensor", left, left), 1.0 / extent if extent else math.nan)
    return b("aten.clamp_min.default", b("aten.sub.Tensor", squares, excess), 0.0)


def _root(formula: Formula) -> Formula:
    """A formula with the standard deviation in place of the variance, which is the only or the first result."""

    def changed(b: Builder, *args: object, **kwargs: object) -> Ref | tuple[Ref, ...]:
        found: Ref | tuple[Ref, ...] = formula(b, *args, **kwargs)
        if isinstance(found, tuple):
            return b("aten.sqrt.default", found[0]), *found[1:]
        return b("aten.sqrt.default", found)

    return changed


def _by_flag(formula: Formula) -> Formula:
    """A formula with a flag in place of the correction: 1 if the flag is true, else 0."""

    def changed(b: Builder, x: Ref, dim: list[int] | None, unbiased: bool = True, keepdim: bool = False) -> object:
        return formula(b, x, dim, correction=float(unbiased), keepdim=keepdim)

    return changed


def _by_flag_over_all(formula: Formula) -> Formula:
    def changed(b: Builder, x: Ref, unbiased: bool = True) -> object:
        return formula(b, x, correction=float(unbiased))

    return changed


def _extreme(kind: str) -> Formula:
    """The formula of the largest or smallest number: of all numbers, or along a dim, then with its place."""

    def formula(b: Builder, x: Ref, dim: int | None = None, keepdim: bool = False) -> Ref | tuple[Ref, Ref]:
        found = b(f"aten.a{kind}.default", x, b.dims(x, None) if dim is None else [dim], keepdim)
        return found if dim is None else (found, b(f"aten.arg{kind}.default", x, dim, keepdim))

    return formula


def sum_dim(
    b: Builder, x: Ref, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Ref | None:
    """A tensor without dims is its own sum. Other sums need a formula only if they add up in another type; else
    None."""
    if b.rank(x) == 0:
        return compute(b, x, dtype)
    if b.type(x).dtype == "u8":  # unsigned, while the importer would add signed bytes
        dtype = dtype or torch.int64
    wide = compute(b, x, dtype)
    return None if wide == x else b("aten.sum.dim_IntList", wide, b.dims(x, dim), keepdim)


def vector_norm(
    b: Builder, x: Ref, ord: float | None = 2, dim: Dims = None, keepdim: bool = False,
    *, dtype: torch.dtype | None = None,
) -> Ref:  # fmt: skip
    x, ord = compute(b, x, dtype), 2 if ord is None else ord
    dims, size = b.dims(x, dim), b("aten.abs.default", x)
    if ord in (math.inf, -math.inf):
        return b("aten.amax.default" if ord > 0 else "aten.amin.default", size, dims, keepdim)
    if ord == 0:
        there = b("aten._to_copy.default", b("aten.ne.Scalar", x, 0), dtype=b.dtype(x))
        return b("aten.sum.dim_IntList", there, dims, keepdim)
    if ord == 1:
        return b("aten.sum.dim_IntList", size, dims, keepdim)
    powers = b("aten.mul.Tensor", x, x) if ord == 2 else b("aten.pow.Tensor_Scalar", size, ord)
    total = b("aten.sum.dim_IntList", powers, dims, keepdim)
    return b("aten.sqrt.default", total) if ord == 2 else b("aten.pow.Tensor_Scalar", total, 1 / ord)


def dist(b: Builder, x: Ref, y: Ref, p: float = 2) -> Ref:
    return vector_norm(b, b("aten.sub.Tensor", compute(b, x), compute(b, y)), p)


def pairwise_distance(b: Builder, x: Ref, y: Ref, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Ref:
    apart = b("aten.sub.Tensor", compute(b, x), compute(b, y))
    return vector_norm(b, b("aten.add.Tensor", apart, eps), p, -1, keepdim)


def cosine_similarity(b: Builder, x: Ref, y: Ref, dim: int = 1, eps: float = 1e-8) -> Ref:
    shape = broadcast(b.type(x).shape, b.type(y).shape)
    x, y = (b("aten.expand.default", compute(b, each), shape) for each in (x, y))  # `dim` counts in the common shape
    product = b("aten.mul.Tensor", x, y)
    lengths = (b("aten.clamp_min.default", vector_norm(b, each, 2, dim), eps) for each in (x, y))
    return b("aten.div.Tensor", b("aten.sum.dim_IntList", product, [dim]), b("aten.mul.Tensor", *lengths))


def logsumexp(b: Builder, x: Ref, dim: Dims, keepdim: bool = False) -> Ref:
    """The maximum m plus log(sum(exp(x - m))); if m is infinite, 0 is subtracted instead."""
    x = compute(b, x)
    dims = b.dims(x, dim)
    largest = b("aten.amax.default", x, dims, True)
    beside = b("aten.where.ScalarSelf", isinf(b, largest), 0.0, largest)
    total = b("aten.sum.dim_IntList", b("aten.exp.default", b("aten.sub.Tensor", x, beside)), dims, True)
    result = b("aten.add.Tensor", b("aten.log.default", total), beside)
    return result if keepdim or not dims else b("aten.squeeze.dims", result, dims)


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


def argsort(b: Builder, x: Ref, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Ref:
    return b.several("aten.sort.stable", x, stable=True, dim=dim, descending=descending)[1]


def kthvalue(b: Builder, x: Ref, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Ref, Ref]:
    values, places = b.several("aten.sort.default", x, dim)
    return _at(b, values, k - 1, dim, keepdim), _at(b, places, k - 1, dim, keepdim)


def median_dim(b: Builder, x: Ref, dim: int, keepdim: bool = False) -> tuple[Ref, Ref]:
    """The lower of the two middle numbers, and its place. If there is a NaN: NaN, and the place of the first NaN."""
    values, places = b.several("aten.sort.default", x, dim)
    middle = ((b.type(x).shape[dim] if b.rank(x) else 1) - 1) // 2
    found = _at(b, values, middle, dim, keepdim), _at(b, places, middle, dim, keepdim)
    if not is_float(b, x):
        return found
    unknown = b("aten.any.dim", isnan(b, x), dim, keepdim)
    first = b("aten.argmax.default", x, dim, keepdim)
    known = b("aten.where.ScalarSelf", unknown, float("nan"), found[0])
    return known, b("aten.where.self", unknown, first, found[1])


def median(b: Builder, x: Ref) -> Ref:
    return median_dim(b, reshape(b, x, [b.type(x).numel]), 0)[0]


def _at(b: Builder, x: Ref, place: int, dim: int, keepdim: bool) -> Ref:
    if not b.rank(x):
        return x
    if keepdim:
        return b("aten.slice.Tensor", x, dim, place, place + 1)
    return b("aten.select.int", x, dim, place)


def distances(b: Builder, x: Ref, y: Ref, p: float = 2, mode: int | None = None) -> Ref:
    return vector_norm(b, _apart(b, x, y), p, -1)


def _apart(b: Builder, x: Ref, y: Ref) -> Ref:
    """Each row of `x` minus each row of `y`."""
    x, y = b("aten.unsqueeze.default", compute(b, x), -2), b("aten.unsqueeze.default", compute(b, y), -3)
    return b("aten.sub.Tensor", x, y)


def distances_backward(b: Builder, gradient: Ref, x: Ref, y: Ref, p: float, found: Ref) -> Ref | None:
    """The gradient of `x`: the derivative of each distance times its gradient, zero where the distance is zero. None if
    p is 0 or infinite."""
    if p in (0, math.inf):
        return None
    gradient, found = (b("aten.unsqueeze.default", compute(b, each), -1) for each in (gradient, found))
    apart = _apart(b, x, y)
    share = apart
    if p != 2:
        size = b("aten.pow.Tensor_Scalar", b("aten.abs.default", apart), p - 1)
        share = b("aten.mul.Tensor", b("aten.sgn.default", apart), size)
    each = b("aten.div.Tensor", b("aten.mul.Tensor", gradient, share), b("aten.pow.Tensor_Scalar", found, p - 1))
    each = b("aten.where.ScalarSelf", b("aten.eq.Scalar", found, 0.0), 0.0, each)
    return b("aten.sum.dim_IntList", each, [b.rank(each) - 2], False)


FORMULAS: dict[str, Formula] = {
    "aten.mean.dim": mean,
    "aten.mean.default": mean,
    "aten.sum.default": sum_all,
    "aten.sum.dim_IntList": sum_dim,
    **{f"aten.{kind}.{of}": _extreme(kind) for kind in ("max", "min") for of in ("dim", "default")},
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.norm.Scalar": vector_norm,
    "aten.norm.ScalarOpt_dim": vector_norm,
    "aten.dist.default": dist,
    "aten.pairwise_distance.default": pairwise_distance,
    "aten.cosine_similarity.default": cosine_similarity,
    "aten.logsumexp.default": logsumexp,
    "aten.nansum.default": nansum,
    "aten.count_nonzero.default": count_nonzero,
    "aten.count_nonzero.dim_IntList": count_nonzero,
    "aten.aminmax.default": aminmax,
    "aten.argsort.default": argsort,
    "aten.argsort.stable": argsort,
    "aten.msort.default": renamed("aten.sort.default", 0),
    "aten.kthvalue.default": kthvalue,
    "aten.median.dim": median_dim,
    "aten.median.default": median,
    "aten.cdist.default": distances,
    "aten._cdist_forward.default": distances,
    "aten._cdist_backward.default": distances_backward,
}
for _name, _formula in (("var", variance), ("var_mean", variance_and_mean)):
    for _of, _each in ((_name, _formula), (_name.replace("var", "std"), _root(_formula))):
        FORMULAS.update(
            {
                f"aten.{_of}.correction": _each,
                f"aten.{_of}.dim": _by_flag(_each),
                f"aten.{_of}.default": _by_flag_over_all(_each),
            }
        )
