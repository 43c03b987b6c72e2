"""Fillings and lifetimes: when a slot is filled anew, when it is only added to, and how long it holds something."""

from __future__ import annotations

import numpy as np

from simulator import Launched, load_machine, simulate
from simulator.analysis.lifetimes import in_program_order, lifetimes
from simulator.tileprogram.boxes import Box, holds_together
from simulator.tileprogram.program import Access, TileProgram
from simulator.tileprogram.slot_fillings import fillings
from tests.simulator.build import Made, elementwise, matmul_chain


def of_slots(program: TileProgram) -> list[tuple[int, int]]:
    found = fillings(program)
    return list(zip(found.buffer.tolist(), found.slot.tolist(), strict=True))


def two_halves(*, whole: bool, again: bool) -> Made:
    """A buffer whose halves are loaded one by one, the first one twice."""
    made = Made()
    made.argument("x", (16,))
    made.argument("out", (8,), written=True)
    made.buffer("in", 8)
    made.buffer("result", 8)
    made.load(made.dram("x", (4,)), made.pad("in", (4,)))
    made.load(made.dram("x", (4,), 4), made.pad("in", (4,), offset=4))
    made.vector([made.pad("in", (8,))], made.pad("result", (8,)))
    made.load(made.dram("x", (4,), 8), made.pad("in", (4,)))
    if again:
        made.load(made.dram("x", (4,), 12), made.pad("in", (4,), offset=4))
    made.vector([made.pad("in", (8,) if whole else (4,))], made.pad("result", (8,) if whole else (4,)))
    made.store(made.pad("result", (8,)), made.dram("out", (8,), access=Access.WRITE))
    return made


def test_a_slot_is_filled_each_time_that_it_is_written_after_it_was_read():
    assert of_slots(elementwise(tiles=5)) == [(0, 0)] * 3 + [(0, 1)] * 2 + [(1, 0)] * 3 + [(1, 1)] * 2


def test_a_sum_is_one_filling_however_often_it_is_added_to():
    slots = of_slots(matmul_chain(8, 16, 32, tile=8))
    assert slots.count((2, 0)) == slots.count((2, 1)) == 1  # 1 x 2 results, each over 4 steps
    assert slots.count((0, 0)) == slots.count((0, 1)) == 4


def test_parts_that_are_filled_one_by_one_are_one_filling_if_both_are_new():
    assert of_slots(two_halves(whole=True, again=True).build()).count((0, 0)) == 2


def test_what_is_added_to_bytes_that_are_still_read_is_no_new_filling():
    assert of_slots(two_halves(whole=True, again=False).build()).count((0, 0)) == 1
    assert of_slots(two_halves(whole=False, again=False).build()).count((0, 0)) == 2


def test_boxes_hold_together_what_none_of_them_holds():
    rows, left, right = (Box(a, b, 4, d) for a, b, d in [(0, 64, ((32, 2), (4, 8))), (0, 48, ((32, 2), (4, 4))),
                                                          (16, 64, ((32, 2), (4, 4)))])  # fmt: skip
    assert holds_together([left, right], rows) and holds_together([rows], left)
    assert not holds_together([left], rows) and not holds_together([], rows)
    assert not holds_together([left, Box(16, 60, 4, ((32, 2), (4, 3)))], rows)


def test_of_a_program_that_nobody_ran_times_are_instructions():
    _, lives = in_program_order(elementwise(tiles=3, slots=2))
    assert [(life.buffer, life.slot, life.start, life.read, life.end) for life in lives] == [
        (0, 0, 0, 1, 2),
        (0, 0, 6, 7, 8),
        (0, 1, 3, 4, 5),
        (1, 0, 1, 2, 3),
        (1, 0, 7, 8, 9),
        (1, 1, 4, 5, 6),
    ]


def test_a_lifetime_is_from_the_first_start_to_the_last_use():
    program = elementwise(tiles=4)
    trace = simulate([Launched("k", program, (0, 1 << 20))], load_machine("edge-8x8"))
    ((filled, lives),) = lifetimes(trace)
    owner = program.owners()
    for life in lives:
        rows = owner[np.isin(filled.of_operand, life.fillings)]
        assert life.start == trace.start[rows].min() and life.end == trace.end[rows].max()
        assert life.start <= life.read <= life.end


def test_fillings_of_one_slot_that_meet_in_time_are_one_lifetime():
    """The second half is still worked on when the first is filled anew."""
    made = Made()
    made.argument("x", (1 << 16,))
    made.argument("out", (1 << 15,), written=True)
    half = (1 << 14,)
    made.buffer("in", 2 << 14)
    made.buffer("result", 2 << 14)
    made.load(made.dram("x", half), made.pad("in", half))
    made.load(made.dram("x", half, 1 << 14), made.pad("in", half, offset=1 << 14))
    made.vector([made.pad("in", half)], made.pad("result", half))
    made.vector([made.pad("in", half, offset=1 << 14)], made.pad("result", half, offset=1 << 14), (90, 0, 0, 0))
    made.load(made.dram("x", half, 2 << 14), made.pad("in", half))
    made.vector([made.pad("in", half)], made.pad("result", half))
    trace = simulate([Launched("k", made.build(), (0, 1 << 20))], load_machine("edge-8x8"))
    ((filled, lives),) = lifetimes(trace)
    assert int(trace.start[4]) < int(trace.end[3])
    assert filled.buffer.tolist().count(0) == 2 and [life.fillings for life in lives if life.buffer == 0] == [(0, 1)]
