"""Distances of all pairs of rows, cross products, sums of products of three."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.layout_changes import reshape
from workbench.operators.formulas.statistics import vector_norm


def distances(b: Builder, x: Ref, y: Ref, p: float = 2, mode: int | None = None) -> Ref:
    return vector_norm(b, _apart(b, x, y), p, -1)


def _apart(b: Builder, x: Ref, y: Ref) -> Ref:
    """Each row of `x` without each row of `y`."""
    x, y = b("aten.unsqueeze.default", compute(b, x), -2), b("aten.unsqueeze.default", compute(b, y), -3)
    return b("aten.sub.Tensor", x, y)


def distances_backward(b: Builder, gradient: Ref, x: Ref, y: Ref, p: float, found: Ref) -> Ref | None:
    """Of the rows of `x`: along what lies between, by its share of the distance; nothing where that is zero."""
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


def cross(b: Builder, x: Ref, y: Ref, *, dim: int = -1) -> Ref:
    """Each component of the two next ones, which come again from the first."""
    x, y = compute(b, x), compute(b, y)
    ahead, behind = (
        b("aten.mul.Tensor", b("aten.roll.default", x, [-one], [dim]), b("aten.roll.default", y, [-other], [dim]))
        for one, other in ((1, 2), (2, 1))
    )
    return b("aten.sub.Tensor", ahead, behind)


def of_three(
    b: Builder, x: Ref, y: Ref, z: Ref, expand_x: Sequence[int], expand_y: Sequence[int], expand_z: Sequence[int],
    summed: list[int], unrolled: int = 1,
) -> Ref:  # fmt: skip
    """Their product, with dims of one put in, and sums over some dims: what `bilinear` becomes."""
    rank = b.rank(x) + len(expand_x)
    wide: list[Ref] = []
    for tensor, dims in ((x, expand_x), (y, expand_y), (z, expand_z)):
        made = compute(b, tensor)
        for dim in sorted(dim % rank for dim in dims):  # they are dims of the product, in whatever order
            made = b("aten.unsqueeze.default", made, dim)
        wide.append(made)
    product = b("aten.mul.Tensor", b("aten.mul.Tensor", wide[0], wide[1]), wide[2])
    return b("aten.sum.dim_IntList", product, summed, False) if summed else product


def bilinear(b: Builder, x: Ref, y: Ref, weight: Ref, bias: Ref | None = None) -> Ref:
    """Each number of a row of `x` times a matrix, which the row of `y` then sums up: a product, and a sum."""
    outer, (results, inside, other) = list(b.type(x).shape[:-1]), b.type(weight).shape
    count = math.prod(outer)
    matrix = reshape(b, b("aten.permute.default", weight, [1, 0, 2]), [inside, results * other])
    made = b("aten.mm.default", reshape(b, x, [count, inside]), matrix)
    made = compute(b, b("aten.view.default", made, [count, results, other]))
    rows = b("aten.unsqueeze.default", compute(b, reshape(b, y, [count, other])), 1)
    made = b("aten.sum.dim_IntList", b("aten.mul.Tensor", made, rows), [2], False)
    if bias is not None:
        made = b("aten.add.Tensor", made, compute(b, bias))
    return b("aten.view.default", made, [*outer, results])


FORMULAS: dict[str, Formula] = {
    "aten.cdist.default": distances,
    "aten.bilinear.default": bilinear,
    "aten._cdist_forward.default": distances,
    "aten._cdist_backward.default": distances_backward,
    "aten.linalg_cross.default": cross,
    "aten._trilinear.default": of_three,
}
