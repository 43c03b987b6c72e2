"""Backward passes of convolutions, pools and interpolation: windows again, that go the other way."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workbench.formulas.formula_builder import Builder, Formula, compute
from workbench.formulas.gradients import asked_for
from workbench.formulas.known_contents import counted, full
from workbench.formulas.layout_changes import each, reshape
from workbench.formulas.moving import part
from workbench.formulas.resampling import weights_along
from workbench.formulas.transposed import transposed_convolution
from workbench.ir import Ref
from workbench.tensors.element_types import to_dtype

Sizes = list[int]


def convolution(
    b: Builder, gradient: Ref, x: Ref, weight: Ref, bias_sizes: Sizes | None, stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int, mask: list[bool],
) -> tuple[Ref | None, ...]:  # fmt: skip
    """Of the input: the window turned around and moved over the gradient. Of the weights: the gradient as a window that
    is moved over the input. A transposed convolution has both the other way round."""
    dims = b.rank(x) - 2
    stride, padding, dilation = (each(given, dims) for given in (stride, padding, dilation))
    gradient, x, weight = (compute(b, given) for given in (gradient, x, weight))
    made: list[Ref | None] = [None, None, None]
    if mask[0] and transposed:
        made[0] = b(_CONVOLUTION, gradient, weight, None, stride, padding, dilation, False, [0] * dims, groups)
    elif mask[0]:
        left = _left_out(b, x, weight, gradient, stride, padding, dilation)
        made[0] = transposed_convolution(b, gradient, weight, None, stride, padding, dilation, left, groups)
    if mask[1]:
        pair = (gradient, x) if transposed else (x, gradient)
        made[1] = _of_weights(b, *pair, list(b.type(weight).shape), (stride, padding, dilation), groups)
    if mask[2]:
        made[2] = b("aten.sum.dim_IntList", gradient, [0, *range(2, dims + 2)], False)
    return asked_for(made, mask)


_CONVOLUTION = "aten.convolution.default"


def _left_out(
    b: Builder, x: Ref, weight: Ref, gradient: Ref, stride: Sizes, padding: Sizes, dilation: Sizes
) -> list[int]:
    """How many of the input's last rows no window reached."""
    found: list[int] = []
    for place, (step, around, apart) in enumerate(zip(stride, padding, dilation, strict=True)):
        size, windows = b.type(weight).shape[place + 2], b.type(gradient).shape[place + 2]
        reached = (windows - 1) * step - 2 * around + apart * (size - 1) + 1
        found.append(b.type(x).shape[place + 2] - reached)
    return found


def _of_weights(
    b: Builder, x: Ref, gradient: Ref, shape: list[int], moves: tuple[Sizes, Sizes, Sizes], groups: int
) -> Ref:
    """Images take the part of channels: each group's channels are a batch, and its images are summed over."""
    (stride, padding, dilation), dims = moves, len(shape) - 2
    images, channels, *space = b.type(x).shape
    inside = channels // groups
    if groups > 1:
        split = b(
            "aten.permute.default", reshape(b, x, [images, groups, inside, *space]), [2, 1, 0, *range(3, dims + 3)]
        )
        batch = reshape(b, split, [inside, groups * images, *space])
    else:
        batch = b("aten.transpose.int", x, 0, 1)
    window = b("aten.transpose.int", gradient, 0, 1)
    made = b(_CONVOLUTION, batch, window, None, dilation, padding, stride, False, [0] * dims, groups)
    for place, size in enumerate(shape[2:]):
        made = part(b, made, place + 2, 0, size)
    return b("aten.transpose.int", made, 0, 1)


def average_pool(
    b: Builder, gradient: Ref, x: Ref, kernel: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool,
    with_padding: bool, divisor: int | None,
) -> Ref | None:  # fmt: skip
    """Each window's gradient, shared by its elements."""
    dims = len(b.type(gradient).shape[2:])
    if b.rank(x) == dims + 1 or b.rank(x) not in (3, 4, 5):
        return None
    kernel = each(kernel, dims)
    stride, padding = each(stride or kernel, dims), each(padding, dims)
    shared = compute(b, gradient)
    if divisor is not None:
        shared = b("aten.mul.Tensor", shared, 1.0 / divisor)
    else:
        for place in range(dims):
            window = (b.type(x).shape[place + 2], kernel[place], stride[place], padding[place])
            shared = _shared(b, shared, place + 2, window, with_padding=with_padding)
    return _spread_windows(b, shared, list(b.type(x).shape), kernel, stride, padding)


def _shared(b: Builder, gradient: Ref, dim: int, window: tuple[int, int, int, int], *, with_padding: bool) -> Ref:
    """Divided by the number of elements of each window along a dim."""
    extent, size, step, around = window
    count = b.type(gradient).shape[dim]
    begins = [place * step - around for place in range(count)]
    ends = [min(begin + size, extent + around) for begin in begins]
    if with_padding:
        sizes = [end - begin for begin, end in zip(begins, ends, strict=True)]
    else:
        sizes = [min(end, extent) - max(begin, 0) for begin, end in zip(begins, ends, strict=True)]
    if len({*sizes}) == 1:
        return b("aten.mul.Tensor", gradient, 1.0 / sizes[0])
    begin = b("aten.add.Scalar", b("aten.mul.Scalar", counted(b, count), step), -around)
    end = b("aten.clamp_max.default", b("aten.add.Scalar", begin, size), extent + around)
    if not with_padding:
        begin, end = b("aten.clamp_min.default", begin, 0), b("aten.clamp_max.default", end, extent)
    sizes_there = b("aten._to_copy.default", b("aten.sub.Tensor", end, begin), dtype=to_dtype(b.type(gradient).dtype))
    column = [count, *[1] * (b.rank(gradient) - dim - 1)]
    return b("aten.div.Tensor", gradient, b("aten.view.default", sizes_there, column))


def _spread_windows(b: Builder, shared: Ref, shape: list[int], kernel: Sizes, stride: Sizes, padding: Sizes) -> Ref:
    """Each number at all places of its window; what windows share is added up."""
    images, channels, *space = shape
    found = list(b.type(shared).shape[2:])
    if kernel == stride and not any(padding):
        for place in range(len(space)):
            shared = b("aten.unsqueeze.default", shared, 2 * place + 3)
        wide = [extent for pair in zip(found, kernel, strict=True) for extent in pair]
        spread = b("aten.expand.default", shared, [images, channels, *wide])
        whole = [extent * size for extent, size in zip(found, kernel, strict=True)]
        return _fitted(b, reshape(b, spread, [images, channels, *whole]), space)
    dims = len(space)
    dtype = to_dtype(b.type(shared).dtype)
    single = reshape(b, shared, [images * channels, 1, *found])
    ones = full(b, [1, 1, *kernel], 1.0, dtype=dtype)
    reached = [(n - 1) * step + size for n, step, size in zip(found, stride, kernel, strict=True)]
    made = transposed_convolution(b, single, ones, None, stride, [0] * dims, [1] * dims, [0] * dims, 1)
    made = b("aten.view.default", made, [images, channels, *reached])
    for place, around in enumerate(padding):
        if around:
            made = part(b, made, place + 2, around, b.type(made).shape[place + 2])
    return _fitted(b, made, space)


def _fitted(b: Builder, x: Ref, space: Sequence[int]) -> Ref:
    """Cut off, or with zeros added, at the end of each dim."""
    for place, extent in enumerate(space):
        dim, found = place + 2, b.type(x).shape[place + 2]
        if found > extent:
            x = part(b, x, dim, 0, extent)
        elif found < extent:
            behind = [0, 0] * (b.rank(x) - dim - 1) + [0, extent - found]
            x = b("aten.constant_pad_nd.default", x, behind, 0.0)
    return x


def adaptive_average_pool(b: Builder, gradient: Ref, x: Ref) -> Ref | None:
    """As above where all windows have one size; else a product with the share that each element has in each window."""
    if b.rank(x) != 4:
        return None
    space, wanted = list(b.type(x).shape[2:]), list(b.type(gradient).shape[2:])
    if all(extent % want == 0 for extent, want in zip(space, wanted, strict=True)):
        kernel = [extent // want for extent, want in zip(space, wanted, strict=True)]
        shared = b("aten.mul.Tensor", compute(b, gradient), 1.0 / (kernel[0] * kernel[1]))
        return _spread_windows(b, shared, list(b.type(x).shape), kernel, kernel, [0, 0])
    found = compute(b, gradient)
    rows, columns = (_shares(b, found, want, extent) for want, extent in zip(wanted, space, strict=True))
    return b("aten.matmul.default", b("aten.matmul.default", b("aten.t.default", rows), found), columns)


def _shares(b: Builder, like: Ref, windows: int, extent: int) -> Ref:
    """A row for each window: what each element counts in its mean."""
    place, element = b("aten.unsqueeze.default", counted(b, windows), 1), counted(b, extent)
    begin = b("aten.floor_divide.Scalar", b("aten.mul.Scalar", place, extent), windows)
    end = b("aten.add.Scalar", b("aten.mul.Scalar", b("aten.add.Scalar", place, 1), extent), windows - 1)
    end = b("aten.floor_divide.Scalar", end, windows)
    inside = b("aten.logical_and.default", b("aten.ge.Tensor", element, begin), b("aten.lt.Tensor", element, end))
    dtype = to_dtype(b.type(like).dtype)
    size = b("aten._to_copy.default", b("aten.sub.Tensor", end, begin), dtype=dtype)
    return b("aten.div.Tensor", b("aten._to_copy.default", inside, dtype=dtype), size)


def max_pool_with_indices(
    b: Builder, x: Ref, kernel: Sizes, stride: Sizes | None = None, padding: Sizes | int = 0,
    dilation: Sizes | int = 1, ceil_mode: bool = False,
) -> tuple[Ref, Ref | None]:  # fmt: skip
    """The largest number of each window, and its place in the image: the first of equal ones, or a NaN.

    A window is looked through place by place, each of which is a slice of the image for all windows at once.
    """
    dims = 2
    kernel, stride = each(kernel, dims), each(stride or kernel, dims)
    padding, dilation = each(padding, dims), each(dilation, dims)
    largest = b("aten.max_pool2d.default", x, kernel, stride, padding, dilation, ceil_mode)
    if b.rank(x) != 4 or to_dtype(b.type(x).dtype) not in (torch.float32, torch.float64):
        return largest, None
    windows = list(b.type(largest).shape[2:])
    height, width = b.type(x).shape[2:]
    reach = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(windows, stride, dilation, kernel, strict=True)]
    behind = [max(r - p - n, 0) for r, p, n in zip(reach, padding, (height, width), strict=True)]
    around = [padding[1], behind[1], padding[0], behind[0]]
    padded = b("aten.constant_pad_nd.default", x, around, -torch.inf) if any(around) else x
    shape, dtype = list(b.type(largest).shape), to_dtype(b.type(x).dtype)
    corner = _place(b, [_steps(b, *each_) for each_ in zip(windows, stride, padding, strict=True)], width)
    first = _first(b, windows, stride, padding, dilation, width) if any(padding) else corner
    best, index = full(b, shape, -torch.inf, dtype=dtype), first
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            at = (row * dilation[0], column * dilation[1])
            found = padded
            for dim, (begin, count, step) in enumerate(zip(at, windows, stride, strict=True)):
                found = part(b, found, dim + 2, begin, begin + (count - 1) * step + 1, step)
            better = b("aten.logical_or.default", b("aten.gt.Tensor", found, best), b("aten.ne.Tensor", found, found))
            place = b("aten.add.Scalar", corner, at[0] * width + at[1])
            best, index = (b("aten.where.self", better, new, old) for new, old in ((found, best), (place, index)))
    return largest, index


def _steps(b: Builder, count: int, step: int, around: int) -> Ref:
    """Along one dim, where each window begins in the image."""
    return b("aten.add.Scalar", b("aten.mul.Scalar", counted(b, count, torch.int64), step), -around)


def _first(b: Builder, windows: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, width: int) -> Ref:
    """The place of each window's first element that is inside of the image."""
    found: list[Ref] = []
    for count, step, around, apart in zip(windows, stride, padding, dilation, strict=True):
        begin = _steps(b, count, step, around)
        if around:
            outside = b("aten.clamp_min.default", b("aten.neg.default", begin), 0)
            jumps = b("aten.floor_divide.Scalar", b("aten.add.Scalar", outside, apart - 1), apart)
            begin = b("aten.add.Tensor", begin, b("aten.mul.Scalar", jumps, apart))
        found.append(begin)
    return _place(b, found, width)


def _place(b: Builder, rows_and_columns: Sequence[Ref], width: int) -> Ref:
    """The number of an element of each window, counted row by row."""
    rows, columns = rows_and_columns
    rows = b("aten.unsqueeze.default", b("aten.mul.Scalar", rows, width), 1)
    return b("aten.add.Tensor", rows, columns)


def max_pool(
    b: Builder, gradient: Ref, x: Ref, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
    ceil_mode: bool, indices: Ref,
) -> Ref | None:  # fmt: skip
    """Each window's gradient at the place of its largest number."""
    if b.rank(x) != 4:
        return None
    images, channels, height, width = b.type(x).shape
    count = b.type(gradient).shape[2] * b.type(gradient).shape[3]
    zeros = full(b, [images * channels, height * width], 0.0, dtype=to_dtype(b.type(compute(b, gradient)).dtype))
    flat = [reshape(b, each_, [images * channels, count]) for each_ in (indices, compute(b, gradient))]
    made = b("aten.scatter_add.default", zeros, 1, *flat)
    return b("aten.view.default", made, [images, channels, height, width])


def _interpolated(dims: int) -> Formula:
    """Interpolation is a product along each dim; its backward pass is one with the same weights."""

    def made(b: Builder, gradient: Ref, sizes: Sizes, shape: Sizes, align_corners: bool, *factors: float | None) -> Ref:
        found = compute(b, gradient)
        for axis in range(dims):
            extent, size = shape[axis + 2], sizes[axis]
            if extent != size:
                factor = factors[axis] if axis < len(factors) else None
                step = None if align_corners else (1.0 / factor if factor else extent / size)
                weights = weights_along(b, found, extent, size, step)
                moved = b("aten.transpose.int", found, axis + 2, -1)
                found = b("aten.transpose.int", b("aten.matmul.default", moved, weights), axis + 2, -1)
        return found

    return made


def _nearest(dims: int) -> Formula:
    """Where each element is repeated equally often, the sum of its copies."""

    def made(b: Builder, gradient: Ref, sizes: Sizes, shape: Sizes, *factors: float | None) -> Ref | None:
        space = shape[2:]
        if any(size % extent for size, extent in zip(sizes, space, strict=True)):
            return None
        times = [size // extent for size, extent in zip(sizes, space, strict=True)]
        if any(factor not in (None, float(count)) for factor, count in zip(factors, times, strict=False)):
            return None
        split = [extent for pair in zip(space, times, strict=True) for extent in pair]
        found = reshape(b, compute(b, gradient), [*shape[:2], *split])
        return b("aten.sum.dim_IntList", found, [2 * place + 3 for place in range(dims)], False)

    return made


FORMULAS: dict[str, Formula] = {
    "aten.convolution_backward.default": convolution,
    "aten.avg_pool2d_backward.default": average_pool,
    "aten._adaptive_avg_pool2d_backward.default": adaptive_average_pool,
    "aten.max_pool2d_with_indices.default": max_pool_with_indices,
    "aten.max_pool2d_with_indices_backward.default": max_pool,
    **{f"aten.upsample_{name}{dims}d_backward.default": _interpolated(dims)
       for name, dims in (("linear", 1), ("bilinear", 2), ("trilinear", 3))},
    **{f"aten.upsample_nearest{dims}d_backward.default": _nearest(dims) for dims in (1, 2, 3)},
}  # fmt: skip
