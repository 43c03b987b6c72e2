"""Pools: the largest number, or the average, of each window. Adaptive pools choose the windows that give a wanted
shape."""

from __future__ import annotations

import math
from functools import partial

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import renamed
from workbench.operators.formulas.formula_builder import HALF, Builder, Formula, compute
from workbench.operators.formulas.known_contents import full
from workbench.operators.formulas.layout_changes import each, of_batches, reshape
from workbench.operators.formulas.moving import part
from workbench.operators.formulas.reductions import mean

Sizes = int | list[int]


def _pool(op: str, dims: int) -> Formula:
    """The formula of a pool: one image becomes a batch of one, and without a stride windows lie beside each other.

    Averages of 16-bit floats are computed in float32, maxima of unsigned bytes in int32: MLIR would compare the bytes
    as signed. None if the node can stay.
    """

    def formula(b: Builder, x: Ref, *given: Sizes, **kwargs: object) -> Ref | None:
        args: list[Sizes] = [each(value, dims) if isinstance(value, list) and value else value for value in given]
        if args[1:] and not args[1]:
            args[1] = args[0]  # windows beside each other
        if args != list(given):
            return b(op, x, *args, **kwargs)
        if b.rank(x) == dims + 1:
            return b("aten.squeeze.dim", b(op, b("aten.unsqueeze.default", x, 0), *args, **kwargs), 0)
        if "avg" in op and b.dtype(x) in HALF:
            return b(op, compute(b, x), *args, **kwargs)
        if b.type(x).dtype == "u8":
            return b(op, b("aten._to_copy.default", x, dtype=torch.int32), *args, **kwargs)
        return None

    return formula


def average_of_volumes(
    b: Builder, x: Ref, kernel: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    with_padding: bool = True, divisor: int | None = None,
) -> Ref:  # fmt: skip
    """Averages over height and width in each layer, then over the layers."""
    kernel = each(kernel, 3)
    stride, padding = each(stride or kernel, 3), each(padding, 3)
    x, count = compute(b, x), None if divisor is None else 1
    images, channels, depth, *space = b.type(x).shape
    layers = reshape(b, x, [images, channels * depth, *space])
    rest = (ceil_mode, with_padding, count)
    layers = b("aten.avg_pool2d.default", layers, kernel[1:], stride[1:], padding[1:], *rest)
    height, width = b.type(layers).shape[2:]
    layers = reshape(b, layers, [images * channels, 1, depth, height * width])
    through = [[kernel[0], 1], [stride[0], 1], [padding[0], 0]]
    result = b("aten.avg_pool2d.default", layers, *through, *rest)
    result = b("aten.view.default", result, [images, channels, b.type(result).shape[2], height, width])
    return result if divisor is None else b("aten.mul.Tensor", result, 1.0 / divisor)


def _adaptive_average(dims: int) -> Formula:
    def formula(b: Builder, x: Ref, size: Sizes) -> Ref:
        return _adapted(
            b, x, adapted_extents(b, x, size, dims), f"aten.avg_pool{dims}d.default", partial(mean, keepdim=True)
        )

    return formula


def adaptive_maximum(b: Builder, x: Ref, size: list[int]) -> Ref:
    return _adapted(b, x, size, f"aten.max_pool{len(size)}d.default", renamed("aten.amax.default", True))


def adapted_extents(b: Builder, x: Ref, size: Sizes, dims: int) -> list[int]:
    """The wanted extents; None stands for the extent of `x`."""
    extents = b.type(x).shape[-dims:]
    return [extent if want is None else want for want, extent in zip(each(size, dims), extents, strict=True)]  # pyright: ignore[reportUnnecessaryComparison]


def unpooled(b: Builder, x: Ref, indices: Ref, size: Sizes) -> Ref:
    return placed(b, x, indices, each(size, 2), "aten.scatter.src")


def placed(b: Builder, x: Ref, places: Ref, space: list[int], scatter: str) -> Ref:
    """Writes each number at its place in an image of zeros."""
    outer = b.shape(x)[: -len(space)]
    rows, count = math.prod(outer), math.prod(b.shape(x)[-len(space) :])
    zeros = full(b, [rows, math.prod(space)], 0.0, dtype=b.dtype(x))
    flat = [reshape(b, each_, [rows, count]) for each_ in (places, x)]
    return b("aten.view.default", b(scatter, zeros, 1, *flat), [*outer, *space])


def _adapted(b: Builder, x: Ref, size: list[int], pool: str, reduced: Formula) -> Ref:
    """A reduction if one number is left, a pool along dims whose windows have one size, and a reduction of each window
    along the other dims."""
    if set(size) == {1}:
        return reduced(b, x, list(range(b.rank(x) - len(size), b.rank(x))))
    windows = [1] * len(size)
    for place, want in enumerate(size):
        dim = b.rank(x) - len(size) + place
        extent = b.type(x).shape[dim]
        if extent % want == 0:
            windows[place] = extent // want
        else:
            borders = [(i * extent // want, -(-(i + 1) * extent // want)) for i in range(want)]
            x = b("aten.cat.default", [reduced(b, part(b, x, dim, *border), [dim]) for border in borders], dim)
    return x if set(windows) == {1} else b(pool, x, windows, windows)


FORMULAS: dict[str, Formula] = {
    **{f"aten.{kind}_pool{dims}d.default": _pool(f"aten.{kind}_pool{dims}d.default", dims)
       for kind, dims in (("max", 1), ("max", 2), ("max", 3), ("avg", 1), ("avg", 2))},
    "aten.max_unpool2d.default": unpooled,
    **{f"aten.adaptive_avg_pool{dims}d.default": _adaptive_average(dims) for dims in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{dims}d.default": _adaptive_average(dims) for dims in (2, 3)},
    "aten.avg_pool3d.default": of_batches(3, average_of_volumes),
}  # fmt: skip
