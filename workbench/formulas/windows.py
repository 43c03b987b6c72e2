"""Convolutions: a window of weights that moves over one, two or three dims of space, and a bias for each channel."""

from __future__ import annotations

import torch

from workbench.formulas.formula_builder import Builder, Formula, cast
from workbench.formulas.layout_changes import each, per_channel, with_batch
from workbench.formulas.transposed import transposed_convolution
from workbench.ir import Ref
from workbench.tensors.element_types import to_dtype

Sizes = int | list[int]

BYTES = (torch.int8, torch.uint8)


def _convolution(dims: int) -> Formula:
    def made(
        b: Builder, x: Ref, weight: Ref, bias: Ref | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
        dilation: Sizes = 1, groups: int = 1,
    ) -> Ref:  # fmt: skip
        own = to_dtype(b.type(x).dtype)
        if own in BYTES:  # the importer ends the process on them, and the low 8 bits of wider sums are the right ones
            wide = cast(b, x, torch.int16), cast(b, weight, torch.int16)
            return cast(b, made(b, *wide, bias, stride, padding, dilation, groups), own)
        if b.rank(x) == dims + 1:  # one image without a batch dim
            rest = (weight, bias, stride, padding, dilation, groups)
            return with_batch(b, x, lambda images: made(b, images, *rest))
        if isinstance(padding, str):
            x, padding = _same(b, x, weight, each(dilation, dims)) if padding == "same" else (x, 0)
        steps, around, apart = each(stride, dims), each(padding, dims), each(dilation, dims)
        if set(b.type(weight).shape[2:]) == {1} and set(around) == {0}:
            x, steps = _every(b, x, steps), [1] * dims
        y = b("aten.convolution.default", x, weight, None, steps, around, apart, False, [0] * dims, groups)
        return y if bias is None else b("aten.add.Tensor", y, per_channel(b, bias, dims))

    return made


def _same(b: Builder, x: Ref, weight: Ref, dilation: list[int]) -> tuple[Ref, list[int]]:
    """Padding that keeps the extents. An odd total puts the one more element behind: that takes a padded copy."""
    total = [apart * (size - 1) for apart, size in zip(dilation, b.type(weight).shape[2:], strict=True)]
    if any(each % 2 for each in total):
        behind = [amount for each in reversed(total) for amount in (0, each % 2)]
        x = b("aten.constant_pad_nd.default", x, behind, 0.0)
    return x, [each // 2 for each in total]


def _every(b: Builder, x: Ref, steps: list[int]) -> Ref:
    """The elements that a window of one point reads when it moves in steps: a view."""
    for dim, step in enumerate(steps):
        if step > 1:
            x = b("aten.slice.Tensor", x, dim + 2, 0, b.type(x).shape[dim + 2], step)
    return x


def convolution(
    b: Builder, x: Ref, weight: Ref, bias: Ref | None, stride: list[int], padding: list[int], dilation: list[int],
    transposed: bool, output_padding: list[int], groups: int,
) -> Ref | None:  # fmt: skip
    """The op that all convolutions become; with a bias, or a window of one point, there is still something to do."""
    if transposed:
        return transposed_convolution(b, x, weight, bias, stride, padding, dilation, output_padding, groups)
    dims = b.rank(x) - 2
    moved = set(b.type(weight).shape[2:]) == {1} and set(padding) == {0} and set(stride) != {1}
    if bias is None and not moved and to_dtype(b.type(x).dtype) not in BYTES:
        return None
    return _convolution(dims)(b, x, weight, bias, stride, padding, dilation, groups)


FORMULAS: dict[str, Formula] = {
    "aten.convolution.default": convolution,
    "aten.conv1d.default": _convolution(1),
    "aten.conv2d.default": _convolution(2),
    "aten.conv3d.default": _convolution(3),
    "aten.conv1d.padding": _convolution(1),
    "aten.conv2d.padding": _convolution(2),
    "aten.conv3d.padding": _convolution(3),
}
