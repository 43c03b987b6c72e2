"""Ops without an ATen overload, which lowering makes of those that have one."""

from __future__ import annotations

from typing import Final

import torch

MATMUL: Final = "workbench.matmul.default"
"""A product of two matrices, or of two batches of them, whose sums have a type of their own."""


def _matmul(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype) @ y.to(dtype)


torch.library.define("workbench::matmul", "(Tensor x, Tensor y, ScalarType dtype) -> Tensor")
torch.library.impl("workbench::matmul", ("cpu", "meta"), _matmul)

ATTENTION: Final = "workbench.attention.default"
"""Attention as it is written by hand, in one op."""


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    scale: float,
    enable_gqa: bool,
    hides: bool,
    hidden: float,
) -> torch.Tensor:
    """A mask of bools says which scores become `hidden`: those where it is true if it `hides`, else all others. A query
    of which nothing is left is NaN; PyTorch's own op has a zero there."""
    if enable_gqa:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    scores = query @ key.transpose(-1, -2) * scale
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask != hides, scores, hidden)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1).to(value.dtype) @ value


torch.library.define(
    "workbench::attention",
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float scale, bool enable_gqa, bool hides, "
    "float hidden) -> Tensor",
)
torch.library.impl("workbench::attention", ("cpu", "meta"), _attention)
