"""Backward passes of ops that choose elements: a gradient goes back to where its element came from."""

from __future__ import annotations

import math

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.known_contents import full
from workbench.operators.formulas.layout_changes import reshape
from workbench.operators.formulas.scattering import order_of
from workbench.operators.formulas.transposed import with_gaps
from workbench.operators.tensors.element_types import to_dtype


def select(b: Builder, gradient: Ref, sizes: list[int], dim: int, index: int) -> Ref:
    dim, index = dim % len(sizes), index % sizes[dim]
    return _padded(b, b("aten.unsqueeze.default", gradient, dim), dim, index, sizes[dim] - index - 1)


def sliced(b: Builder, gradient: Ref, sizes: list[int], dim: int, start: int, end: int, step: int) -> Ref:
    dim %= len(sizes)
    first, last, step = slice(start, end, step).indices(sizes[dim])
    count = len(range(first, last, step))
    if not count:
        return full(b, sizes, 0, dtype=to_dtype(b.type(gradient).dtype))
    if step > 1:
        gradient = with_gaps(b, gradient, dim, step)
        reached = count * step
        if first + reached > sizes[dim]:
            gradient = b("aten.slice.Tensor", gradient, dim, 0, sizes[dim] - first)
            reached = sizes[dim] - first
        return _padded(b, gradient, dim, first, sizes[dim] - first - reached)
    return _padded(b, gradient, dim, first, sizes[dim] - first - count)


def _padded(b: Builder, x: Ref, dim: int, before: int, behind: int) -> Ref:
    if not before and not behind:
        return x
    around = [0, 0] * (b.rank(x) - dim - 1) + [before, behind]
    return b("aten.constant_pad_nd.default", x, around, 0)


def embedding(b: Builder, gradient: Ref, indices: Ref, rows: int, padding: int, by_frequency: bool) -> Ref:
    """The gradients of all places that read a row, added up, or their mean."""
    width, count = b.type(gradient).shape[-1], b.type(indices).numel
    gradient = reshape(b, compute(b, gradient), [count, width])
    indices = reshape(b, indices, [count])
    if by_frequency:
        gradient = shared_by_frequency(b, gradient, indices, rows)
    if padding >= 0:
        counts = b("aten.unsqueeze.default", b("aten.ne.Scalar", indices, padding), 1)
        gradient = b("aten.where.ScalarOther", counts, gradient, 0.0)
    zeros = full(b, [rows, width], 0.0, dtype=to_dtype(b.type(gradient).dtype))
    return b("aten.index_add.default", zeros, 0, indices, gradient)


def shared_by_frequency(b: Builder, gradient: Ref, indices: Ref, rows: int) -> Ref:
    """A row of a gradient for each index, over how often the index occurs."""
    dtype, count = to_dtype(b.type(gradient).dtype), b.type(indices).numel
    counts = full(b, [rows], 0.0, dtype=dtype)
    counts = b("aten.index_add.default", counts, 0, indices, full(b, [count], 1.0, dtype=dtype))
    times = b("aten.index_select.default", counts, 0, indices)
    return b("aten.div.Tensor", gradient, b("aten.unsqueeze.default", times, 1))


def masked_scatter(b: Builder, gradient: Ref, mask: Ref, sizes: list[int]) -> Ref:
    """Of the source: the gradients where the mask is true, one after the other, and zeros behind them."""
    shape = list(b.type(gradient).shape)
    if list(b.type(mask).shape) != shape:
        mask = b("aten.expand.default", mask, shape)
    gradient = b("aten.where.ScalarOther", mask, compute(b, gradient), 0.0)
    zeros = full(b, [math.prod(sizes)], 0.0, dtype=to_dtype(b.type(gradient).dtype))
    places = b("aten.clamp_max.default", order_of(b, mask), math.prod(sizes) - 1)
    row = reshape(b, gradient, [b.type(gradient).numel])
    return b("aten.view.default", b("aten.index_add.default", zeros, 0, places, row), sizes)


def unfolded(b: Builder, gradient: Ref, sizes: list[int], dim: int, size: int, step: int) -> Ref | None:
    """The gradients of each place in a window are those of a slice."""
    if size > _MOST_PLACES:
        return None
    dim %= len(sizes)
    reach = (b.type(gradient).shape[dim] - 1) * step + 1
    made: Ref | None = None
    for place in range(size):
        each = b("aten.select.int", gradient, -1, place)
        each = sliced(b, each, sizes, dim, place, place + reach, step)
        made = each if made is None else b("aten.add.Tensor", made, each)
    return made


_MOST_PLACES = 16


def diagonal(b: Builder, gradient: Ref, sizes: list[int], offset: int, dim1: int, dim2: int) -> Ref:
    zeros = full(b, sizes, 0, dtype=to_dtype(b.type(gradient).dtype))
    return b("aten.diagonal_scatter.default", zeros, gradient, offset, dim1, dim2)


FORMULAS: dict[str, Formula] = {
    "aten.select_backward.default": select,
    "aten.slice_backward.default": sliced,
    "aten.masked_scatter_backward.default": masked_scatter,
    "aten.unfold_backward.default": unfolded,
    "aten.diagonal_backward.default": diagonal,
    "aten.embedding_dense_backward.default": embedding,
}
