"""Sums, means and maxima of rows of a table, a bag of rows each, and their backward passes.

A bag is a run of indices; `offsets` says where each begins, so the bag of an index is how many begin before it.
"""

from __future__ import annotations

import torch

from workbench.formulas.formula_builder import Builder, Formula, cast, compute
from workbench.formulas.index_gradients import shared_by_frequency
from workbench.formulas.known_contents import counted, full
from workbench.ir import Ref
from workbench.tensors.element_types import to_dtype

_SUM, _MEAN, _MAX = 0, 1, 2


def embedding_bag(
    b: Builder, weight: Ref, indices: Ref, offsets: Ref, by_frequency: bool = False, mode: int = _SUM,
    sparse: bool = False, each: Ref | None = None, last_offset: bool = False, padding: int = -1,
) -> tuple[Ref, Ref, Ref, Ref] | None:  # fmt: skip
    """The bags; then what PyTorch keeps for the backward pass: the bag of each index, the size of each bag (zeros where
    rows are added up, since no one asks), and, of maxima, the row that each number comes from."""
    bags, width = b.type(offsets).shape[0] - last_offset, b.type(weight).shape[1]
    if not bags or not b.type(indices).numel:
        return None
    rows, bag = compute(b, b("aten.embedding.default", weight, indices)), _bag_of_each(b, indices, offsets)
    integers = to_dtype(b.type(indices).dtype)
    sizes = full(b, [bags], 0, dtype=integers) if mode == _SUM else _sizes(b, indices, bag, bags, padding)
    if each is not None:
        rows = b("aten.mul.Tensor", rows, b("aten.unsqueeze.default", compute(b, each), 1))
    if mode == _MAX:
        made, origins = _largest(b, rows, indices, bag, sizes, padding)
    else:
        dtype = to_dtype(b.type(rows).dtype)
        rows = _without_padding(b, rows, indices, padding)
        made = b("aten.index_add.default", full(b, [bags, width], 0.0, dtype=dtype), 0, bag, rows)
        if mode == _MEAN:
            made = b("aten.div.Tensor", made, b("aten.unsqueeze.default", _divisors(b, sizes, dtype), 1))
        origins = sizes
    kept = cast(b, bag, integers)
    if mode == _SUM and _is_one_product(b, weight, each, padding):
        kept = full(b, [0], 0, dtype=to_dtype(b.type(offsets).dtype))
    return made, kept, sizes, origins


def embedding_bag_forward_only(
    b: Builder, weight: Ref, indices: Ref, offsets: Ref, by_frequency: bool = False, mode: int = _SUM,
    sparse: bool = False, each: Ref | None = None, last_offset: bool = False, padding: int = -1,
) -> tuple[Ref, Ref, Ref, Ref] | None:  # fmt: skip
    """The same where no gradient is asked for. PyTorch then has as many sizes as offsets, which no one reads."""
    found = embedding_bag(b, weight, indices, offsets, by_frequency, mode, sparse, each, last_offset, padding)
    if found is None or not last_offset:
        return found
    made, kept, _, origins = found
    return made, kept, full(b, list(b.type(offsets).shape), 0, dtype=to_dtype(b.type(indices).dtype)), origins


def embedding_bag_of_users(
    b: Builder, weight: Ref, indices: Ref, offsets: Ref, by_frequency: bool, mode: int, sparse: bool,
    each: Ref | None, last_offset: bool, padding: int | None,
) -> tuple[Ref, Ref, Ref, Ref] | None:  # fmt: skip
    """As it is called: the row that does not count may be none, or be counted from the last one."""
    row = -1 if padding is None else padding % b.type(weight).shape[0]
    return embedding_bag_forward_only(b, weight, indices, offsets, by_frequency, mode, sparse, each, last_offset, row)


def _is_one_product(b: Builder, weight: Ref, each: Ref | None, padding: int) -> bool:
    """Whether PyTorch sums without knowing the bag of each index, and keeps none."""
    kind = b.type(weight)
    dense = kind.strides[1] == 1 and (each is None or b.type(each).strides == (1,))
    return to_dtype(kind.dtype) in (torch.float32, torch.float16) and dense and padding < 0


def _bag_of_each(b: Builder, indices: Ref, offsets: Ref) -> Ref:
    place = b("aten.unsqueeze.default", counted(b, b.type(indices).numel, torch.int64), 1)
    begun = b("aten.sum.dim_IntList", b("aten.ge.Tensor", place, offsets), [1], False)
    return b("aten.sub.Scalar", begun, 1)


def _sizes(b: Builder, indices: Ref, bag: Ref, bags: int, padding: int) -> Ref:
    dtype = to_dtype(b.type(indices).dtype)
    counts = b("aten._to_copy.default", b("aten.ne.Scalar", indices, padding), dtype=dtype)
    return b("aten.index_add.default", full(b, [bags], 0, dtype=dtype), 0, bag, counts)


def _divisors(b: Builder, sizes: Ref, dtype: torch.dtype) -> Ref:
    """An empty bag is a sum of nothing over one."""
    return b("aten._to_copy.default", b("aten.clamp_min.default", sizes, 1), dtype=dtype)


def _without_padding(b: Builder, rows: Ref, indices: Ref, padding: int, instead: float = 0.0) -> Ref:
    if padding < 0:
        return rows
    counts = b("aten.unsqueeze.default", b("aten.ne.Scalar", indices, padding), 1)
    return b("aten.where.ScalarOther", counts, rows, instead)


def _largest(b: Builder, rows: Ref, indices: Ref, bag: Ref, sizes: Ref, padding: int) -> tuple[Ref, Ref]:
    """The largest number of each column, zero in an empty bag, and the row of the first that is as large."""
    (count, width), (bags,) = b.type(rows).shape, b.type(sizes).shape
    rows = _without_padding(b, rows, indices, padding, -torch.inf)
    wide = b("aten.expand.default", b("aten.unsqueeze.default", bag, 1), [count, width])
    lowest = full(b, [bags, width], -torch.inf, dtype=to_dtype(b.type(rows).dtype))
    largest = b("aten.scatter_reduce.two", lowest, 0, wide, rows, "amax")
    found = b("aten.eq.Tensor", rows, b("aten.index_select.default", largest, 0, bag))
    place = b("aten.unsqueeze.default", counted(b, count, torch.int64), 1)
    place = b("aten.where.ScalarOther", found, place, count - 1)
    last = full(b, [bags, width], count - 1, dtype=torch.int64)
    first = b("aten.scatter_reduce.two", last, 0, wide, place, "amin")
    filled = b("aten.unsqueeze.default", b("aten.gt.Scalar", sizes, 0), 1)
    origins = b("aten.where.ScalarOther", filled, b("aten.index.Tensor", indices, [first]), 0)
    return b("aten.where.ScalarOther", filled, largest, 0.0), origins


def embedding_bag_backward(
    b: Builder, gradient: Ref, indices: Ref, offsets: Ref, bag: Ref, sizes: Ref, origins: Ref, rows: int,
    by_frequency: bool, mode: int, sparse: bool, each: Ref | None, padding: int = -1,
) -> Ref | None:  # fmt: skip
    """Each row's gradient is that of its bag, or, of maxima, of the numbers that come from it."""
    if sparse:
        return None
    gradient = compute(b, gradient)
    dtype = to_dtype(b.type(gradient).dtype)
    zeros = full(b, [rows, b.type(gradient).shape[1]], 0.0, dtype=dtype)
    if mode == _MAX:
        filled = b("aten.unsqueeze.default", b("aten.gt.Scalar", sizes, 0), 1)
        return b("aten.scatter_add.default", zeros, 0, origins, b("aten.where.ScalarOther", filled, gradient, 0.0))
    if mode == _MEAN:
        gradient = b("aten.div.Tensor", gradient, b("aten.unsqueeze.default", _divisors(b, sizes, dtype), 1))
    found = b("aten.index_select.default", gradient, 0, _bag_of_each(b, indices, offsets))
    if each is not None:
        found = b("aten.mul.Tensor", found, b("aten.unsqueeze.default", compute(b, each), 1))
    if by_frequency:
        found = shared_by_frequency(b, found, indices, rows)
    return b("aten.index_add.default", zeros, 0, indices, _without_padding(b, found, indices, padding))


def of_weights_of_rows(
    b: Builder, gradient: Ref, weight: Ref, indices: Ref, offsets: Ref, bag: Ref, mode: int, padding: int = -1
) -> Ref:
    """The gradient of each index's factor: its row times the gradient of its bag."""
    rows = compute(b, b("aten.embedding.default", weight, indices))
    found = b("aten.index_select.default", compute(b, gradient), 0, _bag_of_each(b, indices, offsets))
    product = _without_padding(b, b("aten.mul.Tensor", rows, found), indices, padding)
    return b("aten.sum.dim_IntList", product, [1], False)


FORMULAS: dict[str, Formula] = {
    "aten.embedding_bag.padding_idx": embedding_bag_of_users,
    "aten._embedding_bag.default": embedding_bag,
    "aten._embedding_bag_forward_only.default": embedding_bag_forward_only,
    "aten._embedding_bag_backward.default": embedding_bag_backward,
    "aten._embedding_bag_per_sample_weights_backward.default": of_weights_of_rows,
}
