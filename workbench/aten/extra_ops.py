"""Ops without an ATen overload, for use in formulas."""

from __future__ import annotations

from typing import Final

import torch

MATMUL: Final = "workbench.matmul.default"
"""A product of two matrices, or of two batches of them, whose sums have a type of their own."""


def _matmul(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype) @ y.to(dtype)


torch.library.define("workbench::matmul", "(Tensor x, Tensor y, ScalarType dtype) -> Tensor")
torch.library.impl("workbench::matmul", ("cpu", "meta"), _matmul)
