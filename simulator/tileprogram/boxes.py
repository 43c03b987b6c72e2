"""Boxes: the bytes that an operand touches, and tests whether two operands share bytes.

A box is a start and a list of (stride, extent) pairs. Two boxes are compared as boxes if both can be read as
coordinates over the same strides: with strides S1 > S2 > ... > element, an address has one reading
`c1*S1 + c2*S2 + ... + rest` as long as the inner coordinates of a box never reach as far as the next outer stride.
In that reading the boxes are products of intervals, and share a byte exactly if all their intervals meet. A tile that
is one row of a matrix (whose row dim was dropped) and a tile of several rows are compared exactly this way. A box of
every second column, say, is compared with a whole tile as if it had the columns between: the test may report a false
overlap, but never misses one. Boxes without such a reading, a reshaped view for instance, are compared by their first
and last byte, which may also report false overlaps. So two boxes may be reported to overlap although all their parts
are reported not to.

`meet` and `holds` compare boxes run by run of contiguous bytes, which is exact but slower. Boxes of two buffers that
share an address have no strides in common, and are only compared this way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.program import I64, Operand, TileProgram

Dims = tuple[tuple[int, int], ...]
"""(stride, extent) in bytes, widest stride first."""


@dataclass(frozen=True, slots=True)
class Box:
    """Bytes from `first` up to `end` (exclusive); `dims` are (stride, extent) in bytes, widest stride first.

    Dims of one element and dims of stride 0 are left out: they add no bytes.
    """

    first: int
    end: int
    element: int
    dims: Dims


def box_of(operand: Operand) -> Box:
    """The box of an operand, in bytes from the start of its argument's storage or of its slot."""
    size = operand.element_bytes
    first = operand.offset * size
    if 0 in operand.shape:
        return Box(first, first, size, ())
    dims = [(s * size, n) for n, s in zip(operand.shape, operand.strides, strict=True) if n > 1 and s != 0]
    low = first + sum(stride * (extent - 1) for stride, extent in dims if stride < 0)
    high = first + sum(stride * (extent - 1) for stride, extent in dims if stride > 0)
    upward = [(abs(stride), extent) for stride, extent in dims]
    return Box(low, high + size, size, tuple(sorted(upward, reverse=True)))


def elements_of(operand: Operand) -> I64:
    """The place of each element of an operand, in elements from the start of its argument's storage or of its slot."""
    places = np.array([operand.offset], np.int64)
    for extent, stride in zip(operand.shape, operand.strides, strict=True):
        places = (places[:, None] + stride * np.arange(extent)).reshape(-1)
    return places


def bytes_of(operand: Operand) -> I64:
    """The place of each byte of an operand, from the start of its argument's storage or of its slot."""
    return (elements_of(operand)[:, None] * operand.element_bytes + np.arange(operand.element_bytes)).reshape(-1)


def in_pieces(pieces: npt.NDArray[np.bool_], size: int, program: TileProgram, operand: int) -> npt.NDArray[np.bool_]:
    """A view of the `pieces`, of `size` bytes each, that an operand of a program touches."""
    wide = int(program.element_bytes[operand]) // size
    shape = [*program.shape[operand].tolist(), wide]
    strides = [*(stride * wide for stride in program.strides[operand].tolist()), 1]
    return np.lib.stride_tricks.as_strided(pieces[int(program.offset[operand]) * wide :], shape, strides)


def overlap(a: Box, b: Box) -> bool:
    """True if two boxes of one argument or slot share a byte; see the module's docstring for when it is exact."""
    if a.end <= b.first or b.end <= a.first:
        return False
    if a == b:  # the most frequent case: a tile is read as it was written
        return True
    spans = _coordinates(a, b)
    return spans is None or all(low_a <= high_b and low_b <= high_a for (low_a, high_a), (low_b, high_b) in spans)


def surely_overlap(a: Box, b: Box) -> bool:
    """True if two boxes of one argument or slot share a byte: always exact, but slow if coordinates are not exact."""
    exact = filled(a.dims, b.dims) == a.dims and filled(b.dims, a.dims) == b.dims and _coordinates(a, b) is not None
    return overlap(a, b) and (exact or meet(a, b))


def covers(a: Box, b: Box) -> bool:
    """True if `a` surely holds every byte of `b`; False when that cannot be proved."""
    if a == b:
        return True
    if a.first > b.first or a.end < b.end:
        return False
    spans = _coordinates(a, b) if _filled(a, b) is a else None
    return spans is not None and all(low_a <= low_b and high_b <= high_a for (low_a, high_a), (low_b, high_b) in spans)


def without(a: Box, b: Box) -> Box:
    """Returns `a` without the end that `b` surely holds; `a` itself if the rest would be no box."""
    spans = _coordinates(a, b) if _filled(b, a) is b else None
    if spans is None:
        return a
    a = _filled(a, b)
    open_ = [place for place, (own, other) in enumerate(spans) if own[0] < other[0] or other[1] < own[1]]
    if len(open_) != 1:
        return a
    (low, high), (other_low, other_high) = spans[open_[0]]
    if high < other_low or other_high < low or (low < other_low and other_high < high):
        return a
    kept = [own for own, _ in spans]
    kept[open_[0]] = (low, other_low - 1) if low < other_low else (other_high + 1, high)
    strides = strides_of(a.element, a.dims, b.dims)
    first = sum(stride * start for stride, (start, _) in zip(strides, kept, strict=True))
    dims = tuple((stride, end - start + 1) for stride, (start, end) in zip(strides, kept, strict=True) if end > start)
    return Box(first, first + sum(stride * (extent - 1) for stride, extent in dims) + a.element, a.element, dims)


def moved(box: Box, by: int) -> Box:
    """Returns the box moved up by `by` bytes."""
    return replace(box, first=box.first + by, end=box.end + by)


def meet(a: Box, b: Box) -> bool:
    """True if two boxes share a byte, whatever their strides."""
    if a.end <= b.first or b.end <= a.first:
        return False
    starts, ends = _runs(a)
    other_starts, other_ends = _runs(b)
    nearest = np.searchsorted(other_ends, starts, side="right")  # the first run that ends after this one starts
    known = nearest < len(other_starts)
    return bool(np.any(other_starts[nearest[known]] < ends[known]))


def holds(a: Box, b: Box) -> bool:
    """True if `a` holds every byte of `b`, whatever their strides."""
    if a.first > b.first or a.end < b.end:
        return False
    starts, ends = _runs(a)
    inner_starts, inner_ends = _runs(b)
    return _within(inner_starts, inner_ends, starts, ends)


def holds_together(boxes: Iterable[Box], b: Box) -> bool:
    """True if each byte of `b` is in one of the boxes, whatever their strides."""
    runs = [_runs(box) for box in boxes if box.first < b.end and b.first < box.end]
    if not runs:
        return b.first == b.end
    starts, ends = (np.concatenate(each) for each in zip(*runs, strict=True))
    order = np.argsort(starts)
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    begins = np.flatnonzero(np.concatenate([[True], starts[1:] > reached[:-1]]))
    ends = reached[np.concatenate([begins[1:] - 1, [len(reached) - 1]])]
    inner_starts, inner_ends = _runs(b)
    return _within(inner_starts, inner_ends, starts[begins], ends)


def _within(inner_starts: I64, inner_ends: I64, starts: I64, ends: I64) -> bool:
    """True if each inner run lies in one of the other runs, which are in order and apart."""
    around = np.searchsorted(starts, inner_starts, side="right") - 1
    return bool(np.all(around >= 0) and np.all(ends[around] >= inner_ends))


@lru_cache(maxsize=4096)
def _runs(box: Box) -> tuple[I64, I64]:
    """Starts and ends of a box's runs of contiguous bytes, in order."""
    starts, length = np.array([box.first], np.int64), box.element
    for stride, extent in reversed(box.dims):
        if len(starts) == 1 and stride <= length:
            length += stride * (extent - 1)
        else:
            starts = (starts[:, None] + stride * np.arange(extent)).ravel()
    starts = np.unique(starts)
    border = np.flatnonzero(starts[1:] > starts[:-1] + length)
    first, last = np.concatenate([[0], border + 1]), np.concatenate([border, [len(starts) - 1]])
    return starts[first], starts[last] + length


Interval = tuple[int, int]


@lru_cache(maxsize=65536)
def _coordinates(a: Box, b: Box) -> list[tuple[Interval, Interval]] | None:
    """Per stride, the intervals of coordinates of `a` and of `b`; None if the boxes have no such coordinates."""
    if a.element != b.element:
        return None
    dims, other_dims = filled(a.dims, b.dims), filled(b.dims, a.dims)
    strides = strides_of(a.element, dims, other_dims)
    first, second = intervals(a.first, dims, strides), intervals(b.first, other_dims, strides)
    if first is None or second is None:
        return None
    return list(zip(first, second, strict=True))


def filled(dims: Dims, others: Dims) -> Dims:
    """A box's dims, with a dim's gaps filled if one of the `others` walks the same axis in finer steps."""
    made = list(dims)
    for place, (stride, extent) in enumerate(dims):
        for fine, count in others:
            if fine < stride <= fine * (count - 1) and stride % fine == 0:
                made[place] = (fine, stride // fine * (extent - 1) + 1)
    return dims if tuple(made) == dims else tuple(sorted(made, reverse=True))


def _filled(box: Box, other: Box) -> Box:
    dims = filled(box.dims, other.dims)
    return box if dims == box.dims else replace(box, dims=dims)


def strides_of(element: int, dims: Dims, others: Dims) -> tuple[int, ...]:
    """The strides, widest first, over which boxes of these dims may have coordinates."""
    return tuple(sorted({stride for stride, _ in (*dims, *others)} | {element}, reverse=True))


def intervals(first: int, dims: Dims, strides: tuple[int, ...]) -> list[Interval] | None:
    """The intervals of a box's coordinates over the strides; None if it has no coordinates."""
    extents = dict(dims)
    if len(extents) != len(dims):  # two dims of one stride: a diagonal, not a box
        return None
    rest, out = first, list[Interval]()
    for stride in strides:
        start, rest = divmod(rest, stride)
        out.append((start, start + extents.get(stride, 1) - 1))
    if rest:
        return None
    reach = 0
    for level in range(len(strides) - 1, 0, -1):
        reach += strides[level] * out[level][1]
        if reach >= strides[level - 1]:
            return None
    return out


def distinct_boxes(program: TileProgram, operands: I64) -> tuple[I64, I64, I64]:
    """The distinct boxes of one tensor's operands.

    Returns an operand for each box, the place of that operand in `operands`, and for each operand the number of its
    box.
    """
    columns = program.offset[operands], program.element_bytes[operands]
    table = np.column_stack([*columns, program.shape[operands], program.strides[operands]])
    _, first, box = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return operands[first], first, box.reshape(-1)
