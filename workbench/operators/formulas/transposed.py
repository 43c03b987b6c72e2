"""Transposed convolutions: each number of the input, times the window, added to the result where the window stands.

The same sums come from an ordinary convolution: over the input with zeros between its elements, as many as a step
leaves out, with the window turned around.
"""

from __future__ import annotations

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula
from workbench.operators.formulas.layout_changes import each, per_channel, reshape, with_batch
from workbench.operators.formulas.moving import part

Sizes = int | list[int]


def _transposed(dims: int) -> Formula:
    def made(
        b: Builder, x: Ref, weight: Ref, bias: Ref | None = None, stride: Sizes = 1, padding: Sizes = 0,
        output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
    ) -> Ref:  # fmt: skip
        if b.rank(x) == dims + 1:
            rest = (weight, bias, stride, padding, output_padding, groups, dilation)
            return with_batch(b, x, lambda images: made(b, images, *rest))
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

    return made


def with_gaps(b: Builder, x: Ref, dim: int, step: int) -> Ref:
    """Zeros after every element along a dim, so many that the next one is a step away."""
    shape = list(b.type(x).shape)
    behind = [0, 0] * (len(shape) - dim - 1) + [0, step - 1]
    wide = b("aten.constant_pad_nd.default", b("aten.unsqueeze.default", x, dim + 1), behind, 0.0)
    return b("aten.view.default", wide, [*shape[:dim], shape[dim] * step, *shape[dim + 1 :]])


def _spread(b: Builder, x: Ref, steps: list[int]) -> Ref:
    """Zeros after every element, so many that the next one is a step away."""
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
    """As many zeros after the last element as are asked for."""
    for place, (step, wanted) in enumerate(zip(steps, more, strict=True)):
        dim, missing = place + 2, wanted - (step - 1)
        if missing < 0:
            x = part(b, x, dim, 0, b.type(x).shape[dim] + missing)
        elif missing > 0:
            x = b("aten.constant_pad_nd.default", x, [0, 0] * (b.rank(x) - dim - 1) + [0, missing], 0.0)
    return x


def _turned(b: Builder, weight: Ref, groups: int) -> Ref:
    """The window back to front, and what were channels of the input as channels of the result, in each group."""
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


FORMULAS: dict[str, Formula] = {
    "aten.conv_transpose1d.default": _transposed(1),
    "aten.conv_transpose2d.input": _transposed(2),
    "aten.conv_transpose3d.input": _transposed(3),
}
