"""Boxes in the coordinates of a tensor, and how often elements are moved, against counting element by element."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.tileprogram.program import Access, Argument, Operand, Space
from simulator.tileprogram.tensor_boxes import Coordinates, TensorBox
from simulator.tileprogram.tensor_moves import Moved, moves


def argument(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Argument:
    return Argument("x", shape, strides, offset, 4, False)


def operand(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Operand:
    return Operand(Space.DRAM, 0, 0, offset, shape, strides, 4, Access.READ)


@pytest.mark.parametrize(
    ("strides", "asked", "box"),
    [
        ((12, 4, 1), (13, (2, 3), (4, 1)), TensorBox((1, 0, 1), (1, 2, 3), (1, 1, 1))),  # a dim of one was dropped
        ((12, 4, 1), (12, (8,), (1,)), TensorBox((1, 0, 0), (1, 2, 4), (1, 1, 1))),  # two rows as one run
        ((12, 4, 1), (0, (24,), (1,)), TensorBox((0, 0, 0), (2, 3, 4), (1, 1, 1))),
        ((12, 4, 1), (0, (2, 2), (12, 2)), TensorBox((0, 0, 0), (2, 1, 2), (1, 1, 2))),  # every second column
        ((12, 4, 1), (3, (3, 4), (4, -1)), TensorBox((0, 0, 0), (1, 3, 4), (1, 1, 1))),  # backwards
        ((12, 4, 1), (2, (4,), (1,)), TensorBox((0, 0, 0), (1, 2, 4), (1, 1, 1), exact=False)),  # over a row's end
        ((1, 2, 6), (7, (2, 2), (2, 6)), TensorBox((1, 0, 1), (1, 2, 2), (1, 1, 1))),  # columns first
        ((16, 5, 1), (5, (2, 4), (5, 1)), TensorBox((0, 1, 0), (1, 2, 4), (1, 1, 1))),  # with room between rows
        ((0, 4, 1), (4, (2, 4), (4, 1)), TensorBox((0, 1, 0), (1, 2, 4), (1, 1, 1))),  # expanded
        ((1, 1, 1), (2, (3,), (1,)), TensorBox((2,), (3,), (1,), exact=False)),  # overlapping: its storage
    ],
)
def test_an_operand_is_found_along_the_axes_of_its_tensor(
    strides: tuple[int, ...], asked: tuple[int, tuple[int, ...], tuple[int, ...]], box: TensorBox
):
    assert Coordinates(argument((2, 3, 4), strides)).box(operand(*asked)) == box


@st.composite
def cases(draw: st.DrawFn) -> tuple[Argument, list[Operand]]:
    """A tensor in some layout, and boxes of it: in steps, backwards, without dims of one, in runs over several axes."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    strides, step = [0] * len(shape), 1
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = step
        step *= shape[axis] + draw(st.integers(0, 1))
    base = draw(st.integers(0, 3))
    boxes = list[Operand]()
    for _ in range(draw(st.integers(1, 5))):
        offset, dims = base, list[tuple[int, int]]()
        for extent, stride in zip(shape, strides, strict=True):
            start = draw(st.integers(0, extent - 1))
            each = draw(st.sampled_from([1, 1, 2]))
            count = draw(st.integers(1, (extent - 1 - start) // each + 1))
            backwards = draw(st.booleans())
            offset += stride * (start + (count - 1) * each * backwards)
            if count > 1 or draw(st.booleans()):
                dims.append((count, -stride * each if backwards else stride * each))
        boxes.append(operand(offset, tuple(n for n, _ in dims), tuple(s for _, s in dims)))
    return argument(shape, tuple(strides), base), boxes


def touched(given: Argument, asked: Operand) -> set[tuple[int, ...]]:
    """The coordinates of an operand's elements, by looking for each."""
    places = {
        given.offset + sum(i * s for i, s in zip(index, given.strides, strict=True)): index
        for index in product(*map(range, given.shape))
    }
    steps = product(*map(range, asked.shape))
    return {places[asked.offset + sum(i * s for i, s in zip(step, asked.strides, strict=True))] for step in steps}


@given(cases())
@settings(max_examples=300, deadline=None)
def test_boxes_and_counts_are_those_of_single_elements(case: tuple[Argument, list[Operand]]):
    given, asked = case
    coordinates, counts = Coordinates(given), np.zeros(given.shape, np.int64)
    for each in asked:
        box, wanted = coordinates.box(each), touched(given, each)
        inside = set(product(*(range(a, b, s) for a, b, s in zip(box.start, box.end, box.step, strict=True))))
        assert inside == wanted if box.exact else inside >= wanted
        for index in wanted:
            counts[index] += 1
    assert moves(coordinates, asked) == Moved(int(counts.sum()), int((counts > 0).sum()), int(counts.max()))


def test_nothing_is_moved_by_nothing():
    assert moves(Coordinates(argument((2, 2), (2, 1))), []) == Moved(0, 0, 0)


def test_parts_that_are_no_box_are_counted_too():
    given = argument((3, 4), (4, 1))
    found = moves(Coordinates(given), [operand(2, (4,), (1,)), operand(0, (4,), (1,)), operand(2, (2,), (1,))])
    assert found == Moved(10, 6, 3)
