"""Tests how well transfers use the memory, and the causes of their waits."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from simulator import Cause, Launched, Machine, Trace, load_machine, simulate
from simulator.analysis.contention import waited
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.memory_use import memory_use_of
from simulator.analysis.stalls import stalls_of
from simulator.errors import InvariantViolation
from simulator.records.spans import Grid, Wait
from simulator.tileprogram.program import Access, Operand, Space, TileProgram
from tests.simulator.build import EDGE, Made, direct_copy, elementwise, run

BANKED = load_machine("edge-8x8", memory="banked")


def columns_and_row(first: int, columns: int, rows: int = 64, width: int = 256) -> TileProgram:
    """A load of the first columns of a matrix, then one of a whole matrix, of 4 bytes an element."""
    made = Made()
    made.argument("x", (rows, width))
    made.argument("y", (rows, width))
    made.buffer("a", rows * columns)
    made.buffer("b", rows * width)
    box = Operand(Space.DRAM, 0, 0, first, (rows, columns), (width, 1), 4, Access.READ)
    made.load(box, made.pad("a", (rows, columns)))
    made.load(made.dram("y", (rows, width)), made.pad("b", (rows, width)))
    return made.build()


@pytest.mark.parametrize(
    ("first", "columns", "moved", "cycles"),
    [
        (0, 256, 64 * 1024, 64 * 1024 // 32),  # all of it: one run, one stretch
        (0, 16, 64 * 64, 64 * 64 // 32),  # a request each
        (8, 16, 64 * 128, 64 * 128 // 32),  # half of two requests each
        (0, 1, 64 * 64, 64 * 64 // 32),  # an element of each request: the bus takes two cycles, the queue one
    ],
)
def test_a_run_is_moved_in_whole_requests(first: int, columns: int, moved: int, cycles: int) -> None:
    use = memory_use_of(run(columns_and_row(first, columns)))
    run_length = 64 * 1024 if columns == 256 else 4 * columns
    assert (use.run[0], use.stretch[0]) == (run_length, run_length)
    assert (use.asked[0], use.requested[0], use.cycles[0]) == (64 * 4 * columns, moved, cycles)
    assert use.peak_share[0] == 64 * 4 * columns / (32 * cycles)


def test_a_queue_narrower_than_the_memory_is_no_share_of_its_peak() -> None:
    """Twelve bytes a cycle, of 32: a cycle for each stretch, and the bus is free again before."""
    made = Made()
    made.argument("x", (64, 3))
    made.buffer("a", 64 * 3)
    made.load(made.dram("x", (64, 3)), made.pad("a", (64, 3)))
    made.vector([made.pad("a", (64, 3))], made.pad("a", (64, 3)), lane=1)
    use = memory_use_of(run(made.build()))
    assert (use.run[0], use.stretch[0], use.requested[0], use.cycles[0]) == (768, 12, 768, 64)
    assert use.peak_share[0] == 12 / 32


def test_who_waits_for_whole_requests_waits_for_the_memory_s_peak() -> None:
    trace = run(columns_and_row(0, 16))
    row = next(row for row in stalls_of(trace) if row["unit"] == "dma1")
    assert trace.start[1] == 128 and trace.cause[1] == Cause.BANDWIDTH
    assert (row["memory_peak"], row["inefficient_transfers"]) == (128, 0)


@pytest.mark.parametrize(("first", "columns", "wasted"), [(8, 16, 1 / 2), (0, 4, 3 / 4), (0, 1, 15 / 16)])
def test_who_waits_for_parts_of_requests_waits_for_inefficient_transfers(
    first: int, columns: int, wasted: float
) -> None:
    trace = run(columns_and_row(first, columns))
    row = next(row for row in stalls_of(trace) if row["unit"] == "dma1")
    assert row["inefficient_transfers"] == wasted * trace.start[1] > 0
    assert row["memory_peak"] == (1 - wasted) * trace.start[1]


def test_several_transfers_before_one_count_by_their_bytes() -> None:
    """One of 64 requests for 256 bytes, and one of 64 for as many bytes as they hold."""
    made = Made()
    for name in ("x", "y", "z"):
        made.argument(name, (64, 256))
    for name in ("a", "b", "c"):
        made.buffer(name, 64 * 16)
    for number, columns in enumerate((1, 16, 16)):
        box = Operand(Space.DRAM, number, 0, 0, (64, columns), (256, 1), 4, Access.READ)
        made.load(box, made.pad("abc"[number], (64, columns)))
    trace = run(made.build())
    assert trace.start.tolist() == [0, 128, 256]
    found = waited(trace)
    assert found.before.tolist() == [0, 128, 256]
    assert found.wasted_before.tolist() == [0, 120, 120]  # 15 of 16 parts of the first's time, none of the second's


def test_while_the_memory_stands_idle_nothing_waits_for_it() -> None:
    """Three loads, issued 150 cycles apart, that take the bus for 2, 256 and 2: the last waits for the second."""
    made = Made()
    made.argument("x", (2048,))
    for name, elements in (("a", 16), ("b", 2048), ("c", 16)):
        made.buffer(name, elements)
        made.load(made.dram("x", (elements,)), made.pad(name, (elements,)))
    trace = run(made.build(), EDGE.with_(issue_interval_cycles=150))
    assert trace.start.tolist() == [0, 150, 406] and trace.cause[2] == Cause.BANDWIDTH
    row = stalls_of(trace)[trace.unit[2]]
    assert (row["memory_peak"], row["issue"], row["inefficient_transfers"]) == (2 + 256, 148, 0)


def test_in_banked_memory_the_data_of_others_is_told_apart_likewise() -> None:
    """Two loads side by side: each waits for the other's data, which is all asked for, or a quarter of it."""
    for columns, wasted in ((16, 0), (4, 3 / 4)):
        made = Made()
        for number, name in enumerate("xy"):
            made.argument(name, (64, 256))
            made.buffer(name, 64 * columns)
            box = Operand(Space.DRAM, number, 0, 0, (64, columns), (256, 1), 4, Access.READ)
            made.load(box, made.pad(name, (64, columns)))
        trace = run(made.build(), BANKED)
        found, moved = waited(trace), trace.waits[:, Wait.MEMORY_BUS]
        assert found.within.tolist() == moved.tolist() and moved.min() > 0
        assert found.wasted_within.tolist() == np.rint(wasted * moved).tolist()
        rows = stalls_of(trace)
        assert sum(int(row["inefficient_transfers"]) for row in rows) == found.wasted_within.sum()
        assert sum(int(row["memory_peak"]) for row in rows) == (moved - found.wasted_within).sum()
        told = dict(waterfall_of(trace))
        assert ("load inefficient_transfers" in told) == bool(wasted) and "load memory_peak" in told


@pytest.mark.parametrize("machine", [EDGE, BANKED], ids=["simple", "banked"])
def test_a_trace_from_a_file_tells_the_same(machine: Machine) -> None:
    for program in (columns_and_row(8, 16), elementwise(), direct_copy(4, 32)):
        trace = run(program, machine)
        loaded = Trace.load(io.BytesIO(trace.to_bytes()))
        assert stalls_of(loaded) == stalls_of(trace) and waterfall_of(loaded) == waterfall_of(trace)


def test_a_trace_that_moves_fewer_bytes_than_asked_is_noticed() -> None:
    trace = run(columns_and_row(8, 16))
    for wrong, told in ((trace.requested // 4, "for the 4096 bytes of span 0"), (trace.requested + 1, "memory moves")):
        with pytest.raises(InvariantViolation, match=told):
            replace(trace, requested=wrong).invariants()


def test_a_loop_of_accesses_asks_for_an_element_a_request() -> None:
    use = memory_use_of(run(direct_copy(1, 32)))
    direct = np.flatnonzero(use.run)
    assert (use.run[direct] == 4).all() and (use.requested[direct] == 16 * use.asked[direct]).all()


@pytest.mark.test_all
def test_where_nobody_else_moves_data_a_transfer_waits_for_its_own() -> None:
    """A square of a sixteenth of a block: its first requests' data still moves when more of them arrive."""
    machine = load_machine("tpu-v2", memory="banked", interconnect="crossbar", dram_channels=4)
    made = Made()
    made.argument("x", (16, 16))
    made.buffer("x", 64)
    made.load(Operand(Space.DRAM, 0, 0, 0, (8, 8), (16, 1), 4, Access.READ), made.pad("x", (8, 8)))
    trace = simulate([Launched("k", made.build(), (160,), grids=(Grid(16, 16),))], machine)
    trace.invariants()
    assert (trace.bytes.tolist(), trace.requested.tolist()) == ([256], [4096])
    found = waited(trace)
    assert found.within.tolist() == found.wasted_within.tolist() == [1]
