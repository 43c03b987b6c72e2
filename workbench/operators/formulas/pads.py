"""Padding: the border of a tensor is computed, or copied, in its place in the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula
from workbench.operators.formulas.known_contents import full
from workbench.operators.formulas.moving import part

Side = Callable[[Builder, Ref, int, int], Ref]
"""Makes the border beside a tensor along a dim; the last argument is the border's size."""


def constant_pad(b: Builder, x: Ref, pad: list[int], value: float | None = 0) -> Ref:
    """Adds a border of one value; a negative size cuts elements off."""

    def side(b: Builder, x: Ref, dim: int, size: int) -> Ref:
        return full(b, _resized(b, x, dim, size), value or 0, dtype=b.dtype(x))

    return _bordered(b, x, pad, side, side)


def bordered_pad(b: Builder, x: Ref, pad: list[int], *, mode: str) -> Ref | None:
    """Adds a border of the tensor's own elements. None for negative sizes, which are left to the host."""
    if any(size < 0 for size in pad):
        return None
    return _bordered(b, x, pad, *_SIDES[mode])


def any_pad(b: Builder, x: Ref, pad: list[int], mode: str = "constant", value: float | None = None) -> Ref | None:
    return constant_pad(b, x, pad, value) if mode == "constant" else bordered_pad(b, x, pad, mode=mode)


def _bordered(b: Builder, x: Ref, pad: list[int], before: Side, after: Side) -> Ref:
    """Adds the borders dim by dim, from the last dim, in the order of `pad`. A corner is part of the border of a
    border."""
    padded, joined = x, False
    for place in range(len(pad) // 2):
        dim, sizes = b.rank(x) - 1 - place, pad[2 * place : 2 * place + 2]
        inner = part(b, padded, dim, max(-sizes[0], 0), b.type(padded).shape[dim] + min(sizes[1], 0))
        parts = [before(b, inner, dim, sizes[0])] if sizes[0] > 0 else []
        parts += [inner] if b.type(inner).numel else []
        parts += [after(b, inner, dim, sizes[1])] if sizes[1] > 0 else []
        joined = len(parts) > 1
        padded = b("aten.cat.default", parts, dim) if joined else (*parts, inner)[0]
    return padded if joined else b("aten.clone.default", padded)


def _resized(b: Builder, x: Ref, dim: int, size: int) -> list[int]:
    return [size if axis == dim else extent for axis, extent in enumerate(b.type(x).shape)]


def _edge(b: Builder, x: Ref, dim: int, size: int, *, last: bool) -> Ref:
    """The outermost slice, repeated."""
    place = b.type(x).shape[dim] - 1 if last else 0
    return b("aten.expand.default", part(b, x, dim, place, place + 1), _resized(b, x, dim, size))


def _mirror(b: Builder, x: Ref, dim: int, size: int, *, last: bool) -> Ref:
    """The neighbours of the outermost slice, in reverse."""
    start = b.type(x).shape[dim] - 1 - size if last else 1
    return b("aten.flip.default", part(b, x, dim, start, start + size), [dim])


def _other_end(b: Builder, x: Ref, dim: int, size: int, *, last: bool) -> Ref:
    extent = b.type(x).shape[dim]
    return part(b, x, dim, 0, size) if last else part(b, x, dim, extent - size, extent)


_SIDES: dict[str, tuple[Side, Side]] = {
    mode: (partial(side, last=False), partial(side, last=True))
    for mode, side in (("reflect", _mirror), ("replicate", _edge), ("circular", _other_end))
}


def bordered_pad_backward(b: Builder, gradient: Ref, x: Ref, pad: list[int], *, mode: str) -> Ref | None:
    """The gradient of the middle, plus the gradient of each border at the elements of which the border is a copy."""
    if any(size < 0 for size in pad):
        return None
    for place in reversed(range(len(pad) // 2)):
        dim, (before, after) = b.rank(x) - 1 - place, pad[2 * place : 2 * place + 2]
        extent = b.type(x).shape[dim]
        middle = part(b, gradient, dim, before, before + extent)
        borders = [(part(b, gradient, dim, 0, before), 0 if mode == "replicate" else 1, before)] if before else []
        if after:
            end = part(b, gradient, dim, before + extent, before + extent + after)
            borders.append((end, extent - 1 if mode == "replicate" else extent - 1 - after, after))
        for border, begin, size in borders:
            reach = begin + (1 if mode == "replicate" else size)
            if mode == "replicate":
                folded = b("aten.sum.dim_IntList", border, [dim], True)
            else:
                folded = b("aten.flip.default", border, [dim])
            around = [0, 0] * (b.rank(x) - dim - 1) + [begin, extent - reach]
            middle = b("aten.add.Tensor", middle, b("aten.constant_pad_nd.default", folded, around, 0.0))
        gradient = middle
    return gradient


FORMULAS: dict[str, Formula] = {
    "aten.pad.default": any_pad,
    "aten.constant_pad_nd.default": constant_pad,
    **{
        f"aten.{name}_pad{rank}d{of}.default": partial(formula, mode=mode)
        for name, mode in (("reflection", "reflect"), ("replication", "replicate"))
        for rank in (1, 2, 3)
        for of, formula in (("", bordered_pad), ("_backward", bordered_pad_backward))
    },
}
