"""Writes at the places in index tensors: all through one pass of updates over a copy, which has kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workbench.ir import Ref, TensorType
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, meta_tensor
from workbench.operators.formulas.layout_changes import reshape
from workbench.operators.formulas.matrix_products import broadcast
from workbench.operators.tensors.torch_literals import to_dtype


def scatter_add(b: Builder, x: Ref, dim: int, index: Ref, src: Ref) -> Ref:
    return b("aten.scatter_reduce.two", x, dim, index, src, "sum")


def scatter_with(b: Builder, x: Ref, dim: int, index: Ref, src: Ref, *, reduce: str) -> Ref:
    return b("aten.scatter_reduce.two", x, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


def scatter_reduce(
    b: Builder, x: Ref, dim: int, index: Ref, src: Ref, reduce: str, *, include_self: bool = True
) -> Ref | None:
    """Without the old values: the updated places are first set to the neutral number."""
    dtype = to_dtype(b.type(x).dtype)
    if reduce == "mean":
        return _mean(b, x, dim, index, src, include_self=include_self) if dtype.is_floating_point else None
    if dtype == torch.bool:
        return _of_truth(b, x, dim, index, src, reduce, include_self=include_self)
    if include_self:
        return None
    cleared = b("aten.scatter.value", x, dim, index, _neutral(reduce, dtype))
    return b("aten.scatter_reduce.two", cleared, dim, index, src, reduce)


def _of_truth(b: Builder, x: Ref, dim: int, index: Ref, src: Ref, reduce: str, *, include_self: bool) -> Ref:
    """A sum of bools is true when one of them is, a product when all are."""
    one, other = cast(b, x, torch.int8), cast(b, src, torch.int8)
    kind = {"sum": "amax", "prod": "amin"}.get(reduce, reduce)
    made = b("aten.scatter_reduce.two", one, dim, index, other, kind, include_self=include_self)
    return cast(b, made, torch.bool)


def _mean(b: Builder, x: Ref, dim: int, index: Ref, src: Ref, *, include_self: bool) -> Ref:
    """The sum over the count. A place without updates keeps its value, as a sum of one."""
    start, count = x, _ones(b, x)
    if not include_self:
        start, count = (b("aten.scatter.value", each, dim, index, 0) for each in (start, count))
    total = b("aten.scatter_reduce.two", start, dim, index, src, "sum")
    made = b("aten.div.Tensor", total, b("aten.scatter_reduce.two", count, dim, index, _ones(b, index), "sum"))
    return cast(b, made, to_dtype(b.type(x).dtype))


def _ones(b: Builder, like: Ref) -> Ref:
    """Ones of f32, to count with: 16 bits would stop at 2048."""
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
    """Indices and values broadcast to what they stand for; a mask over all of `x` with one value is a `where`."""
    given = [each for each in indices if each is not None]
    kinds = [b.type(each) for each in given]
    if any(kind.dtype in ("bool", "u8") for kind in kinds):
        whole = len(kinds) == 1 and kinds[0].shape == b.type(x).shape and b.type(values).numel == 1
        return b("aten.where.self", given[0], _one(b, values), x) if whole and not accumulate else None
    shape = list(sum(map(meta_tensor, kinds), torch.empty((), device="meta")).shape) or [1]
    wide: list[Ref | None] = [each if each is None else _expanded(b, each, shape) for each in indices]
    made = _expanded(b, values, chosen_shape(b.type(x), [each and b.type(each) for each in wide]))
    if made == values and wide == list(indices):
        return None
    return b("aten.index_put.default", x, wide, made, accumulate)


def masked_scatter(b: Builder, x: Ref, mask: Ref, source: Ref) -> Ref:
    """Where the mask is true stands the next element of the source: as many stood before as the mask was true."""
    shape = broadcast(b.type(x).shape, b.type(mask).shape)
    x, mask = _expanded(b, x, shape), _expanded(b, mask, shape)
    count = b.type(source).numel
    order = b("aten.view.default", b("aten.clamp_max.default", order_of(b, mask), count - 1), shape)
    return b("aten.where.self", mask, b("aten.index.Tensor", reshape(b, source, [count]), [order]), x)


def order_of(b: Builder, mask: Ref) -> Ref:
    """For each element of a mask, in a row, how many true ones stand before it, where it is true itself."""
    row = reshape(b, b("aten._to_copy.default", mask, dtype=torch.int64), [b.type(mask).numel])
    return b("aten.clamp_min.default", b("aten.sub.Scalar", b("aten.cumsum.default", row, 0), 1), 0)


def put(b: Builder, x: Ref, index: Ref, source: Ref, accumulate: bool = False) -> Ref:
    """Written at places of `x` as if it had one dim."""
    row, places, values = (reshape(b, each, [b.type(each).numel]) for each in (x, index, source))
    return b("aten.view.default", b("aten.index_put.default", row, [places], values, accumulate), list(b.type(x).shape))


def chosen_shape(kind: TensorType, indices: Sequence[TensorType | None]) -> list[int]:
    """The shape of what indices choose from a tensor."""
    places = tuple(slice(None) if each is None else meta_tensor(each) for each in indices)
    return list(meta_tensor(kind)[places].shape)


def _one(b: Builder, value: Ref) -> Ref:
    return value if not b.rank(value) else b("aten.view.default", value, [])


def _expanded(b: Builder, value: Ref, shape: list[int]) -> Ref:
    return value if list(b.type(value).shape) == shape else b("aten.expand.default", value, shape)


FORMULAS: dict[str, Formula] = {
    "aten.scatter_add.default": scatter_add,
    "aten.scatter.reduce": scatter_with,
    "aten.scatter_reduce.two": scatter_reduce,
    "aten.index_add.default": index_add,
    "aten.index_fill.int_Tensor": index_fill,
    "aten.put.default": put,
    "aten.masked_scatter.default": masked_scatter,
    "aten.index_put.default": index_put,
    "aten._unsafe_index_put.default": index_put,
}
