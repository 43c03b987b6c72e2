"""Overlap and cover, held against listing every byte."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.tileprogram.boxes import box_of, covers, overlap, surely_overlap
from simulator.tileprogram.program import Access, Operand, Space


def operand(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], element: int = 4) -> Operand:
    return Operand(Space.DRAM, 0, 0, offset, shape, strides, element, Access.READ)


def listed(box: Operand) -> set[int]:
    steps = itertools.product(*(range(extent) for extent in box.shape))
    starts = {box.offset + sum(i * s for i, s in zip(step, box.strides, strict=True)) for step in steps}
    return {start * box.element_bytes + byte for start in starts for byte in range(box.element_bytes)}


def test_tiles_of_one_matrix_overlap_exactly_when_their_rows_and_columns_do() -> None:
    left, right = operand(0, (8, 16), (64, 1)), operand(16, (8, 16), (64, 1))
    below, crossing = operand(8 * 64, (8, 16), (64, 1)), operand(4 * 64 + 8, (8, 16), (64, 1))
    boxes = [box_of(box) for box in (left, right, below, crossing)]
    assert [overlap(boxes[0], other) for other in boxes] == [True, False, False, True]


def test_a_row_whose_dim_was_dropped_is_still_a_row() -> None:
    row, other, tile = operand(64, (16,), (1,)), operand(64 + 16, (16,), (1,)), operand(0, (4, 16), (64, 1))
    assert overlap(box_of(row), box_of(tile))
    assert not overlap(box_of(other), box_of(tile))
    assert covers(box_of(tile), box_of(row))
    assert not covers(box_of(row), box_of(tile))


def test_two_columns_lie_apart() -> None:
    assert not overlap(box_of(operand(0, (8,), (64,))), box_of(operand(1, (8,), (64,))))


def test_other_element_sizes_are_compared_by_range() -> None:
    halves, words = operand(0, (8, 4), (32, 1), 2), operand(4, (4, 2), (16, 1), 4)
    assert not listed(halves) & listed(words)
    assert overlap(box_of(halves), box_of(words))  # cautious
    assert not surely_overlap(box_of(halves), box_of(words))
    assert not overlap(box_of(halves), box_of(operand(200, (4,), (1,), 4)))


@st.composite
def tiles(draw: st.DrawFn) -> Operand:
    """Tiles of one 6 x 5 x 7 tensor: any box in it, unit dims kept or dropped, dims in any order."""
    whole, steps = (6, 5, 7), (35, 7, 1)
    low = [draw(st.integers(0, extent - 1)) for extent in whole]
    shape = [draw(st.integers(1, extent - start)) for extent, start in zip(whole, low, strict=True)]
    kept = [d for d in draw(st.permutations(range(3))) if shape[d] > 1 or draw(st.booleans())]
    offset = sum(start * step for start, step in zip(low, steps, strict=True))
    return operand(offset, tuple(shape[d] for d in kept), tuple(steps[d] for d in kept))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(tiles(), tiles())
def test_tiles_are_compared_exactly(a: Operand, b: Operand) -> None:
    assert overlap(box_of(a), box_of(b)) == bool(listed(a) & listed(b))
    assert covers(box_of(a), box_of(b)) == (listed(b) <= listed(a))


@st.composite
def any_boxes(draw: st.DrawFn) -> Operand:
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    strides = tuple(draw(st.sampled_from([-5, -1, 0, 1, 2, 3, 4, 5, 8, 12])) for _ in range(rank))
    return operand(draw(st.integers(60, 90)), shape, strides, draw(st.sampled_from([2, 4])))


@settings(max_examples=500, deadline=None, derandomize=True)
@given(any_boxes(), any_boxes())
def test_no_shared_byte_is_ever_missed(a: Operand, b: Operand) -> None:
    if listed(a) & listed(b):
        assert overlap(box_of(a), box_of(b))
    assert surely_overlap(box_of(a), box_of(b)) == bool(listed(a) & listed(b))
    if covers(box_of(a), box_of(b)):
        assert listed(b) <= listed(a)
