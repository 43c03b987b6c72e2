"""Images made larger or smaller, and the backward passes.

Nearest neighbours are a repetition or a slice if the sizes divide, else gathered rows and columns. Linear and cubic
interpolation is a product with a matrix of weights along each dim; the weights are computed from their places in the
matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from workbench.ir import Ref, TensorType
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.known_contents import counted, full
from workbench.operators.formulas.layout_changes import reshape
from workbench.operators.formulas.moving import part, repeat_interleave

Scale = float | None


def _sizes(b: Builder, x: Ref, wanted: list[int] | None, factors: Sequence[Scale] | None) -> list[int]:
    """The extents of the result's dims of space."""
    if wanted is not None:
        return list(wanted)
    given = factors or []
    return [int(n * (factor or 1.0)) for n, factor in zip(b.type(x).shape[2:], given, strict=True)]


def _steps(extents: Sequence[int], sizes: Sequence[int], factors: Sequence[Scale]) -> list[float]:
    """For each dim, the distance in the source between two neighbours of the result: by the scale factor if there is
    one, else by the sizes."""
    every = [*factors, *[None] * (len(sizes) - len(factors))]
    return [1.0 / factor if factor else n / size for n, size, factor in zip(extents, sizes, every, strict=True)]


def nearest(b: Builder, x: Ref, sizes: list[int], *factors: Scale, middle: bool = False) -> Ref:
    """Picks the nearest elements dim by dim, first along the dims for which a slice will do. With `middle` the middle
    of an element is its place, not its start."""
    steps, found = _steps(b.shape(x)[2:], sizes, factors), x
    rest: list[tuple[int, float, list[int]]] = []
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        places = source_places(b.type(x).shape[axis + 2], size, step, 0.5 if middle else 0.0)
        every = places[1] - places[0] if size > 1 else 1
        if every > 0 and places == [places[0] + every * place for place in range(size)]:
            found = part(b, found, axis + 2, places[0], places[-1] + 1, every)
        else:
            rest.insert(0, (axis + 2, step, places))
    for dim, step, places in rest:
        found = _picked(b, found, dim, places, step, 0.5 if middle else 0.0)
    return found if rest else b("aten.clone.default", found, memory_format=torch.contiguous_format)


def source_places(extent: int, size: int, step: float, shift: float) -> list[int]:
    """The place in the source of each element, computed in single precision as PyTorch does."""
    if size in (extent, 2 * extent) and not shift:
        return [place * extent // size for place in range(size)]  # whatever the scale factor
    exact = (np.arange(size, dtype=np.float32) + np.float32(shift)) * np.float32(step)
    return np.minimum(np.floor(exact).astype(np.int64), extent - 1).tolist()


def _picked(b: Builder, x: Ref, dim: int, places: list[int], step: float, shift: float) -> Ref:
    """The elements at `places`: a repetition if each element is repeated equally often, else a gather from places that
    a kernel computes."""
    extent, size = b.type(x).shape[dim], len(places)
    if size % extent == 0 and places == [place // (size // extent) for place in range(size)]:
        return repeat_interleave(b, x, size // extent, dim)
    return b("aten.index_select.default", x, dim, counted_places(b, extent, size, step, shift))


def counted_places(b: Builder, extent: int, size: int, step: float, shift: float) -> Ref:
    """The result of `source_places` as a tensor."""
    where = b("aten.mul.Scalar", b("aten.add.Scalar", counted(b, size, torch.float32), shift), float(np.float32(step)))
    inside = b("aten.clamp_max.default", b("aten.floor.default", where), extent - 1)
    return b("aten._to_copy.default", inside, dtype=torch.int64)


def linear(
    b: Builder, x: Ref, sizes: list[int], align_corners: bool, *factors: Scale, cubic: bool = False
) -> Ref | None:
    if not b.dtype(x).is_floating_point:
        return None
    steps, found = _steps(b.shape(x)[2:], sizes, factors), compute(b, x)
    for axis in reversed(range(len(sizes))):
        if sizes[axis] != b.type(x).shape[axis + 2]:  # PyTorch copies an image of equal size, at any scale
            step = None if align_corners else steps[axis]
            along = cubic_weights_along if cubic else weights_along
            weights = along(b, found, b.type(x).shape[axis + 2], sizes[axis], step)
            found = product_along(b, found, axis + 2, weights)
    last_is_view = b.type(found).strides != TensorType.dense(b.type(found).shape, "f32").strides
    return b("aten.clone.default", found, memory_format=torch.contiguous_format) if last_is_view else found


def weights_along(b: Builder, x: Ref, extent: int, size: int, step: float | None) -> Ref:
    """A row of weights for each element of the result: 1 at its place in the source, falling to 0 at the next
    neighbours.

    Without a step, the corner elements of source and result coincide; with a step, their outer edges do. `x` has the
    type to compute in.
    """
    dtype = b.dtype(x)
    source = _source(b, extent, size, step, dtype)
    inside = b("aten.unsqueeze.default", b("aten.clamp.default", source, 0, extent - 1), 1)
    distance = b("aten.abs.default", b("aten.sub.Tensor", inside, counted(b, extent, dtype)))
    return b("aten.clamp_min.default", b("aten.rsub.Scalar", distance, 1.0), 0)


def cubic_weights_along(b: Builder, x: Ref, extent: int, size: int, step: float | None) -> Ref:
    """Weights along a cubic curve through four neighbours; beyond the border the outermost element counts again."""
    dtype = b.dtype(x)
    source = b("aten.unsqueeze.default", _source(b, extent, size, step, dtype), 1)
    before = b("aten.floor.default", source)
    beyond, result = b("aten.sub.Tensor", source, before), None
    for neighbour in (-1, 0, 1, 2):
        distance = b("aten.abs.default", b("aten.sub.Scalar", beyond, neighbour))
        weight = _polynomial(b, distance, _NEAR if neighbour in (0, 1) else _FAR)
        place = b("aten.clamp.default", b("aten.add.Scalar", before, neighbour), 0, extent - 1)
        there = b("aten.eq.Tensor", place, counted(b, extent, dtype))
        share = b("aten.where.ScalarOther", there, weight, 0.0)
        result = share if result is None else b("aten.add.Tensor", result, share)
    assert result is not None
    return result


_BEND = -0.75
_NEAR, _FAR = (_BEND + 2, -_BEND - 3, 0.0, 1.0), (_BEND, -5 * _BEND, 8 * _BEND, -4 * _BEND)
"""Coefficients of the cubic curve, highest power first: up to a distance of 1, and from 1 to 2."""


def _polynomial(b: Builder, x: Ref, factors: Sequence[float]) -> Ref:
    result = b("aten.mul.Scalar", x, factors[0])
    for factor in factors[1:-1]:
        result = b("aten.mul.Tensor", b("aten.add.Scalar", result, factor), x)
    return b("aten.add.Scalar", result, factors[-1])


def _source(b: Builder, extent: int, size: int, step: float | None, dtype: torch.dtype) -> Ref:
    """The place in the source of each element of the result."""
    place = counted(b, size, dtype)
    if step is None:
        return b("aten.mul.Scalar", place, (extent - 1) / (size - 1) if size > 1 else 0.0)
    return b("aten.sub.Scalar", b("aten.mul.Scalar", b("aten.add.Scalar", place, 0.5), step), 0.5)


def product_along(b: Builder, x: Ref, dim: int, weights: Ref) -> Ref:
    """Multiplies `x` with the weights along a dim: from the right for the last dim, from the left for the others."""
    rank = b.rank(x)
    if dim == rank - 1:
        return b("aten.matmul.default", x, b("aten.permute.default", weights, [1, 0]))
    if dim == rank - 2:
        return b("aten.matmul.default", weights, x)
    swapped = b("aten.transpose.int", x, dim, rank - 2)
    return b("aten.transpose.int", b("aten.matmul.default", weights, swapped), dim, rank - 2)


def _nearest_vec(
    b: Builder, x: Ref, sizes: list[int] | None, factors: list[float] | None = None, *, middle: bool = False
) -> Ref:
    return nearest(b, x, _sizes(b, x, sizes, factors), *(factors or ()), middle=middle)


def _linear_vec(
    b: Builder, x: Ref, sizes: list[int] | None, align_corners: bool, factors: list[float] | None = None,
    *, cubic: bool = False,
) -> Ref | None:  # fmt: skip
    return linear(b, x, _sizes(b, x, sizes, factors), align_corners, *(factors or ()), cubic=cubic)


def _interpolated_backward(along: Formula) -> Formula:
    """The backward pass of interpolation: a product along each dim with the weights of the forward pass."""

    def formula(
        b: Builder, gradient: Ref, sizes: list[int], shape: list[int], align_corners: bool, *factors: Scale
    ) -> Ref:
        found, extents = compute(b, gradient), shape[2:]
        for axis, step in enumerate(_steps(extents, sizes, factors)):
            if extents[axis] != sizes[axis]:
                weights = along(b, found, extents[axis], sizes[axis], None if align_corners else step)
                moved = b("aten.transpose.int", found, axis + 2, -1)
                found = b("aten.transpose.int", b("aten.matmul.default", moved, weights), axis + 2, -1)
        return found

    return formula


def _nearest_backward(shift: float) -> Formula:
    """Adds up the gradients of each element's copies: by a sum over neighbours if all elements have equally many
    copies, else by adding each gradient at the place that its element comes from."""

    def formula(b: Builder, gradient: Ref, sizes: list[int], shape: list[int], *factors: Scale) -> Ref:
        found = compute(b, gradient)
        for axis, step in enumerate(_steps(shape[2:], sizes, factors)):
            extent, size = shape[axis + 2], sizes[axis]
            places = source_places(extent, size, step, shift)
            if places == [place * extent // size for place in range(size)] and size % extent == 0:
                split = b.shape(found)
                split[axis + 2 : axis + 3] = [extent, size // extent]
                if size > extent:
                    found = b("aten.sum.dim_IntList", reshape(b, found, split), [axis + 3], False)
                continue
            zeros = b.shape(found)
            zeros[axis + 2] = extent
            start = full(b, zeros, 0.0, dtype=b.dtype(found))
            found = b("aten.index_add.default", start, axis + 2, counted_places(b, extent, size, step, shift), found)
        return found

    return formula


FORMULAS: dict[str, Formula] = {
    "aten.upsample_bicubic2d.default": partial(linear, cubic=True),
    "aten.upsample_bicubic2d.vec": partial(_linear_vec, cubic=True),
    "aten.upsample_bicubic2d_backward.default": _interpolated_backward(cubic_weights_along),
}
for _rank, _name in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    FORMULAS.update(
        {
            f"aten.upsample_nearest{_rank}d.default": nearest,
            f"aten.upsample_nearest{_rank}d.vec": _nearest_vec,
            f"aten.upsample_nearest{_rank}d_backward.default": _nearest_backward(0.0),
            f"aten._upsample_nearest_exact{_rank}d.default": partial(nearest, middle=True),
            f"aten._upsample_nearest_exact{_rank}d.vec": partial(_nearest_vec, middle=True),
            f"aten._upsample_nearest_exact{_rank}d_backward.default": _nearest_backward(0.5),
            f"aten.upsample_{_name}{_rank}d.default": linear,
            f"aten.upsample_{_name}{_rank}d.vec": _linear_vec,
            f"aten.upsample_{_name}{_rank}d_backward.default": _interpolated_backward(weights_along),
        }
    )
