"""Boxes found by where they are: never one too few, and not all of them."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.tileprogram.box_index import Nearby
from simulator.tileprogram.boxes import Box, box_of, meet, overlap
from simulator.tileprogram.conflicts import Order
from simulator.tileprogram.hazards import Grade
from simulator.tileprogram.program import Operand, TileProgram
from tests.simulator.random_programs import programs
from tests.simulator.tileprogram.test_boxes import operand


@st.composite
def several(draw: st.DrawFn) -> list[Operand]:
    """Boxes of a few kinds, many of each: tiles of a matrix, columns, every so-manyth element, other element sizes."""
    found = list[Operand]()
    for _ in range(draw(st.integers(1, 4))):
        width = draw(st.sampled_from([6, 20, 24]))
        shape = (draw(st.integers(1, 4)), draw(st.integers(1, 6)))
        strides = draw(st.permutations([width, draw(st.sampled_from([1, 1, 2, 3]))]))
        starts = draw(st.lists(st.integers(0, 400), min_size=1, max_size=30))
        found += [operand(start, shape, tuple(strides), draw(st.sampled_from([4, 4, 4, 2]))) for start in starts]
    return found


@settings(max_examples=150, deadline=None, derandomize=True)
@given(several())
def test_whatever_touches_is_near(operands: list[Operand]) -> None:
    boxes = list(dict.fromkeys(map(box_of, operands)))
    nearby = Nearby[Box]()
    for place, box in enumerate(boxes):
        found = nearby.near(box)
        assert len(found) == len(set(found))
        assert {other for other in boxes[:place] if overlap(other, box) or meet(other, box)} <= set(found)
        nearby.add(box, box)
    for gone in boxes[::2]:
        assert nearby.pop(gone) == [gone]
    for box in boxes:
        assert {other for other in boxes[1::2] if overlap(other, box)} <= set(nearby.near(box)) <= set(boxes[1::2])


def test_of_a_thousand_columns_few_are_looked_at() -> None:
    nearby = Nearby[int]()
    columns = [box_of(operand(column + 50_000 * band, (50,), (1000,))) for band in range(4) for column in range(250)]
    for number, box in enumerate(columns):
        nearby.add(box, number)
    assert [nearby.at(box) for box in nearby.near(columns[300])] == [[300]]
    assert len(nearby.near(box_of(operand(0, (200, 1000), (1000, 1))))) == 1000


@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs())
def test_what_a_unit_in_order_settles_is_what_the_long_walk_finds(program: TileProgram) -> None:
    quick, walked = Order(program), Order(program)
    walked.chains = []
    for earlier, later in combinations(range(len(program)), 2):
        for grade in Grade:
            assert quick.holds(earlier, later, grade) == walked.holds(earlier, later, grade)
