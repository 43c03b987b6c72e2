"""Ops that put elements elsewhere: concatenations, repetition, shuffles.

A change that strides can express is a view, and the parts of an assembled result (`aten.cat`) are computed in place. So
all of these are views, concatenations and copies of views.
"""

from __future__ import annotations

from functools import reduce

import torch

from workbench.ir import Ref
from workbench.operators.formulas.arithmetic import renamed
from workbench.operators.formulas.formula_builder import Builder, Formula, cast
from workbench.operators.formulas.layout_changes import expanded, reshape
from workbench.operators.formulas.matrix_products import broadcast


def cat(b: Builder, tensors: list[Ref], dim: int = 0) -> Ref | None:
    """Converts parts of several element types to their common type. None if the node can stay."""
    parts = _of_one_type(b, tensors)
    if len(parts) == 1:
        return b("aten.clone.default", parts[0])
    return None if parts == tensors else b("aten.cat.default", parts, dim)


def stack(b: Builder, tensors: list[Ref], dim: int = 0) -> Ref | None:
    parts = _of_one_type(b, tensors)
    return None if parts == tensors else b("aten.stack.default", parts, dim)


def _of_one_type(b: Builder, tensors: list[Ref]) -> list[Ref]:
    wanted = reduce(torch.promote_types, map(b.dtype, tensors))
    return [cast(b, x, wanted) for x in tensors]


def broadcast_tensors(b: Builder, tensors: list[Ref]) -> tuple[Ref, ...]:
    shape = b.shape(tensors[0])
    for x in tensors[1:]:
        shape = broadcast(tuple(shape), b.type(x).shape)
    return tuple(b("aten.expand.default", x, shape) for x in tensors)


def hstack(b: Builder, tensors: list[Ref]) -> Ref:
    wide = [_with_rank(b, x, 1) for x in tensors]
    return b("aten.cat.default", wide, 0 if b.rank(wide[0]) == 1 else 1)


def vstack(b: Builder, tensors: list[Ref]) -> Ref:
    return b("aten.cat.default", [_with_rank(b, x, 2) for x in tensors], 0)


def dstack(b: Builder, tensors: list[Ref]) -> Ref:
    wide = (_with_rank(b, x, 2) for x in tensors)
    return b("aten.cat.default", [b("aten.unsqueeze.default", x, 2) if b.rank(x) == 2 else x for x in wide], 2)


def column_stack(b: Builder, tensors: list[Ref]) -> Ref:
    columns = [x if b.rank(x) > 1 else reshape(b, x, [b.type(x).numel, 1]) for x in tensors]
    return b("aten.cat.default", columns, 1)


def _with_rank(b: Builder, x: Ref, rank: int) -> Ref:
    """Adds missing dims at the front, as `torch.atleast_1d` and `atleast_2d` do."""
    while b.rank(x) < rank:
        x = b("aten.unsqueeze.default", x, 0)
    return x


def part(b: Builder, x: Ref, dim: int, start: int, end: int, step: int = 1) -> Ref:
    """A slice of `x`; `x` itself if the slice is all of it."""
    if (start, end, step) == (0, b.type(x).shape[dim], 1):
        return x
    return b("aten.slice.Tensor", x, dim, start, end, step)


def padded(b: Builder, x: Ref, dim: int, before: int, behind: int, value: float = 0.0) -> Ref:
    """`x` with `before` and `behind` elements of one value added at the two ends of a dim."""
    if not before and not behind:
        return x
    return b("aten.constant_pad_nd.default", x, [0, 0] * (b.rank(x) - dim - 1) + [before, behind], value)


def slice_scatter(
    b: Builder, x: Ref, source: Ref, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Ref | None:
    """Concatenates the part before the slice, the source, and the part after the slice. None for a slice with a step:
    it is written over a copy."""
    extent = b.type(x).shape[dim]
    first, last, step = slice(start, end, step).indices(extent)
    if step != 1 or last <= first:
        return None
    before = [part(b, x, dim, 0, first)] if first else []
    after = [part(b, x, dim, last, extent)] if last < extent else []
    source = expanded(b, source, [*b.type(x).shape[:dim], last - first, *b.type(x).shape[dim:][1:]])
    if not before and not after:
        return b("aten.clone.default", source, memory_format=torch.contiguous_format)
    return b("aten.cat.default", [*before, source, *after], dim)


def select_scatter(b: Builder, x: Ref, source: Ref, dim: int, index: int) -> Ref:
    dim, extent = dim % b.rank(x), b.type(x).shape[dim]
    place = index % extent
    return slice_scatter(b, x, b("aten.unsqueeze.default", source, dim), dim, place, place + 1) or x


def roll(b: Builder, x: Ref, shifts: int | list[int], dims: int | list[int] = ()) -> Ref:  # pyright: ignore[reportArgumentType]
    """Elements pushed out at the end come first. Along several dims, rolls one dim after the other."""
    moves, axes = _list(shifts), _list(dims)
    if not axes:
        flat = reshape(b, x, [b.type(x).numel])
        return b("aten.view.default", roll(b, flat, moves, [0]), b.shape(x))
    cuts = [(dim, -shift % max(b.type(x).shape[dim], 1)) for shift, dim in zip(moves, axes, strict=True)]
    rolled = _rolled(b, x, [(dim, cut) for dim, cut in cuts if cut])
    return b("aten.clone.default", x) if rolled is x else rolled


def _rolled(b: Builder, x: Ref, cuts: list[tuple[int, int]]) -> Ref:
    if not cuts:
        return x
    (dim, cut), *rest = cuts
    extent = b.type(x).shape[dim]
    parts = [_rolled(b, part(b, x, dim, *ends), rest) for ends in ((cut, extent), (0, cut))]
    return b("aten.cat.default", parts, dim)


def _list(value: int | list[int]) -> list[int]:
    return [value] if isinstance(value, int) else list(value)


def repeat(b: Builder, x: Ref, repeats: list[int]) -> Ref:
    """Inserts a dim before each repeated dim, expands the tensor along it, and merges each pair of dims in a copy."""
    lead = len(repeats) - b.rank(x)
    shape = [1] * lead + b.shape(x)
    pairs = [(times, extent) for times, extent in zip(repeats, shape, strict=True)]
    split = [each for times, extent in pairs for each in ([1, extent] if times != 1 else [extent])]
    wide = [each for times, extent in pairs for each in ([times, extent] if times != 1 else [extent])]
    return _expanded_copy(b, x, split, wide, [times * extent for times, extent in pairs])


def tile(b: Builder, x: Ref, dims: list[int]) -> Ref:
    return repeat(b, x, [1] * (b.rank(x) - len(dims)) + list(dims))


def repeat_interleave(
    b: Builder, x: Ref, repeats: int, dim: int | None = None, *, output_size: int | None = None
) -> Ref:
    """Like `repeat`, but the new dim comes after the one it repeats."""
    if dim is None:
        x, dim = reshape(b, x, [b.type(x).numel]), 0
    shape = b.shape(x)
    dim = dim % len(shape)
    split = [*shape[: dim + 1], 1, *shape[dim + 1 :]]
    wide = [*shape[: dim + 1], repeats, *shape[dim + 1 :]]
    return _expanded_copy(b, x, split, wide, [*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]])


def _expanded_copy(b: Builder, x: Ref, split: list[int], wide: list[int], shape: list[int]) -> Ref:
    """Reshapes `x` to `split`, expands it to `wide`, copies it, and views the copy in `shape`."""
    x = reshape(b, x, split) if b.shape(x) != split else x
    wider = b("aten.expand.default", x, wide) if wide != split else x
    copied = b("aten.clone.default", wider, memory_format=torch.contiguous_format)
    return copied if wide == shape else b("aten.view.default", copied, shape)


def pixel_shuffle(b: Builder, x: Ref, factor: int) -> Ref:
    *lead, channels, height, width = b.type(x).shape
    n = len(lead)
    split = reshape(b, x, [*lead, channels // factor**2, factor, factor, height, width])
    shuffled = b("aten.permute.default", split, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return reshape(b, shuffled, [*lead, channels // factor**2, height * factor, width * factor])


def pixel_unshuffle(b: Builder, x: Ref, factor: int) -> Ref:
    *lead, channels, height, width = b.type(x).shape
    n = len(lead)
    split = reshape(b, x, [*lead, channels, height // factor, factor, width // factor, factor])
    shuffled = b("aten.permute.default", split, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return reshape(b, shuffled, [*lead, channels * factor**2, height // factor, width // factor])


def channel_shuffle(b: Builder, x: Ref, groups: int) -> Ref:
    batch, channels, *rest = b.type(x).shape
    split = reshape(b, x, [batch, groups, channels // groups, *rest])
    return reshape(b, b("aten.transpose.int", split, 1, 2), [batch, channels, *rest])


def rot90(b: Builder, x: Ref, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Ref:
    """Quarter turns from the first dim towards the second."""
    first, second = dims
    if k % 4 == 2:
        return b("aten.flip.default", x, [first, second])
    if k % 4 == 0:
        return b("aten.clone.default", x)
    turned = b("aten.flip.default", x, [second if k % 4 == 1 else first])
    return b("aten.clone.default", b("aten.transpose.int", turned, first, second))


def meshgrid(b: Builder, tensors: list[Ref], *, indexing: str = "ij") -> tuple[Ref, ...]:
    """Each tensor along a dim of its own, expanded along the others; `xy` swaps the first two dims of the results."""
    shape = [b.type(x).numel for x in tensors]
    grids: list[Ref] = []
    for dim, x in enumerate(tensors):
        along = reshape(b, x, [extent if axis == dim else 1 for axis, extent in enumerate(shape)])
        grid = b("aten.expand.default", along, shape)
        swapped = indexing == "xy" and len(shape) > 1
        grids.append(b("aten.transpose.int", grid, 0, 1) if swapped else grid)
    return tuple(grids)


FORMULAS: dict[str, Formula] = {
    "aten.broadcast_tensors.default": broadcast_tensors,
    "aten.meshgrid.indexing": meshgrid,
    "aten.meshgrid.default": meshgrid,
    "aten.cat.default": cat,
    "aten.concat.default": cat,
    "aten.concatenate.default": cat,
    "aten.stack.default": stack,
    "aten.hstack.default": hstack,
    "aten.vstack.default": vstack,
    "aten.dstack.default": dstack,
    "aten.column_stack.default": column_stack,
    "aten.slice_scatter.default": slice_scatter,
    "aten.select_scatter.default": select_scatter,
    "aten.roll.default": roll,
    "aten.fliplr.default": renamed("aten.flip.default", [1]),
    "aten.flipud.default": renamed("aten.flip.default", [0]),
    "aten.rot90.default": rot90,
    "aten.repeat.default": repeat,
    "aten.tile.default": tile,
    "aten.repeat_interleave.self_int": repeat_interleave,
    "aten.pixel_shuffle.default": pixel_shuffle,
    "aten.pixel_unshuffle.default": pixel_unshuffle,
    "aten.channel_shuffle.default": channel_shuffle,
}
