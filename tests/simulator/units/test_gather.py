"""GATHER and SCATTER: which addresses they ask for, what these cost, and what is known of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from simulator import Launched, LaunchError, load_machine, simulate
from simulator.analysis.stalls import traffic_of
from simulator.errors import ProgramError
from simulator.records.spans import TOTALS
from simulator.tileprogram.program import Access, Indexed, Instruction, Opcode, OpInfo, TileProgram
from simulator.tileprogram.verifier import verify
from simulator.units.gather import elements, requests
from tests.simulator.build import Made

EDGE = load_machine("edge-8x8")
REQUEST = EDGE.dram.request_bytes
ROWS, COLUMNS, WIDTH = 5, 40, 64
IDS = np.array([3, 39, 3, 0, 17])


def rows(opcode: Opcode, access: Access, *, loaded: bool = True) -> TileProgram:
    """`ROWS` rows of a table of `COLUMNS` rows of `WIDTH` numbers are gathered into a tile, or scattered from it."""
    made = Made()
    made.argument("ids", (ROWS,))
    made.argument("table", (COLUMNS, WIDTH), written=opcode == Opcode.SCATTER)
    made.buffer("index", ROWS)
    made.buffer("tile", ROWS * WIDTH)
    index, tile = made.pad("index", (ROWS,)), made.pad("tile", (ROWS, WIDTH))
    if loaded:
        made.load(made.dram("ids", (ROWS,)), index)
    else:
        made.vector([], index)
    if opcode == Opcode.SCATTER:
        made.vector([], tile)
    tile = replace(tile, access=Access.WRITE if opcode == Opcode.GATHER else Access.READ)
    table = made.dram("table", (COLUMNS, WIDTH), access=access)
    made.add(Instruction(opcode, 0, (), (index, tile, table), (ROWS, WIDTH)))
    made.builder.ops[-1] = replace(made.builder.ops[-1], indexed=Indexed((-1, 1), ((0,),)))
    return made.build()


def test_each_row_is_one_request_at_its_own_address():
    program = rows(Opcode.GATHER, Access.READ)
    verify(program)
    found = requests(program, (0, 4096), {0: IDS}, EDGE)
    assert found.address.tolist() == (4096 + IDS * WIDTH * 4).tolist()
    assert set(found.size.tolist()) == {WIDTH * 4}
    assert found.bytes.tolist() == [0, ROWS * WIDTH * 4] == found.read_bytes.tolist()
    assert found.request_bytes[1] == ROWS * WIDTH * 4  # rows begin where requests do
    assert not found.assumed.any()
    assert elements(program).tolist()[-3:] == [ROWS, ROWS * WIDTH, ROWS * WIDTH]


def test_a_row_that_straddles_requests_costs_all_it_touches():
    found = requests(rows(Opcode.GATHER, Access.READ), (0, 4096 + 4), {0: IDS}, EDGE)
    assert found.request_bytes[1] == ROWS * (WIDTH * 4 + REQUEST)


def test_adding_reads_and_writes_and_storing_writes():
    adding = requests(rows(Opcode.SCATTER, Access.READ_WRITE), (0, 4096), {0: IDS}, EDGE)
    storing = requests(rows(Opcode.SCATTER, Access.WRITE), (0, 4096), {0: IDS}, EDGE)
    assert adding.bytes[-1] == 2 * storing.bytes[-1] == 2 * ROWS * WIDTH * 4
    assert (adding.read_bytes[-1], storing.read_bytes[-1]) == (ROWS * WIDTH * 4, 0)
    assert adding.request_bytes[-1] == 2 * storing.request_bytes[-1]


def test_single_elements_are_a_request_each():
    """`out[r, c] = table[ids[r, c], c]`: nothing lies side by side, so each element fetches a whole request."""
    made = Made()
    made.argument("ids", (4, 3))
    made.argument("table", (COLUMNS, 3))
    made.buffer("index", 12)
    made.buffer("tile", 12)
    made.load(made.dram("ids", (4, 3)), made.pad("index", (4, 3)))
    tile = made.pad("tile", (4, 3), access=Access.WRITE)
    operands = (made.pad("index", (4, 3)), tile, made.dram("table", (COLUMNS, 3)))
    made.add(Instruction(Opcode.GATHER, 0, (), operands, (4, 3)))
    made.builder.ops[-1] = replace(made.builder.ops[-1], indexed=Indexed((-1, 1), ((0, 1),), wraps=True))
    ids = np.array([[0, 1, 2], [-1, 5, 5], [7, 7, 7], [39, 0, -40]])
    found = requests(made.build(), (0, 0), {0: ids.ravel()}, EDGE)
    places = np.where(ids < 0, ids + COLUMNS, ids) * 3 + np.arange(3)
    assert found.address.tolist() == (places * 4).ravel().tolist()
    assert found.bytes[1] == 12 * 4
    assert found.request_bytes[1] == 12 * REQUEST


def test_unknown_indices_are_drawn_alike_each_time_and_marked():
    for indices, program in (
        ({}, rows(Opcode.GATHER, Access.READ)),
        ({0: IDS}, rows(Opcode.GATHER, Access.READ, loaded=False)),
    ):
        found = requests(program, (0, 0), indices, EDGE)
        assert found.assumed.tolist() == [False, True]
        assert found.address.tolist() == requests(program, (0, 0), indices, EDGE).address.tolist()
        assert ((found.address >= 0) & (found.address < COLUMNS * WIDTH * 4)).all()
        trace = simulate([Launched("k", program, (0, 0), indices=indices)], EDGE)
        assert trace.assumed.tolist() == [False, True]


def test_a_gather_takes_the_bus_for_its_requests_and_is_answered_after_the_latency():
    program = rows(Opcode.GATHER, Access.READ)
    trace = simulate([Launched("k", program, (0, 4096), indices={0: IDS})], EDGE)
    trace.invariants()
    sent = max(
        Fraction(ROWS * WIDTH * 4) / EDGE.bus_bytes_per_cycle, Fraction(ROWS * WIDTH * 4, EDGE.dma.bytes_per_cycle)
    )
    assert trace.done[1] - trace.start[1] in (
        -(-sent // 1) + EDGE.dram_latency_cycles,
        sent // 1 + EDGE.dram_latency_cycles,
    )
    assert trace.counters["dram_read_bytes"] == (ROWS * 4) + ROWS * WIDTH * 4
    assert [row["read"] for row in traffic_of(trace)] == [ROWS * 4, ROWS * WIDTH * 4]


def test_indices_outside_of_the_table_are_refused():
    with pytest.raises(LaunchError, match="indices from 0 to 40 into 'table', which has 40 places"):
        requests(rows(Opcode.GATHER, Access.READ), (0, 0), {0: np.array([0, 1, 2, 3, 40])}, EDGE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"indexed": None}, "does not say what its indices mean"),
        ({"indexed": Indexed((-1,), ((0,),))}, "walks \\(-1,\\) in 2 axes"),
        ({"indexed": Indexed((-1, 0), ((0,),))}, "walks axis 1 of \\(40, 64\\) along dim 0"),
        ({"indexed": Indexed((-1, 1), ((1,),))}, "has 5 indices along dims \\(1,\\)"),
    ],
)
def test_meanings_that_do_not_fit_are_told(change: dict[str, Indexed | None], said: str):
    program = rows(Opcode.GATHER, Access.READ)
    ops = (*program.ops[:-1], OpInfo(**{**_fields(program.ops[-1]), **change}))
    with pytest.raises(ProgramError, match=said):
        verify(replace(program, ops=ops))


def _fields(info: OpInfo) -> dict[str, object]:
    return {
        name: getattr(info, name)
        for name in ("name", "line", "loops", "class_counts", "walks", "contiguous", "indexed")
    }


def test_a_program_with_a_gather_is_the_same_after_a_file(tmp_path):
    program = rows(Opcode.GATHER, Access.READ)
    program.save(tmp_path / "p.npz")
    assert TileProgram.load(tmp_path / "p.npz") == program


def test_the_same_launch_with_other_indices_is_simulated_anew():
    """Rows of 15 numbers begin within requests, so that it depends on the row how many of them it takes."""
    made = Made()
    made.argument("ids", (4,))
    made.argument("table", (COLUMNS, 15))
    made.buffer("index", 4)
    made.buffer("tile", 4 * 15)
    index, tile = made.pad("index", (4,)), made.pad("tile", (4, 15), access=Access.WRITE)
    made.load(made.dram("ids", (4,)), index)
    made.add(Instruction(Opcode.GATHER, 0, (), (index, tile, made.dram("table", (COLUMNS, 15))), (4, 15)))
    made.builder.ops[-1] = replace(made.builder.ops[-1], indexed=Indexed((-1, 1), ((0,),)))
    program = made.build()
    known = [np.array([0, 0, 0, 0]), np.array([1, 1, 1, 1]), np.array([0, 0, 0, 0])]
    launches = [Launched("k", program, (0, 4096), indices={0: ids}) for ids in known]
    trace = simulate(launches, EDGE)
    asked = trace.totals[:, TOTALS.index("dram_request_bytes")].tolist()
    assert asked[0] == asked[2] != asked[1]
    assert trace.digest() == simulate(launches, EDGE, repeats=False).digest()
