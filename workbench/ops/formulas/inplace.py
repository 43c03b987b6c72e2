"""What changes in place become when a graph is made functional: new values over the whole of a tensor."""

from __future__ import annotations

import torch

from workbench.ir import Ref
from workbench.ops.formulas.builder import Builder, Formula
from workbench.ops.literals import to_dtype


def copy(b: Builder, x: Ref, source: Ref, non_blocking: bool = False) -> Ref:
    """`source` in the shape, the element type and the layout of `x`."""
    shape, dtype = list(b.type(x).shape), to_dtype(b.type(x).dtype)
    if list(b.type(source).shape) != shape:
        source = b("aten.expand.default", source, shape)
    if b.type(source).dtype != b.type(x).dtype:
        return b("aten._to_copy.default", source, dtype=dtype)
    return b("aten.clone.default", source, memory_format=torch.contiguous_format)


def fill(b: Builder, x: Ref, value: float) -> Ref:
    return b("aten.full.default", list(b.type(x).shape), value, dtype=to_dtype(b.type(x).dtype), device=CPU)


def fill_tensor(b: Builder, x: Ref, value: Ref) -> Ref:
    return copy(b, x, value)


def zero(b: Builder, x: Ref) -> Ref:
    return fill(b, x, 0)


CPU = torch.device("cpu")

FORMULAS: dict[str, Formula] = {
    "aten.copy.default": copy,
    "aten.fill.Scalar": fill,
    "aten.fill.Tensor": fill_tensor,
    "aten.zero.default": zero,
}
