"""Scaled dot-product attention: scores, a softmax of each row of them, and the weighted sum of the values."""

from __future__ import annotations

import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, compute
from workbench.operators.formulas.layout_changes import expanded, reshape


def attention(
    b: Builder, query: Ref, key: Ref, value: Ref, mask: Ref | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Ref | None:  # fmt: skip
    """Two batched products, with the scale, the mask and the softmax between them. None with dropout.

    Scores stay in float32 for 16-bit inputs; the weights are rounded before the second product.
    """
    if dropout_p:
        return None
    lead, rows, columns = b.shape(query)[:-2], b.type(query).shape[-2], b.type(key).shape[-2]
    if not columns:  # PyTorch returns zeros for a query that sees no key
        return b("aten.full.default", [*lead, rows, b.type(value).shape[-1]], 0.0, dtype=b.dtype(query))
    if enable_gqa:
        key, value = (_repeated(b, each, lead[-1]) for each in (key, value))
    left, right, values = (_batched(b, each, lead) for each in (query, key, value))
    scores = compute(b, b("aten.bmm.default", left, b("aten.permute.default", right, [0, 2, 1])))
    factor = 1 / math.sqrt(b.type(query).shape[-1]) if scale is None else scale
    if factor != 1:
        scores = b("aten.mul.Tensor", scores, factor)
    if mask is not None:
        scores = _masked(b, scores, mask, [*lead, rows, columns])
    if is_causal:
        later = b("aten.triu.default", b("aten.full_like.default", scores, 1, dtype=torch.bool), 1)
        scores = b("aten.masked_fill.Scalar", scores, later, -math.inf)
    weights = _weights(b, scores, may_be_empty=mask is not None)
    result = b("aten.bmm.default", cast(b, weights, b.dtype(query)), values)
    return b("aten.view.default", result, [*lead, rows, b.type(value).shape[-1]])


def _repeated(b: Builder, x: Ref, heads: int) -> Ref:
    """Repeats each head of keys or values for every query head that uses it."""
    *lead, own, length, width = b.type(x).shape
    if own == heads:
        return x
    wide = b("aten.expand.default", b("aten.unsqueeze.default", x, -3), [*lead, own, heads // own, length, width])
    return reshape(b, wide, [*lead, heads, length, width])


def _batched(b: Builder, x: Ref, lead: list[int]) -> Ref:
    """`x` as one batch of matrices: its leading dims are broadcast to `lead` and flattened into one."""
    rows, columns = b.type(x).shape[-2:]
    return reshape(b, expanded(b, x, [*lead, rows, columns]), [math.prod(lead), rows, columns])


def _masked(b: Builder, scores: Ref, mask: Ref, shape: list[int]) -> Ref:
    """Applies the mask: bools choose the scores that count, numbers are added. A single mask is broadcast to all
    matrices."""
    if math.prod(b.type(mask).shape[:-2]) == 1:
        mask = reshape(b, mask, [1, *([1] * (2 - b.rank(mask))), *b.type(mask).shape[-2:]])
    else:
        mask = reshape(b, b("aten.expand.default", mask, shape), b.shape(scores))
    if b.type(mask).dtype == "bool":
        return b("aten.where.ScalarOther", mask, scores, -math.inf)
    return b("aten.add.Tensor", scores, mask)


def _weights(b: Builder, scores: Ref, may_be_empty: bool) -> Ref:
    """The softmax of each row; zeros for a row that is masked completely.

    In every other row the largest score is finite and adds 1 to the sum, so the two lower bounds change nothing there.
    """
    largest = b("aten.amax.default", scores, [-1], True)
    if may_be_empty:
        largest = b("aten.clamp_min.default", largest, torch.finfo(b.dtype(scores)).min)
    exponentials = b("aten.exp.default", b("aten.sub.Tensor", scores, largest))
    total = b("aten.sum.dim_IntList", exponentials, [-1], True)
    if may_be_empty:
        total = b("aten.clamp_min.default", total, 1.0)
    return b("aten.div.Tensor", exponentials, total)


def safe_softmax(b: Builder, x: Ref, dim: int, dtype: torch.dtype | None = None) -> Ref:
    """The softmax of attention in simple steps: zeros for a row whose scores are all masked."""
    x = compute(b, x, dtype)
    if dim % b.rank(x) == b.rank(x) - 1:
        return _weights(b, x, may_be_empty=True)
    return b("aten.transpose.int", _weights(b, b("aten.transpose.int", x, dim, -1), may_be_empty=True), dim, -1)


FORMULAS: dict[str, Formula] = {
    "aten.scaled_dot_product_attention.default": attention,
    "aten._safe_softmax.default": safe_softmax,
}
