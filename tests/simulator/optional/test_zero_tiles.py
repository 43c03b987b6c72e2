"""Zero tiles: what is skipped, what that saves, and what it never touches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from simulator import InvariantViolation, Launched, LaunchError, Machine, MachineError, Resident, Trace, load_machine
from simulator import simulate as run_launches
from simulator.analysis.energy import energy_of
from simulator.analysis.slack import slack_of
from simulator.analysis.stalls import channels_of
from simulator.optional.zero_tiles.skipped_tiles import skipped_of
from simulator.records.spans import Via
from simulator.tileprogram.program import Opcode, TileProgram
from tests.simulator.build import Made, elementwise, matmul_chain

SKIPS = load_machine("edge-8x8", skips_zero_tiles=True)
TILE = 8 * 8 * 4
Mask = npt.NDArray[np.bool_]


def simulate(
    program: TileProgram, filled: dict[int, Mask], machine: Machine = SKIPS, *residents: Resident, times: int = 1
) -> Trace:
    places = tuple(argument << 16 for argument in range(len(program.arguments)))
    trace = run_launches([Launched("k", program, places, filled=filled)] * times, machine, residents=residents)
    trace.invariants()
    return trace


def filled(rows: int, columns: int, *tiles: tuple[int, int]) -> Mask:
    """A tensor in tiles of 8 x 8 of which only these have one element that is not zero."""
    made = np.zeros((rows, columns), np.bool_)
    for row, column in tiles:
        made[8 * row + 3, 8 * column + 5] = True
    return made.reshape(-1)


def test_zero_tiles_are_neither_moved_nor_multiplied() -> None:
    program = matmul_chain(16, 16, 16, 8)
    whole = simulate(program, {})
    some = simulate(program, {0: filled(16, 16, (0, 0), (0, 1), (1, 1))})
    # the tile (1, 0) of the left factor is loaded for each of two columns of results, and multiplied there
    assert whole.counters["dram_read_bytes"] - some.counters["dram_read_bytes"] == 2 * TILE
    assert whole.counters["macs"] - some.counters["macs"] == 2 * 8**3
    assert some.counters["dram_write_bytes"] == whole.counters["dram_write_bytes"]
    left_out = some.via == Via.SKIPPED
    assert [Opcode(kind).name for kind in some.kind[left_out]] == ["LOAD", "MATMUL"] * 2
    assert (some.end[left_out] == some.start[left_out]).all()
    assert not some.bytes[left_out].any()
    assert simulate(program, {0: filled(16, 16), 1: filled(16, 16)}).makespan < some.makespan


def test_either_factor_will_do_and_one_element_is_enough_to_stay() -> None:
    program = matmul_chain(8, 8, 32, 8)
    left, right = filled(8, 32, (0, 0), (0, 1)), filled(32, 8, (0, 0), (2, 0))
    trace = simulate(program, {0: left, 1: right})
    assert [row["skipped"] for row in skipped_of(trace)] == [2, 2, 3]
    assert trace.counters["macs"] == 8**3
    assert skipped_of(trace)[2] == {
        "launch": 0,
        "kernel": "k",
        "argument": -1,
        "known": True,
        "count": 4,
        "skipped": 3,
        "bytes_skipped": 0,
        "macs_skipped": 3 * 8**3,
    }


def test_a_result_waits_for_the_products_that_were_made() -> None:
    """The last product of the chain is skipped: the store waits for the drain of the one before, and no longer."""
    program = matmul_chain(8, 8, 16, 8)
    short = simulate(program, {0: filled(8, 16, (0, 0))})
    products = np.flatnonzero(short.kind == Opcode.MATMUL)
    store = int(np.flatnonzero(short.kind == Opcode.STORE)[0])
    made, gone = products.tolist()
    assert (short.via[made], short.via[gone]) == (Via.NONE, Via.SKIPPED)
    assert short.start[store] == short.done[gone] >= short.done[made]
    none = simulate(program, {0: filled(8, 16)})
    assert (none.done[products] == none.start[products]).all()


def test_skipped_products_free_no_array_sooner() -> None:
    """With room for one set of sums, the next go in when the last of those before are out, whatever was skipped."""
    figures = {"systolic_preload_depth": 1, "dataflow": "output_stationary"}
    machine = SKIPS.with_(**figures, dram_bytes_per_second=10**12, dma_bytes_per_cycle=4096)
    first = filled(32, 16, *[(row, 0) for row in range(4)])  # of each chain the second product is skipped
    trace = simulate(matmul_chain(32, 8, 16, 8, slots=8), {0: first}, machine)
    products = np.flatnonzero(trace.kind == Opcode.MATMUL)
    made, gone = products[0::2], products[1::2]
    assert (trace.via[made] == Via.NONE).all() and (trace.via[gone] == Via.SKIPPED).all()
    assert (trace.phase[made][1:] - 8 >= trace.done[made][:-1]).all()
    assert trace.phase[made][1] - 8 == trace.done[made][0]
    stores = np.flatnonzero(trace.kind == Opcode.STORE)
    assert (trace.start[stores] >= trace.done[made]).all()
    assert slack_of(trace).min() >= 0


def test_what_is_not_known_is_not_skipped() -> None:
    program = matmul_chain(16, 16, 16, 8)
    empty = filled(16, 16)
    plain = simulate(program, {0: empty}, load_machine("edge-8x8"))
    assert not (plain.via == Via.SKIPPED).any()
    assert np.array_equal(plain.end, simulate(program, {}).end)
    written = simulate(program, {2: empty})  # the result: what it held before says nothing
    assert not (written.via == Via.SKIPPED).any()


def test_a_tile_that_is_written_loses_its_flag() -> None:
    made = Made()
    made.argument("x", (8, 8))
    made.argument("out", (8, 8), written=True)
    for name in "ab":
        made.buffer(name, 64)
    made.load(made.dram("x", (8, 8)), made.pad("a", (8, 8)))
    made.matmul(made.pad("a", (8, 8)), made.pad("a", (8, 8)), made.pad("b", (8, 8)))
    made.vector([], made.pad("a", (1, 8)), (0, 0, 0, 1))  # one row of it
    made.matmul(made.pad("a", (8, 8)), made.pad("a", (8, 8)), made.pad("b", (8, 8)), accumulates=True)
    made.store(made.pad("b", (8, 8)), made.dram("out", (8, 8)))
    trace = simulate(made.build(), {0: filled(8, 8)})
    assert trace.via.tolist() == [Via.SKIPPED, Via.SKIPPED, Via.NONE, Via.NONE, Via.DRAM]


def test_passes_over_zeros_are_made() -> None:
    trace = simulate(elementwise(4), {0: np.zeros(4 * 8 * 64, np.bool_)})
    kinds = {Opcode(kind).name for kind in trace.kind[trace.via == Via.SKIPPED]}
    assert kinds == {"LOAD"}
    assert trace.counters["alu"] == 4 * 8 * 64 * 2


def test_banked_memory_and_energy_see_only_what_is_left() -> None:
    program, data = matmul_chain(16, 16, 16, 8), {0: filled(16, 16, (0, 0))}
    trace = simulate(program, data, SKIPS.with_(memory="banked"))
    moved = trace.counters["dram_read_bytes"] + trace.counters["dram_write_bytes"]
    assert moved == trace.bytes.sum()
    assert sum(row["reads"] for row in channels_of(trace)) * 64 == trace.counters["dram_request_bytes"] - 8 * TILE
    macs = {spent.kind: spent.count for spent in energy_of(trace) if spent.unit == "systolic"}
    assert macs == {"mac": trace.counters["macs"]}
    assert slack_of(trace).min() >= 0


def test_a_resident_tensor_is_kept_without_its_zeros() -> None:
    machine = SKIPS.with_(common_memory_bytes=1 << 16, common_memory_bytes_per_second=10**10)
    resident = Resident("a", 0, 1024, 0, 1, alone=False)
    trace = simulate(matmul_chain(16, 16, 16, 8), {0: filled(16, 16, (0, 0))}, machine, resident, times=2)
    first, second = np.split(trace.via[np.isin(trace.kind, [Opcode.LOAD])], 2)
    # the only full tile of the left factor is loaded twice a launch, the right factor's four tiles twice each
    assert [(each == Via.SECOND).sum() for each in (first, second)] == [1, 2]
    assert (first == Via.SKIPPED).sum() == (second == Via.SKIPPED).sum() == 6


def test_repeated_launches_with_other_zeros_are_others() -> None:
    program = matmul_chain(16, 16, 16, 8)
    places = (0, 1 << 16, 2 << 16)
    launches = [
        Launched("k", program, places, filled={0: filled(16, 16, *tiles)}) for tiles in ([], [(0, 0)], [(0, 0)])
    ]
    once, each = (run_launches(launches, SKIPS, repeats=repeats) for repeats in (True, False))
    assert once.digest() == each.digest()
    assert len({tuple(once.via[once.launch == launch]) for launch in range(3)}) == 2


def test_invariants_see_what_should_not_have_been_skipped() -> None:
    trace = simulate(matmul_chain(16, 16, 16, 8), {0: filled(16, 16, (0, 0))})
    other = replace(trace.launches[0], filled={0: filled(16, 16, (0, 0), (1, 1))})  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvariantViolation, match="what it loads is not known to be zeros"):
        replace(trace, launches=(other,)).invariants()
    product = int(np.flatnonzero((trace.kind == Opcode.MATMUL) & (trace.via == Via.NONE))[0])
    via = trace.via.copy()
    via[product] = Via.SKIPPED
    with pytest.raises(InvariantViolation, match=f"instruction {product} .* none of its factors"):
        replace(trace, via=via).invariants()


def test_data_that_does_not_reach_as_far_as_the_tensor_is_refused() -> None:
    with pytest.raises(LaunchError, match="`filled` does not tell: it has 100"):
        simulate(matmul_chain(16, 16, 16, 8), {0: np.zeros(100, np.bool_)})


def test_the_figure_is_true_or_false() -> None:
    with pytest.raises(MachineError, match="expected true or false"):
        load_machine("edge-8x8", skips_zero_tiles=1)
    assert not any(load_machine(name).core.skips_zero_tiles for name in ("edge-8x8", "tpu-v2", "tpu-v3", "tpu-v4"))
