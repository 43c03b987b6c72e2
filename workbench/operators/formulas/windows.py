"""Convolutions: a window of weights that moves over one, two or three dims of space, and a bias for each channel.

Also windows as columns, and columns as windows.
"""

from __future__ import annotations

import itertools
import math

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, compute
from workbench.operators.formulas.known_contents import CPU
from workbench.operators.formulas.layout_changes import each, per_channel, reshape, with_batch
from workbench.operators.formulas.moving import part
from workbench.operators.formulas.transposed import transposed_convolution
from workbench.operators.tensors.element_types import to_dtype

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
        pairs = _groups(b, x, weight, groups) if _is_apart(b, x, groups) else [(x, weight)]
        rest = (None, steps, around, apart, False, [0] * dims, groups // len(pairs))
        found = [b("aten.convolution.default", *pair, *rest) for pair in pairs]
        y = found[0] if len(found) == 1 else b("aten.cat.default", found, 1)
        return y if bias is None else b("aten.add.Tensor", y, per_channel(b, bias, dims))

    return made


def _is_apart(b: Builder, x: Ref, groups: int) -> bool:
    """True if each group is a convolution of its own: over volumes torch-mlir has none with one channel a group."""
    return b.rank(x) == 5 and groups > 1 and b.type(x).shape[1] == groups


def _groups(b: Builder, x: Ref, weight: Ref, groups: int) -> list[tuple[Ref, Ref]]:
    """The channels of each group, and its weights."""
    inside, outside = (b.type(each).shape[dim] // groups for each, dim in ((x, 1), (weight, 0)))
    return [
        (
            part(b, x, 1, place * inside, (place + 1) * inside),
            part(b, weight, 0, place * outside, (place + 1) * outside),
        )
        for place in range(groups)
    ]


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
    if bias is None and not moved and not _is_apart(b, x, groups) and to_dtype(b.type(x).dtype) not in BYTES:
        return None
    return _convolution(dims)(b, x, weight, bias, stride, padding, dilation, groups)


def unfolded_windows(b: Builder, x: Ref, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Ref:
    """A column for each window: its elements, one place of the window after the other, each a slice of the image."""
    if b.rank(x) == 3:
        return with_batch(b, x, lambda y: unfolded_windows(b, y, kernel, dilation, padding, stride))
    kernel, dilation, padding, stride = (each(given, 2) for given in (kernel, dilation, padding, stride))
    around = [size for border in reversed(padding) for size in (border, border)]
    padded = b("aten.constant_pad_nd.default", x, around, 0) if any(around) else x
    images, channels, *space = b.type(padded).shape
    counts = [
        (extent - apart * (size - 1) - 1) // step + 1
        for extent, apart, size, step in zip(space, dilation, kernel, stride, strict=True)
    ]
    found: list[Ref] = []
    for offsets in itertools.product(
        *(range(0, size * apart, apart) for size, apart in zip(kernel, dilation, strict=True))
    ):
        slice_ = padded
        for dim, (begin, count, step) in enumerate(zip(offsets, counts, stride, strict=True)):
            slice_ = part(b, slice_, dim + 2, begin, begin + (count - 1) * step + 1, step)
        found.append(slice_)
    stacked = b("aten.stack.default", found, 2)
    return b("aten.view.default", stacked, [images, channels * math.prod(kernel), math.prod(counts)])


def folded_windows(
    b: Builder, x: Ref, size: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Ref:
    """The elements of each window at their places in an image, added up: a transposed convolution with a one at another
    place of the window for each."""
    if b.rank(x) == 2:
        return with_batch(b, x, lambda y: folded_windows(b, y, size, kernel, dilation, padding, stride))
    size, kernel, dilation, padding, stride = (each(given, 2) for given in (size, kernel, dilation, padding, stride))
    places, (images, rows, _) = math.prod(kernel), b.type(x).shape
    reach = [
        extent + 2 * border - apart * (window - 1) - 1
        for extent, border, apart, window in zip(size, padding, dilation, kernel, strict=True)
    ]
    counts, left = zip(*(divmod(extent, step) for extent, step in zip(reach, stride, strict=True)), strict=True)
    counts = [count + 1 for count in counts]
    windows = reshape(b, x, [images * rows // places, places, *counts])
    ones = b("aten.eye.default", places, dtype=to_dtype(b.type(compute(b, x)).dtype), device=CPU)
    ones = b("aten.view.default", ones, [places, 1, *kernel])
    made = transposed_convolution(b, compute(b, windows), ones, None, stride, padding, dilation, list(left), 1)
    return b("aten.view.default", made, [images, rows // places, *size])


FORMULAS: dict[str, Formula] = {
    "aten.convolution.default": convolution,
    "aten.im2col.default": unfolded_windows,
    "aten.col2im.default": folded_windows,
    "aten.conv1d.default": _convolution(1),
    "aten.conv2d.default": _convolution(2),
    "aten.conv3d.default": _convolution(3),
    "aten.conv1d.padding": _convolution(1),
    "aten.conv2d.padding": _convolution(2),
    "aten.conv3d.padding": _convolution(3),
}
