"""Sums, means, variances and extremes."""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import HALF, Builder, Formula, compute


def mean(
    b: Builder, x: Ref, dim: int | list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Ref:
    x, dims = compute(b, x, torch.float32 if dtype in HALF else dtype), b.dims(x, dim)  # rounded once, at the end
    extent = b.extent(x, dims)
    return b("aten.mul.Tensor", b("aten.sum.dim_IntList", x, dims, keepdim), 1.0 / extent if extent else math.nan)


def mean_all(b: Builder, x: Ref, *, dtype: torch.dtype | None = None) -> Ref:
    return mean(b, x, dtype=dtype)


def sum_all(b: Builder, x: Ref, *, dtype: torch.dtype | None = None) -> Ref:
    x = compute(b, x, dtype)
    return b("aten.sum.dim_IntList", x, b.dims(x, None), False)


def variance(
    b: Builder, x: Ref, dim: int | list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Ref:
    """The mean square distance from the mean, in two passes over the data: exact where one pass would cancel."""
    x, dims = compute(b, x), b.dims(x, dim)
    squares = squares_about_mean(b, b("aten.sub.Tensor", x, mean(b, x, dims, True)), dims, keepdim)
    freedom = b.extent(x, dims) - (1.0 if correction is None else correction)
    return b("aten.mul.Tensor", squares, 1.0 / freedom if freedom > 0 else math.inf)


def squares_about_mean(b: Builder, centred: Ref, dims: list[int], keepdim: bool) -> Ref:
    """The sum of squared distances from the mean, of numbers from which the mean was taken off as it was rounded.

    What rounding left of it is their own mean, which counts in every square; numbers far from zero leave much.
    """
    squares = b("aten.sum.dim_IntList", b("aten.mul.Tensor", centred, centred), dims, keepdim)
    left = b("aten.sum.dim_IntList", centred, dims, keepdim)
    extent = b.extent(centred, dims)
    excess = b("aten.mul.Tensor", b("aten.mul.Tensor", left, left), 1.0 / extent if extent else math.nan)
    return b("aten.clamp_min.default", b("aten.sub.Tensor", squares, excess), 0.0)


def variance_dim(b: Builder, x: Ref, dim: list[int] | None, unbiased: bool = True, keepdim: bool = False) -> Ref:
    return variance(b, x, dim, correction=float(unbiased), keepdim=keepdim)


def variance_all(b: Builder, x: Ref, unbiased: bool = True) -> Ref:
    return variance(b, x, correction=float(unbiased))


def _root(formula: Formula) -> Formula:
    def made(b: Builder, *args: object, **kwargs: object) -> Ref:
        return b("aten.sqrt.default", formula(b, *args, **kwargs))

    return made


def sum_dim(
    b: Builder, x: Ref, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Ref | None:
    """A sum over no dims is the number itself; others only need a formula when they add up in another type."""
    if b.rank(x) == 0:
        return compute(b, x, dtype)
    if b.type(x).dtype == "u8":  # without a sign, which the importer's sum would see
        dtype = dtype or torch.int64
    wide = compute(b, x, dtype)
    return None if wide == x else b("aten.sum.dim_IntList", wide, b.dims(x, dim), keepdim)


def max_dim(b: Builder, x: Ref, dim: int, keepdim: bool = False) -> tuple[Ref, Ref]:
    return b("aten.amax.default", x, [dim], keepdim), b("aten.argmax.default", x, dim, keepdim)


def min_dim(b: Builder, x: Ref, dim: int, keepdim: bool = False) -> tuple[Ref, Ref]:
    return b("aten.amin.default", x, [dim], keepdim), b("aten.argmin.default", x, dim, keepdim)


def max_all(b: Builder, x: Ref) -> Ref:
    return b("aten.amax.default", x, b.dims(x, None), False)


def min_all(b: Builder, x: Ref) -> Ref:
    return b("aten.amin.default", x, b.dims(x, None), False)


FORMULAS: dict[str, Formula] = {
    "aten.mean.dim": mean,
    "aten.mean.default": mean_all,
    "aten.sum.default": sum_all,
    "aten.sum.dim_IntList": sum_dim,
    "aten.var.correction": variance,
    "aten.var.dim": variance_dim,
    "aten.var.default": variance_all,
    "aten.std.correction": _root(variance),
    "aten.std.dim": _root(variance_dim),
    "aten.std.default": _root(variance_all),
    "aten.max.dim": max_dim,
    "aten.min.dim": min_dim,
    "aten.max.default": max_all,
    "aten.min.default": min_all,
}
