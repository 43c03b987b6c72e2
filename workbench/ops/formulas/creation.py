"""Tensors with known contents: one number everywhere, or numbers that follow from where they stand."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from workbench.ir import Ref
from workbench.ops.formulas.builder import Builder, Formula
from workbench.ops.literals import to_dtype

CPU = torch.device("cpu")
"""Where creation ops say that their tensors are, whatever makes them."""


def full(b: Builder, shape: list[int], value: bool | int | float, *, dtype: torch.dtype | None = None) -> Ref:
    if dtype is None:
        dtype = torch.full((), value).dtype
    return b("aten.full.default", shape, value, dtype=dtype, device=CPU)


FORMULAS: dict[str, Formula] = {}
