"""Energy: counts in closed form, times the machine's figures."""

from __future__ import annotations

import pytest

from simulator import HostCall, Launched, Resident, Trace, simulate
from simulator.analysis.energy import FIGURES, energy_of, scratchpad_bytes
from simulator.analysis.stalls import channels_of
from tests.simulator.build import EDGE, Made, direct_copy, elementwise, matmul_chain, run

ROW = 8192  # of DDR4


def counts(trace: Trace) -> dict[tuple[str, str], float]:
    return {(spent.unit, spent.kind): spent.count for spent in energy_of(trace)}


def test_a_product_counts_macs_bytes_and_operations() -> None:
    """32 x 32 x 32 in tiles of 16, on an array of 8 x 8: two steps a chain, four chains."""
    trace = run(matmul_chain(32, 32, 32, 16))
    tile = 16 * 16 * 4
    streamed, weights = 2 * tile, tile  # two tiles of columns that the left factor goes past
    assert counts(trace) == {
        ("systolic", "mac"): 32**3,
        ("vector", "alu"): 4 * 16 * 16,  # the accumulators are cleared
        # eight products; four accumulators enter the array and leave it; cleared; loaded; stored
        ("scratchpad", "byte"): 8 * (streamed + weights) + 4 * 2 * tile + 4 * tile + 16 * tile + 4 * tile,
        ("dram", "byte"): 20 * tile,
        ("dram", "activate"): 20,  # boxes of 16 rows within 4 KB: one piece of 8 KB each
    }


def test_accumulators_that_stay_in_the_scratchpad_are_moved_by_every_product() -> None:
    program, tile = matmul_chain(16, 16, 32, 8), 8 * 8 * 4
    stay = scratchpad_bytes(program, EDGE.with_(accumulator_residence="scratchpad"))
    leave = scratchpad_bytes(program, EDGE)
    products = 2 * 2 * 4
    assert stay.sum() - leave.sum() == 2 * tile * (products - 4)


def test_where_sums_stay_both_factors_stream_past_their_tiles() -> None:
    """A product of 16 x 24 by 24 x 32 on an array of 8 x 4: two tiles of rows, eight of columns."""
    made, machine = Made(), EDGE.with_(dataflow="output_stationary", systolic_columns=4)
    for name, elements in (("a", 16 * 24), ("b", 24 * 32), ("c", 16 * 32)):
        made.buffer(name, elements)
    made.matmul(made.pad("a", (16, 24)), made.pad("b", (24, 32)), made.pad("c", (16, 32)))
    assert scratchpad_bytes(made.build(), machine).tolist() == [4 * (8 * 16 * 24 + 2 * 24 * 32 + 16 * 32)]


def test_a_precision_of_three_products_takes_them_all() -> None:
    program = matmul_chain(8, 8, 8, 8)
    once, three = (counts(run(program, EDGE.with_(matmul_precision=each))) for each in ("bf16", "bf16_3x"))
    assert three["systolic", "mac"] == 3 * once["systolic", "mac"] == 3 * 8**3
    assert three["scratchpad", "byte"] - once["scratchpad", "byte"] == 2 * 2 * 8 * 8 * 4


def test_passes_count_operations_by_class() -> None:
    found = counts(run(elementwise(tiles=6)))
    points = 6 * 8 * 64
    assert found["vector", "alu"] == 2 * points
    assert found["vector", "special"] == points
    assert found["scratchpad", "byte"] == 4 * points * 4  # loaded, read, written, stored
    assert found["dram", "activate"] == 12  # tiles of 2 KB: one row each way


def test_single_accesses_are_scalar_and_open_the_rows_they_lie_in() -> None:
    found = counts(run(direct_copy(4, 8)))
    assert ("scalar", "alu") not in found  # it only moves
    assert found["dram", "byte"] == 2 * 4 * 8 * 64  # a request each
    assert found["dram", "activate"] == 2 * 4


def test_rows_are_touched_by_runs_and_by_what_lies_between() -> None:
    made = Made()
    made.argument("x", (8, ROW))  # each row of it is four rows of memory
    made.buffer("t", 2 * ROW)
    made.load(made.dram("x", (8, 2)), made.pad("t", (8, 2)))
    made.load(made.dram("x", (1, ROW)), made.pad("t", (1, ROW)))
    assert counts(run(made.build()))["dram", "activate"] == 8 + 4


def test_banked_memory_counts_its_own_activates() -> None:
    trace = run(elementwise(tiles=6), EDGE.with_(memory="banked"), launches=2)
    banked = sum(row["activates"] for row in channels_of(trace))
    assert counts(trace)["dram", "activate"] == pytest.approx(banked) and banked > 0


def test_the_common_memory_takes_what_dram_is_spared() -> None:
    machine = EDGE.with_(common_memory_bytes=1 << 20, common_memory_bytes_per_second=10**11)
    program = matmul_chain(16, 16, 16, 8)
    launches = [Launched("k", program, (0, 4096, 8192))] * 3
    plain = counts(simulate(launches, machine))
    kept = counts(simulate(launches, machine, residents=[Resident("w", 4096, 1024, 0, 2, alone=False)]))
    assert kept["common memory", "byte"] == 5 * 1024
    assert plain["dram", "byte"] - kept["dram", "byte"] == 2 * 5 * 1024  # rows of 32 bytes: DRAM moves 64 for each
    assert kept["dram", "activate"] < plain["dram", "activate"]


def test_figures_are_the_machines_and_repeated_launches_add_up() -> None:
    machine = EDGE.with_(**{name: 2.5 for name in set(FIGURES.values())})
    once, twice = (energy_of(run(matmul_chain(16, 16, 16, 8), machine, launches=count)) for count in (1, 2))
    assert [spent.pj for spent in twice] == [2 * spent.pj for spent in once]
    each = {(spent.unit, spent.kind): spent.pj_each for spent in once}
    assert each.pop(("dram", "byte")) == 8 * 2.5
    assert set(each.values()) == {2.5}


def test_the_host_takes_none_of_ours() -> None:
    assert energy_of(simulate([HostCall("h", 100, 100, 10)], EDGE)) == []
