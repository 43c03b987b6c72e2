"""Results read from a sorted row: places, the middle, the k-th smallest."""

from __future__ import annotations

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import is_float, isnan
from workbench.operators.formulas.formula_builder import Builder, Formula
from workbench.operators.formulas.layout_changes import reshape


def argsort(b: Builder, x: Ref, dim: int = -1, descending: bool = False) -> Ref:
    return b.several("aten.sort.stable", x, stable=True, dim=dim, descending=descending)[1]


def argsort_stable(b: Builder, x: Ref, *, stable: bool, dim: int = -1, descending: bool = False) -> Ref:
    return argsort(b, x, dim, descending)


def msort(b: Builder, x: Ref) -> Ref:
    return b("aten.sort.default", x, 0)


def kthvalue(b: Builder, x: Ref, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Ref, Ref]:
    values, places = b.several("aten.sort.default", x, dim)
    return _at(b, values, k - 1, dim, keepdim), _at(b, places, k - 1, dim, keepdim)


def median_dim(b: Builder, x: Ref, dim: int, keepdim: bool = False) -> tuple[Ref, Ref]:
    """The lower one of two in the middle. Where there is a NaN, the first of them, which stands after all numbers."""
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


FORMULAS: dict[str, Formula] = {
    "aten.argsort.default": argsort,
    "aten.argsort.stable": argsort_stable,
    "aten.msort.default": msort,
    "aten.kthvalue.default": kthvalue,
    "aten.median.dim": median_dim,
    "aten.median.default": median,
}
