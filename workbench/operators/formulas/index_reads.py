"""Reads at the places in index tensors, through the ops that have kernels of their own."""

from __future__ import annotations

import math

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula
from workbench.operators.formulas.layout_changes import reshape


def take(b: Builder, x: Ref, index: Ref) -> Ref:
    """Elements of `x` as if it had one dim."""
    return b("aten.index.Tensor", reshape(b, x, [math.prod(b.type(x).shape)]), [index])


def take_along_dim(b: Builder, x: Ref, index: Ref, dim: int | None = None) -> Ref:
    """`gather` with both broadcast along the other dims; without a dim, of all elements in a row."""
    if dim is None:
        flat = [reshape(b, each, [math.prod(b.type(each).shape)]) for each in (x, index)]
        return b("aten.gather.default", flat[0], 0, flat[1])
    dim %= b.rank(x)
    shape = [max(pair) if 0 not in pair else 0 for pair in zip(b.type(x).shape, b.type(index).shape, strict=True)]
    wanted = [[*shape[:dim], b.type(each).shape[dim], *shape[dim + 1 :]] for each in (x, index)]
    wide = [
        each if list(b.type(each).shape) == sizes else b("aten.expand.default", each, sizes)
        for each, sizes in zip((x, index), wanted, strict=True)
    ]
    return b("aten.gather.default", wide[0], dim, wide[1])


def unsafe_index(b: Builder, x: Ref, indices: list[Ref | None]) -> Ref:
    return b("aten.index.Tensor", x, indices)


FORMULAS: dict[str, Formula] = {
    "aten.take.default": take,
    "aten.take_along_dim.default": take_along_dim,
    "aten._unsafe_index.Tensor": unsafe_index,
}
