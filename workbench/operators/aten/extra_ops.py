"""Two ops that ATen does not have. Lowering puts them in place of ATen ops."""

from __future__ import annotations

from typing import Final

import torch

MATMUL: Final = "workbench.matmul.default"
"""The product of two matrices, or of two batches of matrices, computed and returned in `dtype`."""


def _matmul(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype) @ y.to(dtype)


torch.library.define("workbench::matmul", "(Tensor x, Tensor y, ScalarType dtype) -> Tensor")
torch.library.impl("workbench::matmul", ("cpu", "meta"), _matmul)

ATTENTION: Final = "workbench.attention.default"
"""One op for attention that a model writes out as two products and a softmax."""


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
    """With a mask of bools, `hidden` replaces the scores where the mask is true if it `hides`, else where the mask is
    false. A query whose scores are all minus infinity becomes NaN; PyTorch's own op returns zeros for such a query."""
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
