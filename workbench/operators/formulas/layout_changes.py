"""Changes of layout: a view where strides can express it, else a copy."""

from __future__ import annotations

from typing import Any

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, meta_tensor


def contiguous(b: Builder, x: Ref, *, memory_format: torch.memory_format = torch.contiguous_format) -> Ref:
    if meta_tensor(b.type(x)).is_contiguous(memory_format=memory_format):
        return x
    return b("aten.clone.default", x, memory_format=memory_format)


def reshape(b: Builder, x: Ref, shape: list[int]) -> Ref:
    """`x` in another shape: a view if strides can express it, else a view of a copy."""
    return b("aten.view.default", x, shape)


def expanded(b: Builder, x: Ref, shape: list[int]) -> Ref:
    """`x` expanded to a shape; `x` itself if it has the shape."""
    return x if b.shape(x) == shape else b("aten.expand.default", x, shape)


def each(value: int | list[int], count: int) -> list[int]:
    """The value as a list with one number for each of `count` dims."""
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def of_batches(dims: int, formula: Formula, images: int = 1) -> Formula:
    """Makes a formula for batches also take one image without a batch dim: the first `images` operands get a batch dim,
    which is removed from the results."""

    def changed(b: Builder, *args: Any, **kwargs: Any) -> object:
        if b.rank(args[0]) != dims + 1:
            return formula(b, *args, **kwargs)
        batches = [b("aten.unsqueeze.default", image, 0) for image in args[:images]]
        found: Ref | tuple[Ref | None, ...] = formula(b, *batches, *args[images:], **kwargs)
        if isinstance(found, tuple):
            return tuple(each and b("aten.squeeze.dim", each, 0) for each in found)
        return b("aten.squeeze.dim", found, 0)

    return changed


def per_channel(b: Builder, values: Ref, dims: int) -> Ref:
    """One number for each channel, in a shape that broadcasts over `dims` dims of space."""
    return b("aten.view.default", values, [*b.type(values).shape, *[1] * dims])


FORMULAS: dict[str, Formula] = {
    "aten.contiguous.default": contiguous,
    "aten.reshape.default": reshape,
}
