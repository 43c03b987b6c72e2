"""Convolutions: a window of weights that moves over one, two or three dims of space, and a bias for each channel.

A transposed convolution adds each number of the input, times the window, to the result where the window stands. The
same sums come from an ordinary convolution with the reversed window, over the input with zeros between its elements,
one less than the step. The module also has im2col, col2im and the backward passes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, cast, compute
from workbench.operators.formulas.gradients import asked_for
from workbench.operators.formulas.known_contents import CPU, full
from workbench.operators.formulas.layout_changes import each, of_batches, per_channel, reshape
from workbench.operators.formulas.moving import padded, part

Sizes = int | list[int]

BYTES = (torch.int8, torch.uint8)


def _transposed(dims: int) -> Formula:
    def formula(
        b: Builder, x: Ref, weight: Ref, bias: Ref | None = None, stride: Sizes = 1, padding: Sizes = 0,
        output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
    ) -> Ref:  # fmt: skip
        steps, apart = each(stride, dims), each(dilation, dims)
        reach = [gap * (size - 1) for gap, size in zip(apart, b.type(weight).shape[2:], strict=True)]
        around = [far - cut for far, cut in zip(reach, each(padding, dims), strict=True)]
        spread = _ended(b, _spread(b, x, steps), steps, each(output_padding, dims))
        for place, missing in enumerate(around):
            if missing < 0:
                extent = b.type(spread).shape[place + 2]
                spread = part(b, spread, place + 2, -missing, extent + missing)
        around = [max(missing, 0) for missing in around]
        turned = _turned(b, weight, groups)
        ones, zeros = [1] * dims, [0] * dims
        y = b("aten.convolution.default", spread, turned, None, ones, around, apart, False, zeros, groups)
        return y if bias is None else b("aten.add.Tensor", y, per_channel(b, bias, dims))

    return of_batches(dims, formula)


def with_gaps(b: Builder, x: Ref, dim: int, step: int) -> Ref:
    """Puts `step - 1` zeros behind every element along a dim."""
    shape = b.shape(x)
    wide = padded(b, b("aten.unsqueeze.default", x, dim + 1), dim + 1, 0, step - 1)
    return b("aten.view.default", wide, [*shape[:dim], shape[dim] * step, *shape[dim + 1 :]])


def _spread(b: Builder, x: Ref, steps: list[int]) -> Ref:
    """Puts zeros behind every element along each dim of space: one less than the dim's step."""
    if set(steps) == {1}:
        return x
    images, channels, *space = b.type(x).shape
    for place in range(len(steps)):
        x = b("aten.unsqueeze.default", x, 2 * place + 3)
    behind = [amount for step in reversed(steps) for amount in (0, step - 1, 0, 0)]
    wide = b("aten.constant_pad_nd.default", x, behind, 0.0)
    extents = [extent * step for extent, step in zip(space, steps, strict=True)]
    return b("aten.view.default", wide, [images, channels, *extents])


def _ended(b: Builder, x: Ref, steps: list[int], more: list[int]) -> Ref:
    """Changes the number of zeros behind the last element of each dim, which is `step - 1`, to `more`."""
    for place, (step, wanted) in enumerate(zip(steps, more, strict=True)):
        dim, missing = place + 2, wanted - (step - 1)
        if missing < 0:
            x = part(b, x, dim, 0, b.type(x).shape[dim] + missing)
        elif missing > 0:
            x = padded(b, x, dim, 0, missing)
    return x


def _turned(b: Builder, weight: Ref, groups: int) -> Ref:
    """Reverses the window along each dim, and swaps the channels of input and result within each group."""
    for dim in range(2, b.rank(weight)):
        size = b.type(weight).shape[dim]
        if size > 1:
            backward = [part(b, weight, dim, place, place + 1) for place in reversed(range(size))]
            weight = b("aten.cat.default", backward, dim)
    channels, out, *window = b.type(weight).shape
    if groups == 1:
        return b("aten.transpose.int", weight, 0, 1)
    split = b("aten.view.default", weight, [groups, channels // groups, out, *window])
    return reshape(b, b("aten.transpose.int", split, 1, 2), [groups * out, channels // groups, *window])


def transposed_convolution(
    b: Builder, x: Ref, weight: Ref, bias: Ref | None, stride: list[int], padding: list[int], dilation: list[int],
    output_padding: list[int], groups: int,
) -> Ref:  # fmt: skip
    dims = b.rank(weight) - 2
    return _transposed(dims)(b, x, weight, bias, stride, padding, output_padding, groups, dilation)


def _convolution(dims: int) -> Formula:
    def formula(
        b: Builder, x: Ref, weight: Ref, bias: Ref | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
        dilation: Sizes = 1, groups: int = 1,
    ) -> Ref:  # fmt: skip
        own = b.dtype(x)
        if own in BYTES:  # the importer ends the process on bytes; the low 8 bits of wider sums are right
            wide = cast(b, x, torch.int16), cast(b, weight, torch.int16)
            return cast(b, formula(b, *wide, bias, stride, padding, dilation, groups), own)
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

    return of_batches(dims, formula)


def _is_apart(b: Builder, x: Ref, groups: int) -> bool:
    """True if each group becomes a convolution of its own: torch-mlir has no convolution of volumes with one channel in
    each group."""
    return b.rank(x) == 5 and groups > 1 and b.type(x).shape[1] == groups


def _groups(b: Builder, x: Ref, weight: Ref, groups: int) -> list[tuple[Ref, Ref]]:
    """The channels and the weights of each group."""
    inside, outside = (b.type(each).shape[dim] // groups for each, dim in ((x, 1), (weight, 0)))
    return [
        (
            part(b, x, 1, place * inside, (place + 1) * inside),
            part(b, weight, 0, place * outside, (place + 1) * outside),
        )
        for place in range(groups)
    ]


def _same(b: Builder, x: Ref, weight: Ref, dilation: list[int]) -> tuple[Ref, list[int]]:
    """Returns `x` and the padding that keeps the extents. If the padding of a dim is odd in total, its extra element is
    added behind, in a copy."""
    total = [apart * (size - 1) for apart, size in zip(dilation, b.type(weight).shape[2:], strict=True)]
    if any(each % 2 for each in total):
        behind = [amount for each in reversed(total) for amount in (0, each % 2)]
        x = b("aten.constant_pad_nd.default", x, behind, 0.0)
    return x, [each // 2 for each in total]


def _every(b: Builder, x: Ref, steps: list[int]) -> Ref:
    """A view of the elements that a window of one element reads as it moves in steps."""
    for dim, step in enumerate(steps):
        if step > 1:
            x = b("aten.slice.Tensor", x, dim + 2, 0, b.type(x).shape[dim + 2], step)
    return x


def convolution(
    b: Builder, x: Ref, weight: Ref, bias: Ref | None, stride: list[int], padding: list[int], dilation: list[int],
    transposed: bool, output_padding: list[int], groups: int,
) -> Ref | None:  # fmt: skip
    """The op that all convolutions become. None if the node can stay: it is not transposed, has no bias, and the
    importer takes it."""
    if transposed:
        return transposed_convolution(b, x, weight, bias, stride, padding, dilation, output_padding, groups)
    dims = b.rank(x) - 2
    moved = set(b.type(weight).shape[2:]) == {1} and set(padding) == {0} and set(stride) != {1}
    if bias is None and not moved and not _is_apart(b, x, groups) and b.dtype(x) not in BYTES:
        return None
    return _convolution(dims)(b, x, weight, bias, stride, padding, dilation, groups)


def unfolded_windows(b: Builder, x: Ref, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Ref:
    """im2col: a column with the elements of each window. The elements at one place of all windows are a slice of the
    image."""
    kernel, dilation, padding, stride = (each(given, 2) for given in (kernel, dilation, padding, stride))
    around = [size for border in reversed(padding) for size in (border, border)]
    framed = b("aten.constant_pad_nd.default", x, around, 0) if any(around) else x
    images, channels, *space = b.type(framed).shape
    counts = [
        (extent - apart * (size - 1) - 1) // step + 1
        for extent, apart, size, step in zip(space, dilation, kernel, stride, strict=True)
    ]
    found = [each for _, each in window_slices(b, framed, kernel, dilation, stride, counts)]
    stacked = b("aten.stack.default", found, 2)
    return b("aten.view.default", stacked, [images, channels * math.prod(kernel), math.prod(counts)])


def window_slices(
    b: Builder, x: Ref, kernel: list[int], dilation: list[int], stride: list[int], counts: list[int]
) -> Iterator[tuple[tuple[int, ...], Ref]]:
    """Yields each place of the window, and the slice of the image that has the element at this place of every
    window."""
    for offsets in itertools.product(*(range(0, n * apart, apart) for n, apart in zip(kernel, dilation, strict=True))):
        found = x
        for dim, (begin, count, step) in enumerate(zip(offsets, counts, stride, strict=True)):
            found = part(b, found, dim + 2, begin, begin + (count - 1) * step + 1, step)
        yield offsets, found


def folded_windows(
    b: Builder, x: Ref, size: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Ref:
    """col2im: adds the elements of each window at their places in an image, by a transposed convolution. Its weights
    for one place of the window are 1 at this place and 0 elsewhere."""
    size, kernel, dilation, padding, stride = (each(given, 2) for given in (size, kernel, dilation, padding, stride))
    places, (images, rows, _) = math.prod(kernel), b.type(x).shape
    reach = [
        extent + 2 * border - apart * (window - 1) - 1
        for extent, border, apart, window in zip(size, padding, dilation, kernel, strict=True)
    ]
    counts, left = zip(*(divmod(extent, step) for extent, step in zip(reach, stride, strict=True)), strict=True)
    counts = [count + 1 for count in counts]
    windows = reshape(b, x, [images * rows // places, places, *counts])
    ones = b("aten.eye.default", places, dtype=b.dtype(compute(b, x)), device=CPU)
    ones = b("aten.view.default", ones, [places, 1, *kernel])
    result = transposed_convolution(b, compute(b, windows), ones, None, stride, padding, dilation, list(left), 1)
    return b("aten.view.default", result, [images, rows // places, *size])


def convolution_backward(
    b: Builder, gradient: Ref, x: Ref, weight: Ref, bias_sizes: list[int] | None, stride: list[int], padding: list[int],
    dilation: list[int], transposed: bool, output_padding: list[int], groups: int, mask: list[bool],
) -> tuple[Ref | None, ...]:  # fmt: skip
    """The gradient of the input: a convolution of the gradient with the reversed window. The gradient of the weights: a
    convolution of the input with the gradient as the window. For a transposed convolution the two exchange roles."""
    dims = b.rank(x) - 2
    stride, padding, dilation = (each(given, dims) for given in (stride, padding, dilation))
    gradient, x, weight = (compute(b, given) for given in (gradient, x, weight))
    moves, pair = (stride, padding, dilation), (gradient, x) if transposed else (x, gradient)

    def of_input() -> Ref:
        if transposed:
            return b("aten.convolution.default", gradient, weight, None, *moves, False, [0] * dims, groups)
        left = _left_out(b, x, weight, gradient, *moves)
        return transposed_convolution(b, gradient, weight, None, *moves, left, groups)

    return asked_for(
        mask,
        of_input,
        lambda: _of_weights(b, *pair, b.shape(weight), moves, groups),
        lambda: b("aten.sum.dim_IntList", gradient, [0, *range(2, dims + 2)], False),
    )


def _left_out(
    b: Builder, x: Ref, weight: Ref, gradient: Ref, stride: list[int], padding: list[int], dilation: list[int]
) -> list[int]:
    """The number of the input's last rows that no window reached, along each dim."""
    extents = zip(b.shape(x)[2:], b.shape(weight)[2:], b.shape(gradient)[2:], stride, padding, dilation, strict=True)
    return [
        extent - ((windows - 1) * step - 2 * around + apart * (size - 1) + 1)
        for extent, size, windows, step, around, apart in extents
    ]


def _of_weights(
    b: Builder, x: Ref, gradient: Ref, shape: list[int], moves: tuple[list[int], list[int], list[int]], groups: int
) -> Ref:
    """The gradient of the weights, by a convolution in which images take the place of channels, so that it sums over
    images."""
    if not b.type(x).numel:  # in PyTorch a convolution without input channels has no channels in its result
        return full(b, shape, 0.0, dtype=b.dtype(x))
    (stride, padding, dilation), dims = moves, len(shape) - 2
    images, channels, *space = b.type(x).shape
    inside = channels // groups
    if groups > 1:
        split = reshape(b, x, [images, groups, inside, *space])
        split = b("aten.permute.default", split, [2, 1, 0, *range(3, dims + 3)])
        batch = reshape(b, split, [inside, groups * images, *space])
    else:
        batch = b("aten.transpose.int", x, 0, 1)
    window = b("aten.transpose.int", gradient, 0, 1)
    result = b("aten.convolution.default", batch, window, None, dilation, padding, stride, False, [0] * dims, groups)
    for place, size in enumerate(shape[2:]):
        result = part(b, result, place + 2, 0, size)
    return b("aten.transpose.int", result, 0, 1)


FORMULAS: dict[str, Formula] = {
    "aten.conv_transpose1d.default": _transposed(1),
    **{f"aten.conv_transpose{dims}d.input": _transposed(dims) for dims in (2, 3)},
    "aten.convolution.default": convolution,
    "aten.im2col.default": of_batches(2, unfolded_windows),
    "aten.col2im.default": of_batches(1, folded_windows),
    **{f"aten.conv{dims}d.{kind}": _convolution(dims) for dims in (1, 2, 3) for kind in ("default", "padding")},
    "aten.convolution_backward.default": convolution_backward,
}
