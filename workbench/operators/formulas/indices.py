"""Reads and writes at the places in index tensors, and their backward passes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from workbench.ir import Ref, TensorType
from workbench.operators.formulas.arithmetic import renamed
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, compute, meta_tensor
from workbench.operators.formulas.known_contents import full
from workbench.operators.formulas.layout_changes import expanded, reshape
from workbench.operators.formulas.matrix_products import broadcast
from workbench.operators.formulas.moving import padded
from workbench.operators.formulas.windows import with_gaps


def take(b: Builder, x: Ref, index: Ref) -> Ref:
    """Reads elements of `x` at places in `x` flattened to one dim."""
    return b("aten.index.Tensor", reshape(b, x, [math.prod(b.type(x).shape)]), [index])


def take_along_dim(b: Builder, x: Ref, index: Ref, dim: int | None = None) -> Ref:
    """`gather` with `x` and `index` broadcast along the other dims; without a dim, both are flattened."""
    if dim is None:
        flat = [reshape(b, each, [math.prod(b.type(each).shape)]) for each in (x, index)]
        return b("aten.gather.default", flat[0], 0, flat[1])
    dim %= b.rank(x)
    shape = [max(pair) if 0 not in pair else 0 for pair in zip(b.type(x).shape, b.type(index).shape, strict=True)]
    wanted = [[*shape[:dim], b.type(each).shape[dim], *shape[dim + 1 :]] for each in (x, index)]
    wide = [expanded(b, each, sizes) for each, sizes in zip((x, index), wanted, strict=True)]
    return b("aten.gather.default", wide[0], dim, wide[1])


def scatter_with(b: Builder, x: Ref, dim: int, index: Ref, src: Ref, *, reduce: str) -> Ref:
    return b("aten.scatter_reduce.two", x, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


def scatter_reduce(
    b: Builder, x: Ref, dim: int, index: Ref, src: Ref, reduce: str, *, include_self: bool = True
) -> Ref | None:
    """Without `include_self`, first sets the updated places to the reduction's neutral number. None if the node can
    stay."""
    dtype = b.dtype(x)
    if reduce == "mean":
        return _mean(b, x, dim, index, src, include_self=include_self) if dtype.is_floating_point else None
    if dtype == torch.bool:
        return _of_truth(b, x, dim, index, src, reduce, include_self=include_self)
    if include_self:
        return None
    cleared = b("aten.scatter.value", x, dim, index, _neutral(reduce, dtype))
    return b("aten.scatter_reduce.two", cleared, dim, index, src, reduce)


def _of_truth(b: Builder, x: Ref, dim: int, index: Ref, src: Ref, reduce: str, *, include_self: bool) -> Ref:
    """Reduces bools as int8: a sum of bools is their maximum, a product their minimum."""
    one, other = cast(b, x, torch.int8), cast(b, src, torch.int8)
    kind = {"sum": "amax", "prod": "amin"}.get(reduce, reduce)
    result = b("aten.scatter_reduce.two", one, dim, index, other, kind, include_self=include_self)
    return cast(b, result, torch.bool)


def _mean(b: Builder, x: Ref, dim: int, index: Ref, src: Ref, *, include_self: bool) -> Ref:
    """The sum divided by the count. A place without updates keeps its value, because its count is 1."""
    start, count = x, _ones(b, x)
    if not include_self:
        start, count = (b("aten.scatter.value", each, dim, index, 0) for each in (start, count))
    total = b("aten.scatter_reduce.two", start, dim, index, src, "sum")
    result = b("aten.div.Tensor", total, b("aten.scatter_reduce.two", count, dim, index, _ones(b, index), "sum"))
    return cast(b, result, b.dtype(x))


def _ones(b: Builder, like: Ref) -> Ref:
    """Ones of f32 in the shape of `like`, to count with: f16 cannot count beyond 2048."""
    some = b("aten._to_copy.default", like, dtype=torch.bool)
    every = b("aten.logical_or.default", some, b("aten.logical_not.default", some))
    return b("aten._to_copy.default", every, dtype=torch.float32)


def _neutral(reduce: str, dtype: torch.dtype) -> bool | int | float:
    if reduce in ("sum", "prod"):
        return 0 if reduce == "sum" else 1
    if dtype.is_floating_point:
        return -float("inf") if reduce == "amax" else float("inf")
    return torch.iinfo(dtype).min if reduce == "amax" else torch.iinfo(dtype).max


def index_add(b: Builder, x: Ref, dim: int, index: Ref, source: Ref, *, alpha: float = 1) -> Ref | None:
    if alpha == 1:
        return None
    return b("aten.index_add.default", x, dim, index, b("aten.mul.Tensor", source, alpha))


def index_fill(b: Builder, x: Ref, dim: int, index: Ref, value: Ref) -> Ref:
    dim %= b.rank(x)
    return b("aten.index_put.default", x, [*[None] * dim, index], value)


def index_put(b: Builder, x: Ref, indices: list[Ref | None], values: Ref, accumulate: bool = False) -> Ref | None:
    """Broadcasts the indices to one shape, and the values to the elements that the indices choose. A mask over all of
    `x` with one value becomes a `where`."""
    given = [each for each in indices if each is not None]
    kinds = [b.type(each) for each in given]
    if any(kind.dtype in ("bool", "u8") for kind in kinds):
        whole = len(kinds) == 1 and kinds[0].shape == b.type(x).shape and b.type(values).numel == 1
        return b("aten.where.self", given[0], _one(b, values), x) if whole and not accumulate else None
    shape = list(sum(map(meta_tensor, kinds), torch.empty((), device="meta")).shape) or [1]
    wide: list[Ref | None] = [each if each is None else expanded(b, each, shape) for each in indices]
    result = expanded(b, values, chosen_shape(b.type(x), [each and b.type(each) for each in wide]))
    if result == values and wide == list(indices):
        return None
    return b("aten.index_put.default", x, wide, result, accumulate)


def masked_scatter(b: Builder, x: Ref, mask: Ref, source: Ref) -> Ref:
    """The n-th element of the source at the n-th place where the mask is true; `x` elsewhere."""
    shape = broadcast(b.type(x).shape, b.type(mask).shape)
    x, mask = expanded(b, x, shape), expanded(b, mask, shape)
    count = b.type(source).numel
    order = b("aten.view.default", b("aten.clamp_max.default", order_of(b, mask), count - 1), shape)
    return b("aten.where.self", mask, b("aten.index.Tensor", reshape(b, source, [count]), [order]), x)


def order_of(b: Builder, mask: Ref) -> Ref:
    """For each true element of the flattened mask, the number of true elements before it. Other elements get a number
    that is not used."""
    row = reshape(b, b("aten._to_copy.default", mask, dtype=torch.int64), [b.type(mask).numel])
    return b("aten.clamp_min.default", b("aten.sub.Scalar", b("aten.cumsum.default", row, 0), 1), 0)


def put(b: Builder, x: Ref, index: Ref, source: Ref, accumulate: bool = False) -> Ref:
    """Writes the source at places in `x` flattened to one dim."""
    row, places, values = (reshape(b, each, [b.type(each).numel]) for each in (x, index, source))
    return b("aten.view.default", b("aten.index_put.default", row, [places], values, accumulate), b.shape(x))


def chosen_shape(kind: TensorType, indices: Sequence[TensorType | None]) -> list[int]:
    """The shape of the elements that indices choose from a tensor."""
    places = tuple(slice(None) if each is None else meta_tensor(each) for each in indices)
    return list(meta_tensor(kind)[places].shape)


def _one(b: Builder, value: Ref) -> Ref:
    return value if not b.rank(value) else b("aten.view.default", value, [])


def select(b: Builder, gradient: Ref, sizes: list[int], dim: int, index: int) -> Ref:
    dim, index = dim % len(sizes), index % sizes[dim]
    return padded(b, b("aten.unsqueeze.default", gradient, dim), dim, index, sizes[dim] - index - 1, 0)


def sliced(b: Builder, gradient: Ref, sizes: list[int], dim: int, start: int, end: int, step: int) -> Ref:
    dim %= len(sizes)
    first, last, step = slice(start, end, step).indices(sizes[dim])
    count = len(range(first, last, step))
    if not count:
        return full(b, sizes, 0, dtype=b.dtype(gradient))
    rest = sizes[dim] - first
    if step > 1:
        gradient = with_gaps(b, gradient, dim, step)
        if count * step > rest:
            gradient = b("aten.slice.Tensor", gradient, dim, 0, rest)
    return padded(b, gradient, dim, first, rest - min(count * step, rest), 0)


def embedding(b: Builder, gradient: Ref, indices: Ref, rows: int, padding: int, by_frequency: bool) -> Ref:
    """The gradient of each row: the sum, or the mean if `by_frequency`, over all places that read the row."""
    width, count = b.type(gradient).shape[-1], b.type(indices).numel
    gradient = reshape(b, compute(b, gradient), [count, width])
    indices = reshape(b, indices, [count])
    if by_frequency:
        gradient = shared_by_frequency(b, gradient, indices, rows)
    if padding >= 0:
        counts = b("aten.unsqueeze.default", b("aten.ne.Scalar", indices, padding), 1)
        gradient = b("aten.where.ScalarOther", counts, gradient, 0.0)
    zeros = full(b, [rows, width], 0.0, dtype=b.dtype(gradient))
    return b("aten.index_add.default", zeros, 0, indices, gradient)


def shared_by_frequency(b: Builder, gradient: Ref, indices: Ref, rows: int) -> Ref:
    """Divides the gradient's row of each index by the number of times that the index occurs."""
    dtype, count = b.dtype(gradient), b.type(indices).numel
    counts = full(b, [rows], 0.0, dtype=dtype)
    counts = b("aten.index_add.default", counts, 0, indices, full(b, [count], 1.0, dtype=dtype))
    times = b("aten.index_select.default", counts, 0, indices)
    return b("aten.div.Tensor", gradient, b("aten.unsqueeze.default", times, 1))


def masked_scatter_backward(b: Builder, gradient: Ref, mask: Ref, sizes: list[int]) -> Ref:
    """The source's gradient: the gradients where the mask is true, one after the other, and zeros behind them."""
    mask = expanded(b, mask, b.shape(gradient))
    gradient = b("aten.where.ScalarOther", mask, compute(b, gradient), 0.0)
    zeros = full(b, [math.prod(sizes)], 0.0, dtype=b.dtype(gradient))
    places = b("aten.clamp_max.default", order_of(b, mask), math.prod(sizes) - 1)
    row = reshape(b, gradient, [b.type(gradient).numel])
    return b("aten.view.default", b("aten.index_add.default", zeros, 0, places, row), sizes)


def unfolded(b: Builder, gradient: Ref, sizes: list[int], dim: int, size: int, step: int) -> Ref | None:
    """Adds up the gradients of each place in the window, each written back as a slice. None for windows with more than
    `_MOST_PLACES`."""
    if size > _MOST_PLACES:
        return None
    dim %= len(sizes)
    reach = (b.type(gradient).shape[dim] - 1) * step + 1
    result: Ref | None = None
    for place in range(size):
        each = b("aten.select.int", gradient, -1, place)
        each = sliced(b, each, sizes, dim, place, place + reach, step)
        result = each if result is None else b("aten.add.Tensor", result, each)
    return result


_MOST_PLACES = 16


def diagonal(b: Builder, gradient: Ref, sizes: list[int], offset: int, dim1: int, dim2: int) -> Ref:
    zeros = full(b, sizes, 0, dtype=b.dtype(gradient))
    return b("aten.diagonal_scatter.default", zeros, gradient, offset, dim1, dim2)


FORMULAS: dict[str, Formula] = {
    "aten.take.default": take,
    "aten.take_along_dim.default": take_along_dim,
    "aten._unsafe_index.Tensor": renamed("aten.index.Tensor"),
    "aten.scatter_add.default": renamed("aten.scatter_reduce.two", "sum"),
    "aten.scatter.reduce": scatter_with,
    "aten.scatter_reduce.two": scatter_reduce,
    "aten.index_add.default": index_add,
    "aten.index_fill.int_Tensor": index_fill,
    "aten.put.default": put,
    "aten.masked_scatter.default": masked_scatter,
    "aten.index_put.default": index_put,
    "aten._unsafe_index_put.default": index_put,
    "aten.select_backward.default": select,
    "aten.slice_backward.default": sliced,
    "aten.masked_scatter_backward.default": masked_scatter_backward,
    "aten.unfold_backward.default": unfolded,
    "aten.diagonal_backward.default": diagonal,
    "aten.embedding_dense_backward.default": embedding,
}
