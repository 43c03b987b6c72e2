"""The sum, mean or maximum of each bag of rows of a table, and the backward passes.

A bag is a run of indices that begins at an entry of `offsets`. Bags are counted from 0: the bag of an index is the
number of bags that begin at or before the index, less 1.
"""

from __future__ import annotations

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, compute
from workbench.operators.formulas.indices import shared_by_frequency
from workbench.operators.formulas.known_contents import counted, full
from workbench.operators.tensors.element_types import to_dtype

_SUM, _MEAN, _MAX = 0, 1, 2


def embedding_bag(
    b: Builder, weight: Ref, indices: Ref, offsets: Ref, by_frequency: bool = False, mode: int = _SUM,
    sparse: bool = False, each: Ref | None = None, last_offset: bool = False, padding: int = -1,
) -> tuple[Ref, Ref, Ref, Ref] | None:  # fmt: skip
    """Returns the bags and what PyTorch keeps for the backward pass: the bag of each index, the size of each bag (zeros
    for sums, where no op reads them), and, for maxima, the row that each maximum comes from."""
    bags, width = b.type(offsets).shape[0] - last_offset, b.type(weight).shape[1]
    if not bags or not b.type(indices).numel:
        return None
    rows, bag = compute(b, b("aten.embedding.default", weight, indices)), _bag_of_each(b, indices, offsets, bags)
    integers, counts = b.dtype(indices), _counting(b, indices, offsets, bags, padding)
    sizes = full(b, [bags], 0, dtype=integers) if mode == _SUM else _sizes(b, bag, bags, counts, integers)
    if each is not None:
        rows = b("aten.mul.Tensor", rows, _column(b, compute(b, each)))
    if mode == _MAX:
        result, origins = _largest(b, _only(b, counts, rows, -torch.inf), indices, bag, sizes)
    else:
        dtype = b.dtype(rows)
        zeros = full(b, [bags, width], 0.0, dtype=dtype)
        result = b("aten.index_add.default", zeros, 0, bag, _only(b, counts, rows, 0.0))
        if mode == _MEAN:
            result = b("aten.div.Tensor", result, _column(b, _divisors(b, sizes, dtype)))
        origins = sizes
    kept = cast(b, bag, integers)
    if mode == _SUM and _is_one_product(b, weight, each, padding):
        kept = full(b, [0], 0, dtype=b.dtype(offsets))
    return result, kept, sizes, origins


def embedding_bag_forward_only(
    b: Builder, weight: Ref, indices: Ref, offsets: Ref, by_frequency: bool = False, mode: int = _SUM,
    sparse: bool = False, each: Ref | None = None, last_offset: bool = False, padding: int = -1,
) -> tuple[Ref, Ref, Ref, Ref] | None:  # fmt: skip
    """`embedding_bag` without a gradient: as in PyTorch, the sizes, which no op reads, have the shape of the
    offsets."""
    found = embedding_bag(b, weight, indices, offsets, by_frequency, mode, sparse, each, last_offset, padding)
    if found is None or not last_offset:
        return found
    result, kept, _, origins = found
    return result, kept, full(b, b.shape(offsets), 0, dtype=b.dtype(indices)), origins


def embedding_bag_of_users(
    b: Builder, weight: Ref, indices: Ref, offsets: Ref, by_frequency: bool, mode: int, sparse: bool,
    each: Ref | None, last_offset: bool, padding: int | None,
) -> tuple[Ref, Ref, Ref, Ref] | None:  # fmt: skip
    """`embedding_bag` as users call it: the padding row may be None, or negative, counted from the end."""
    row = -1 if padding is None else padding % b.type(weight).shape[0]
    return embedding_bag_forward_only(b, weight, indices, offsets, by_frequency, mode, sparse, each, last_offset, row)


def _is_one_product(b: Builder, weight: Ref, each: Ref | None, padding: int) -> bool:
    """True if PyTorch computes the sum without the bag of each index, and so keeps an empty tensor of bags."""
    kind = b.type(weight)
    dense = kind.strides[1] == 1 and (each is None or b.type(each).strides == (1,))
    return to_dtype(kind.dtype) in (torch.float32, torch.float16) and dense and padding < 0


def _bag_of_each(b: Builder, indices: Ref, offsets: Ref, bags: int) -> Ref:
    """The bag of each index. Indices behind the end of the last bag get the last bag; `_counting` leaves them out."""
    begins = b("aten.slice.Tensor", offsets, 0, 0, bags) if b.type(offsets).shape[0] > bags else offsets
    begun = b("aten.sum.dim_IntList", b("aten.ge.Tensor", _places(b, indices), begins), [1], False)
    return b("aten.sub.Scalar", begun, 1)


def _places(b: Builder, indices: Ref) -> Ref:
    return b("aten.unsqueeze.default", counted(b, b.type(indices).numel, torch.int64), 1)


def _counting(b: Builder, indices: Ref, offsets: Ref, bags: int, padding: int) -> Ref | None:
    """True for the indices that count: not the padding, and not those behind the end of the last bag. None if all
    count."""
    count = b("aten.ne.Scalar", indices, padding) if padding >= 0 else None
    if b.type(offsets).shape[0] == bags:
        return count
    end = b("aten.slice.Tensor", offsets, 0, bags, bags + 1)
    within = b("aten.squeeze.dim", b("aten.lt.Tensor", _places(b, indices), end), 1)
    return within if count is None else b("aten.logical_and.default", count, within)


def _only(b: Builder, counts: Ref | None, rows: Ref, instead: float) -> Ref:
    return rows if counts is None else b("aten.where.ScalarOther", _column(b, counts), rows, instead)


def _column(b: Builder, values: Ref) -> Ref:
    return b("aten.unsqueeze.default", values, 1)


def _sizes(b: Builder, bag: Ref, bags: int, counts: Ref | None, dtype: torch.dtype) -> Ref:
    count = b.type(bag).numel
    ones = full(b, [count], 1, dtype=dtype) if counts is None else b("aten._to_copy.default", counts, dtype=dtype)
    return b("aten.index_add.default", full(b, [bags], 0, dtype=dtype), 0, bag, ones)


def _divisors(b: Builder, sizes: Ref, dtype: torch.dtype) -> Ref:
    """The sizes as divisors: 1 for an empty bag, whose sum is 0."""
    return b("aten._to_copy.default", b("aten.clamp_min.default", sizes, 1), dtype=dtype)


def _largest(b: Builder, rows: Ref, indices: Ref, bag: Ref, sizes: Ref) -> tuple[Ref, Ref]:
    """The maximum of each column of each bag, zero for an empty bag; and the row in which it first occurs."""
    (count, width), (bags,) = b.type(rows).shape, b.type(sizes).shape
    wide = b("aten.expand.default", _column(b, bag), [count, width])
    lowest = full(b, [bags, width], -torch.inf, dtype=b.dtype(rows))
    largest = b("aten.scatter_reduce.two", lowest, 0, wide, rows, "amax")
    found = b("aten.eq.Tensor", rows, b("aten.index_select.default", largest, 0, bag))
    place = b("aten.where.ScalarOther", found, _places(b, indices), count - 1)
    last = full(b, [bags, width], count - 1, dtype=torch.int64)
    first = b("aten.scatter_reduce.two", last, 0, wide, place, "amin")
    filled = b("aten.unsqueeze.default", b("aten.gt.Scalar", sizes, 0), 1)
    origins = b("aten.where.ScalarOther", filled, b("aten.index.Tensor", indices, [first]), 0)
    return b("aten.where.ScalarOther", filled, largest, 0.0), origins


def embedding_bag_backward(
    b: Builder, gradient: Ref, indices: Ref, offsets: Ref, bag: Ref, sizes: Ref, origins: Ref, rows: int,
    by_frequency: bool, mode: int, sparse: bool, each: Ref | None, padding: int = -1,
) -> Ref | None:  # fmt: skip
    """Adds the gradient of each bag to all rows of the bag; for maxima, only to the row that each maximum comes from.
    None for sparse gradients."""
    if sparse:
        return None
    gradient, bags = compute(b, gradient), b.type(gradient).shape[0]
    dtype = b.dtype(gradient)
    zeros = full(b, [rows, b.type(gradient).shape[1]], 0.0, dtype=dtype)
    if mode == _MAX:
        filled = b("aten.unsqueeze.default", b("aten.gt.Scalar", sizes, 0), 1)
        return b("aten.scatter_add.default", zeros, 0, origins, b("aten.where.ScalarOther", filled, gradient, 0.0))
    if mode == _MEAN:
        gradient = b("aten.div.Tensor", gradient, _column(b, _divisors(b, sizes, dtype)))
    found = b("aten.index_select.default", gradient, 0, _bag_of_each(b, indices, offsets, bags))
    if each is not None:
        found = b("aten.mul.Tensor", found, _column(b, compute(b, each)))
    if by_frequency:
        found = shared_by_frequency(b, found, indices, rows)
    counts = _counting(b, indices, offsets, bags, padding)
    return b("aten.index_add.default", zeros, 0, indices, _only(b, counts, found, 0.0))


def of_weights_of_rows(
    b: Builder, gradient: Ref, weight: Ref, indices: Ref, offsets: Ref, bag: Ref, mode: int, padding: int = -1
) -> Ref:
    """The gradient of each index's factor: its row times the gradient of its bag."""
    rows = compute(b, b("aten.embedding.default", weight, indices))
    bags = b.type(gradient).shape[0]
    found = b("aten.index_select.default", compute(b, gradient), 0, _bag_of_each(b, indices, offsets, bags))
    counts = _counting(b, indices, offsets, bags, padding)
    return b("aten.sum.dim_IntList", _only(b, counts, b("aten.mul.Tensor", rows, found), 0.0), [1], False)


FORMULAS: dict[str, Formula] = {
    "aten.embedding_bag.padding_idx": embedding_bag_of_users,
    "aten._embedding_bag.default": embedding_bag,
    "aten._embedding_bag_forward_only.default": embedding_bag_forward_only,
    "aten._embedding_bag_backward.default": embedding_bag_backward,
    "aten._embedding_bag_per_sample_weights_backward.default": of_weights_of_rows,
}
