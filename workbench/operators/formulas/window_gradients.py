"""Backward passes of convolutions and interpolation: windows again, that go the other way."""

from __future__ import annotations

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula, compute
from workbench.operators.formulas.gradients import asked_for
from workbench.operators.formulas.known_contents import full
from workbench.operators.formulas.layout_changes import each, reshape
from workbench.operators.formulas.moving import part
from workbench.operators.formulas.resampling import counted_places, cubic_weights_along, source_places, weights_along
from workbench.operators.formulas.transposed import transposed_convolution
from workbench.operators.tensors.element_types import to_dtype

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
    if not b.type(x).numel:  # PyTorch's convolution of no channels has no channels either
        return full(b, shape, 0.0, dtype=to_dtype(b.type(x).dtype))
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


def _interpolated(dims: int, along: Formula = weights_along) -> Formula:
    """Interpolation is a product along each dim; its backward pass is one with the same weights."""

    def made(b: Builder, gradient: Ref, sizes: Sizes, shape: Sizes, align_corners: bool, *factors: float | None) -> Ref:
        found = compute(b, gradient)
        for axis in range(dims):
            extent, size = shape[axis + 2], sizes[axis]
            if extent != size:
                factor = factors[axis] if axis < len(factors) else None
                step = None if align_corners else (1.0 / factor if factor else extent / size)
                weights = along(b, found, extent, size, step)
                moved = b("aten.transpose.int", found, axis + 2, -1)
                found = b("aten.transpose.int", b("aten.matmul.default", moved, weights), axis + 2, -1)
        return found

    return made


def _nearest(dims: int, shift: float) -> Formula:
    """Each element's gradient is the sum of its copies': beside each other where all have as many, else added to where
    they come from."""

    def made(b: Builder, gradient: Ref, sizes: Sizes, shape: Sizes, *factors: float | None) -> Ref:
        found = compute(b, gradient)
        for axis in range(dims):
            extent, size = shape[axis + 2], sizes[axis]
            factor = factors[axis] if axis < len(factors) else None
            step = 1.0 / factor if factor else extent / size
            places = source_places(extent, size, step, shift)
            if places == [place * extent // size for place in range(size)] and size % extent == 0:
                split = list(b.type(found).shape)
                split[axis + 2 : axis + 3] = [extent, size // extent]
                if size > extent:
                    found = b("aten.sum.dim_IntList", reshape(b, found, split), [axis + 3], False)
                continue
            zeros = list(b.type(found).shape)
            zeros[axis + 2] = extent
            start = full(b, zeros, 0.0, dtype=to_dtype(b.type(found).dtype))
            found = b("aten.index_add.default", start, axis + 2, counted_places(b, extent, size, step, shift), found)
        return found

    return made


FORMULAS: dict[str, Formula] = {
    "aten.convolution_backward.default": convolution,
    **{f"aten.upsample_{name}{dims}d_backward.default": _interpolated(dims)
       for name, dims in (("linear", 1), ("bilinear", 2), ("trilinear", 3))},
    "aten.upsample_bicubic2d_backward.default": _interpolated(2, cubic_weights_along),
    **{f"aten.upsample_nearest{dims}d_backward.default": _nearest(dims, 0.0) for dims in (1, 2, 3)},
    **{f"aten._upsample_nearest_exact{dims}d_backward.default": _nearest(dims, 0.5) for dims in (1, 2, 3)},
}  # fmt: skip
