"""Backward passes of pools, and the places of the largest numbers, which they read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import torch

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.known_contents import counted, full
from workbench.operators.formulas.layout_changes import each, of_batches, reshape
from workbench.operators.formulas.moving import padded, part
from workbench.operators.formulas.pools import adapted_extents, adaptive_maximum, placed
from workbench.operators.formulas.resampling import product_along
from workbench.operators.formulas.windows import transposed_convolution, window_slices

Sizes = list[int]


def _average_pool(dims: int) -> Formula:
    """The backward pass of an average pool: each window's gradient is shared by the window's elements."""

    def formula(
        b: Builder, gradient: Ref, x: Ref, kernel: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool,
        with_padding: bool, divisor: int | None,
    ) -> Ref:  # fmt: skip
        kernel = each(kernel, dims)
        stride, padding = each(stride or kernel, dims), each(padding, dims)
        shared = compute(b, gradient)
        if divisor is not None:
            shared = b("aten.mul.Tensor", shared, 1.0 / divisor)
        else:
            for place in range(dims):
                window = (b.type(x).shape[place + 2], kernel[place], stride[place], padding[place])
                shared = _shared(b, shared, place + 2, window, with_padding=with_padding)
        return _spread_windows(b, shared, b.shape(x), kernel, stride, padding)

    return of_batches(dims, formula, images=2)


def _shared(b: Builder, gradient: Ref, dim: int, window: tuple[int, int, int, int], *, with_padding: bool) -> Ref:
    """Divides the gradient by the number of elements of each window along a dim."""
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
    sizes_there = b("aten._to_copy.default", b("aten.sub.Tensor", end, begin), dtype=b.dtype(gradient))
    column = [count, *[1] * (b.rank(gradient) - dim - 1)]
    return b("aten.div.Tensor", gradient, b("aten.view.default", sizes_there, column))


def _spread_windows(b: Builder, shared: Ref, shape: list[int], kernel: Sizes, stride: Sizes, padding: Sizes) -> Ref:
    """Copies each number to all places of its window; where windows overlap, the copies are added up."""
    images, channels, *space = shape
    found = b.shape(shared)[2:]
    if kernel == stride and not any(padding):
        for place in range(len(space)):
            shared = b("aten.unsqueeze.default", shared, 2 * place + 3)
        wide = [extent for pair in zip(found, kernel, strict=True) for extent in pair]
        spread = b("aten.expand.default", shared, [images, channels, *wide])
        whole = [extent * size for extent, size in zip(found, kernel, strict=True)]
        return _fitted(b, reshape(b, spread, [images, channels, *whole]), space)
    dims = len(space)
    dtype = b.dtype(shared)
    single = reshape(b, shared, [images * channels, 1, *found])
    ones = full(b, [1, 1, *kernel], 1.0, dtype=dtype)
    reached = [(n - 1) * step + size for n, step, size in zip(found, stride, kernel, strict=True)]
    result = transposed_convolution(b, single, ones, None, stride, [0] * dims, [1] * dims, [0] * dims, 1)
    result = b("aten.view.default", result, [images, channels, *reached])
    for place, around in enumerate(padding):
        if around:
            result = part(b, result, place + 2, around, b.type(result).shape[place + 2])
    return _fitted(b, result, space)


def _fitted(b: Builder, x: Ref, space: Sequence[int]) -> Ref:
    """`x` cut off, or padded with zeros, at the end of each dim of space."""
    for place, extent in enumerate(space):
        dim, found = place + 2, b.type(x).shape[place + 2]
        x = part(b, x, dim, 0, extent) if found > extent else padded(b, x, dim, 0, extent - found)
    return x


def _adaptive_average_pool(dims: int) -> Formula:
    """The backward pass of an adaptive average pool. If all windows have one size, it is that of an average pool; else
    a product with the share that each element has in each window."""

    def formula(b: Builder, gradient: Ref, x: Ref) -> Ref:
        space, wanted = b.shape(x)[2:], b.shape(gradient)[2:]
        found = compute(b, gradient)
        if all(extent % want == 0 for extent, want in zip(space, wanted, strict=True)):
            kernel = [extent // want for extent, want in zip(space, wanted, strict=True)]
            shared = b("aten.mul.Tensor", found, 1.0 / math.prod(kernel))
            return _spread_windows(b, shared, b.shape(x), kernel, kernel, [0] * dims)
        for place, (want, extent) in enumerate(zip(wanted, space, strict=True)):
            found = product_along(b, found, place + 2, b("aten.t.default", _shares(b, found, want, extent)))
        return found

    return of_batches(dims, formula, images=2)


def _shares(b: Builder, like: Ref, windows: int, extent: int) -> Ref:
    """A matrix with a row for each window: the weight of each element in the window's mean."""
    begin, last = (b("aten.unsqueeze.default", border, 1) for border in _borders(b, windows, extent, torch.int32))
    element = counted(b, extent)
    inside = b("aten.logical_and.default", b("aten.ge.Tensor", element, begin), b("aten.le.Tensor", element, last))
    dtype = b.dtype(like)
    size = b("aten._to_copy.default", b("aten.add.Scalar", b("aten.sub.Tensor", last, begin), 1), dtype=dtype)
    return b("aten.div.Tensor", b("aten._to_copy.default", inside, dtype=dtype), size)


def _borders(b: Builder, windows: int, extent: int, dtype: torch.dtype) -> tuple[Ref, Ref]:
    """The first and the last element of each window along a dim. The windows differ in size by one at most."""
    place = counted(b, windows, dtype)
    behind = b("aten.sub.Scalar", b("aten.mul.Scalar", b("aten.add.Scalar", place, 1), extent), 1)
    first, last = (
        b("aten.floor_divide.Scalar", each_, windows) for each_ in (b("aten.mul.Scalar", place, extent), behind)
    )
    return first, last


def _max_pool_with_indices(dims: int) -> Formula:
    """The largest number of each window, and its place in the image: the first of equal ones, or a NaN.

    The formula goes through the places of a window. The elements at one place of all windows are a slice of the image.
    """

    def formula(
        b: Builder, x: Ref, kernel: Sizes, stride: Sizes | None = None, padding: Sizes | int = 0,
        dilation: Sizes | int = 1, ceil_mode: bool = False,
    ) -> tuple[Ref, Ref | None]:  # fmt: skip
        kernel, stride = each(kernel, dims), each(stride or kernel, dims)
        padding, dilation = each(padding, dims), each(dilation, dims)
        largest = b(f"aten.max_pool{dims}d.default", x, kernel, stride, padding, dilation, ceil_mode)
        if not b.dtype(x).is_floating_point:
            return largest, None
        windows, space = b.shape(largest)[2:], b.shape(x)[2:]
        reach = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(windows, stride, dilation, kernel, strict=True)]
        behind = [max(r - p - n, 0) for r, p, n in zip(reach, padding, space, strict=True)]
        around = [size for pair in zip(reversed(padding), reversed(behind), strict=True) for size in pair]
        x = compute(b, x)
        framed = b("aten.constant_pad_nd.default", x, around, -torch.inf) if any(around) else x
        corner = _place(b, [_steps(b, *each_) for each_ in zip(windows, stride, padding, strict=True)], space)
        first = _first(b, windows, stride, padding, dilation, space) if any(padding) else corner

        def pairs() -> Iterator[tuple[Ref, Ref]]:
            for offsets, found in window_slices(b, framed, kernel, dilation, stride, windows):
                yield found, b("aten.add.Scalar", corner, _number(offsets, space))

        return largest, _of_largest(b, b.shape(largest), first, pairs())

    return of_batches(dims, formula)


def _of_largest(b: Builder, shape: Sizes, first: Ref, pairs: Iterable[tuple[Ref, Ref]]) -> Ref:
    """The place of each window's largest number. A pair holds one number of every window, and the places of these
    numbers."""
    best: Ref | None = None
    index = first
    for found, place in pairs:
        if best is None:
            best = full(b, shape, -torch.inf, dtype=b.dtype(found))
        better = b("aten.logical_or.default", b("aten.gt.Tensor", found, best), b("aten.ne.Tensor", found, found))
        best, index = (b("aten.where.self", better, new, old) for new, old in ((found, best), (place, index)))
    return index


def _steps(b: Builder, count: int, step: int, around: int) -> Ref:
    """The place in the image at which each window begins, along one dim."""
    return b("aten.add.Scalar", b("aten.mul.Scalar", counted(b, count, torch.int64), step), -around)


def _first(b: Builder, windows: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, space: Sizes) -> Ref:
    """The place of each window's first element that is inside of the image."""
    found: list[Ref] = []
    for count, step, around, apart in zip(windows, stride, padding, dilation, strict=True):
        begin = _steps(b, count, step, around)
        if around:
            outside = b("aten.clamp_min.default", b("aten.neg.default", begin), 0)
            jumps = b("aten.floor_divide.Scalar", b("aten.add.Scalar", outside, apart - 1), apart)
            begin = b("aten.add.Tensor", begin, b("aten.mul.Scalar", jumps, apart))
        found.append(begin)
    return _place(b, found, space)


def _number(place: Sequence[int], space: Sizes) -> int:
    """The index of an element in the flattened image."""
    found = 0
    for at, extent in zip(place, space, strict=True):
        found = found * extent + at
    return found


def _place(b: Builder, along: Sequence[Ref], space: Sizes) -> Ref:
    """The index in the flattened image of one element of each window, from its places along each dim."""
    found, *rest = along
    for place, extent in zip(rest, space[1:], strict=True):
        found = b("aten.unsqueeze.default", b("aten.mul.Scalar", found, extent), -1)
        found = b("aten.add.Tensor", found, place)
    return found


def _adaptive_max_pool(dims: int) -> Formula:
    """The largest number of each window and its place. If all windows have one size, this is an ordinary pool; else
    gathers read the windows place by place, and smaller windows repeat their last elements."""

    def formula(b: Builder, x: Ref, size: Sizes) -> tuple[Ref, Ref | None]:
        space, wanted = b.shape(x)[2:], adapted_extents(b, x, size, dims)
        if all(extent % want == 0 for extent, want in zip(space, wanted, strict=True)):
            kernel = [extent // want for extent, want in zip(space, wanted, strict=True)]
            found = b.several(f"aten.max_pool{dims}d_with_indices.default", x, kernel, kernel)
            return found[0], found[1]
        largest = adaptive_maximum(b, x, wanted)
        if not b.dtype(x).is_floating_point:
            return largest, None
        x = compute(b, x)
        borders = [_borders(b, want, extent, torch.int64) for want, extent in zip(wanted, space, strict=True)]
        longest = [-(-extent // want) + (extent % want != 0) for extent, want in zip(space, wanted, strict=True)]

        def pairs() -> Iterator[tuple[Ref, Ref]]:
            for offsets in itertools.product(*map(range, longest)):
                at = [
                    b("aten.minimum.default", b("aten.add.Scalar", first, offset), last)
                    for (first, last), offset in zip(borders, offsets, strict=True)
                ]
                columns = [b("aten.view.default", place, [-1, *[1] * (dims - 1 - dim)]) for dim, place in enumerate(at)]
                yield b("aten.index.Tensor", x, [None, None, *columns]), _place(b, at, space)

        return largest, _of_largest(b, b.shape(largest), _place(b, [each_ for each_, _ in borders], space), pairs())

    return of_batches(dims, formula)


def _max_pool(dims: int) -> Formula:
    """The backward pass of a max pool: adds each window's gradient at the place of the window's largest number."""

    def formula(b: Builder, gradient: Ref, x: Ref, *given: object, indices: Ref | None = None) -> Ref:
        """The places are the last argument; the arguments before them, which describe the windows, are not needed."""
        places = indices if indices is not None else given[-1]
        assert isinstance(places, Ref)
        return placed(b, compute(b, gradient), places, b.shape(x)[-dims:], "aten.scatter_add.default")

    return formula


FORMULAS: dict[str, Formula] = {
    **{f"aten.avg_pool{dims}d_backward.default": _average_pool(dims) for dims in (2, 3)},
    **{f"aten._adaptive_avg_pool{dims}d_backward.default": _adaptive_average_pool(dims) for dims in (2, 3)},
    **{f"aten.max_pool{dims}d_with_indices.default": _max_pool_with_indices(dims) for dims in (1, 2, 3)},
    **{f"aten.max_pool{dims}d_with_indices_backward.default": _max_pool(dims) for dims in (2, 3)},
    **{f"aten.adaptive_max_pool{dims}d.default": _adaptive_max_pool(dims) for dims in (1, 2, 3)},
    **{f"aten.adaptive_max_pool{dims}d_backward.default": _max_pool(dims) for dims in (2, 3)},
}
