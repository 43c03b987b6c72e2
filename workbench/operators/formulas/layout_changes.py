"""Changes of layout: a view where strides can express it, else a copy."""

from __future__ import annotations

from collections.abc import Callable

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, meta_tensor


def contiguous(b: Builder, x: Ref, *, memory_format: torch.memory_format = torch.contiguous_format) -> Ref:
    if meta_tensor(b.type(x)).is_contiguous(memory_format=memory_format):
        return x
    return b("aten.clone.default", x, memory_format=memory_format)


def reshape(b: Builder, x: Ref, shape: list[int]) -> Ref:
    """A view where strides can express it, else one of a copy."""
    return b("aten.view.default", x, shape)


def expanded(b: Builder, x: Ref, shape: list[int]) -> Ref:
    """`x` expanded to a shape, if it does not have it."""
    return x if b.shape(x) == shape else b("aten.expand.default", x, shape)


def each(value: int | list[int], count: int) -> list[int]:
    """One number for each of several dims."""
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def with_batch(b: Builder, x: Ref, made: Callable[[Ref], Ref]) -> Ref:
    """The result of `made` for one image that comes without a batch dim: `made` takes a batch."""
    return b("aten.squeeze.dim", made(b("aten.unsqueeze.default", x, 0)), 0)


def per_channel(b: Builder, values: Ref, dims: int) -> Ref:
    """One number a channel, against `dims` dims of space."""
    return b("aten.view.default", values, [*b.type(values).shape, *[1] * dims])


FORMULAS: dict[str, Formula] = {
    "aten.contiguous.default": contiguous,
    "aten.reshape.default": reshape,
}
