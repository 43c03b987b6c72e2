"""The engine against the closed forms that stand in the units' docstrings."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from simulator import Machine, Trace, load_machine
from simulator.errors import MachineError
from simulator.tileprogram.program import I64, Access, Opcode, TileProgram
from simulator.units import dma, vector
from simulator.units.systolic import matmul_cost, passes, shares
from tests.simulator.build import Made, at_peak, elementwise, run

TPU, EDGE = load_machine("tpu-v3", launch_overhead_cycles=0, weight_switch_cycles=0), load_machine("edge-8x8")


def one_matmul(m: int, n: int, k: int, stationary: int = 1) -> TileProgram:
    made = Made()
    for name, elements in (("a", m * k), ("b", k * n), ("c", m * n)):
        made.buffer(name, elements)
    made.matmul(made.pad("a", (m, k)), made.pad("b", (k, n)), made.pad("c", (m, n)), stationary=stationary)
    return made.build()


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 128), (1, 128, 128), (512, 128, 128), (37, 100, 64), (5, 1, 3)])
def test_one_tile_on_an_idle_array(m: int, n: int, k: int) -> None:
    assert run(one_matmul(m, n, k), TPU).makespan == k + (m - 1) + (k + n - 1)


def test_what_a_tile_leaves_empty_of_the_array_is_not_passed() -> None:
    """An array twice as large takes as long for what fits into either, and its sums are where they leave."""
    for figures in ({}, {"dataflow": "output_stationary"}, {"systolic_preload_depth": 1}):
        machine = EDGE.with_(**figures)
        larger = machine.with_(systolic_rows=16, systolic_columns=16)
        assert run(one_matmul(7, 5, 6), machine).makespan == run(one_matmul(7, 5, 6), larger).makespan


BY_HAND = {
    "a full tile, R x C array, S rows streamed: 2R + C + S - 2": (one_matmul(64, 8, 8), EDGE, 2 * 8 + 8 + 64 - 2),
    "the left operand stays": (one_matmul(100, 37, 64, stationary=0), TPU, 64 + (37 - 1) + (64 + 100 - 1)),
    "a precision of three products streams three times": (
        one_matmul(256, 128, 128), TPU.with_(matmul_precision="bf16_3x"), 128 + 2 * 256 + 255 + 255
    ),
    "2 x 2 tiles: one preload shows, and no row enters while a set of weights takes another's place": (
        one_matmul(256, 256, 256), TPU.with_(systolic_arrays=1, weight_switch_cycles=40), 128 + 4 * (40 + 256) - 1 + 255
    ),
    "a full tile of sums that stay, k products each: 2R + C + k - 2": (
        one_matmul(8, 8, 64), EDGE.with_(dataflow="output_stationary"), 2 * 8 + 8 + 64 - 2
    ),
    "sums of three products stream three times as many columns": (
        one_matmul(128, 128, 256),
        TPU.with_(dataflow="output_stationary", matmul_precision="bf16_3x"),
        3 * 256 + 128 + 254,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_a_product_takes_what_it_takes_by_hand(case: str) -> None:
    program, machine, cycles = BY_HAND[case]
    assert run(program, machine).makespan == cycles


@pytest.mark.parametrize(("m", "n", "k"), [(64, 16, 16), (3, 16, 20), (9, 17, 9), (8, 24, 40)])
def test_a_matmul_of_many_tiles_is_their_sum(m: int, n: int, k: int) -> None:
    rows = [min(8, k - start) for _ in range(0, n, 8) for start in range(0, k, 8)]
    expected = rows[0] + sum(max(m, tile) for tile in rows[1:]) + (m - 1) + (8 + 8 - 1)
    assert run(one_matmul(m, n, k), EDGE).makespan == expected


@pytest.mark.parametrize(
    ("precision", "factor_bytes", "times"),
    [("bf16_6x", 1, 1), ("bf16_6x", 2, 1), ("bf16_6x", 4, 6), ("bf16_6x", 8, 24), ("bf16", 8, 24), ("f32", 8, 4)],
)
def test_only_wide_factors_take_several_products(precision: str, factor_bytes: int, times: int) -> None:
    """One of 64 bits is two halves of 32, all of whose digits count."""
    machine = load_machine("tpu-v3", matmul_precision=precision)
    program = one_matmul(256, 128, 128)
    program = replace(program, element_bytes=np.where(program.access == Access.READ, factor_bytes, 4).astype(np.int32))
    assert passes(program, machine).tolist() == [times]


def test_batches_stream_one_after_another() -> None:
    extent: I64 = np.array([[3, 64, 8, 8, 1]])
    cost = matmul_cost(extent, np.ones(1, np.uint8), EDGE)
    on_an_idle_array = cost.preload + cost.stream + cost.drain
    assert on_an_idle_array.tolist() == [8 + 2 * 64 + 63 + 15]


def test_tiles_back_to_back_hide_their_preload() -> None:
    """Independent matmuls on the one array of the edge machine: each adds exactly its stream."""
    made, count, m = Made(), 5, 32
    made.buffer("a", m * 8)
    made.buffer("b", 64, count)
    made.buffer("c", m * 8, count)
    for slot in range(count):
        made.matmul(made.pad("a", (m, 8)), made.pad("b", (8, 8), slot), made.pad("c", (m, 8), slot))
    trace = run(made.build(), EDGE)
    assert trace.makespan == 8 + count * m - 1 + 15
    assert (trace.end - trace.start).tolist() == [8 + m, *[m] * (count - 1)]
    assert (trace.phase - trace.start).tolist() == [8, *[0] * (count - 1)]


def chain(steps: int, machine: Machine, *, accumulates: bool = True, rows: int = 32) -> Trace:
    made = Made()
    made.buffer("a", rows * 8, steps)
    made.buffer("b", 64, steps)
    made.buffer("c", rows * 8)
    for slot in range(steps):
        operands = made.pad("a", (rows, 8), slot), made.pad("b", (8, 8), slot), made.pad("c", (rows, 8))
        made.matmul(*operands, accumulates=accumulates and slot > 0)
    return run(made.build(), machine)


def test_a_k_chain_does_not_drain_between_its_matmuls() -> None:
    trace = chain(6, EDGE)
    assert trace.makespan == 8 + 6 * 32 - 1 + 15
    assert set(trace.unit.tolist()) == {8}


def test_a_k_chain_stays_on_its_array() -> None:
    assert len(set(chain(6, load_machine("tpu-v4")).unit.tolist())) == 1


def test_matmuls_that_overwrite_each_other_do_drain() -> None:
    each = 8 + 31 + 15  # nothing hidden: the next begins when the last is complete
    assert chain(6, EDGE, accumulates=False).makespan == 6 * each


def test_accumulators_in_the_scratchpad_drain_every_time() -> None:
    assert chain(6, load_machine("edge-8x8", accumulator_residence="scratchpad")).makespan == 6 * (8 + 31 + 15)


SUMS = {"dataflow": "output_stationary", "systolic_rows": 4, "systolic_columns": 6}
"""Sums that stay, in an array that is no square: rows and columns leave 4 + 6 - 2 cycles from first to last."""


@pytest.mark.parametrize(("m", "n", "k"), [(64, 16, 16), (3, 16, 20), (9, 17, 9), (4, 6, 40), (1, 1, 1)])
@pytest.mark.parametrize("depth", [1, 2])
def test_weights_in_an_array_that_is_no_square(m: int, n: int, k: int, depth: int) -> None:
    """Tiles of 4 x 6; with one set of weights each tile is over before the next one's weights move in."""
    machine = EDGE.with_(systolic_rows=4, systolic_columns=6, systolic_preload_depth=depth)
    tiles = [min(4, k - start) for _ in range(0, n, 6) for start in range(0, k, 4)]
    fill = min(4, k) + min(6, n) - 2
    expected = tiles[0] + sum(max(m, tile) for tile in tiles[1:]) + m + fill
    if depth == 1:
        expected = sum(tile + m + fill for tile in tiles)
    assert run(one_matmul(m, n, k), machine).makespan == expected
    assert run(one_matmul(n, m, k, stationary=0), machine).makespan == expected


@pytest.mark.parametrize(("m", "n", "k"), [(64, 16, 16), (3, 16, 20), (9, 17, 2), (4, 6, 40), (1, 1, 1), (5, 7, 3)])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_matmul_whose_sums_stay_is_the_sum_of_its_tiles(m: int, n: int, k: int, depth: int) -> None:
    machine = EDGE.with_(**SUMS, systolic_preload_depth=depth)
    tiles, fill = [min(4, m - start) for _ in range(0, n, 6) for start in range(0, m, 4)], min(4, m) + min(6, n) - 2
    expected = sum(max(k, tile) for tile in tiles[:-1]) + k + fill + tiles[-1]
    if depth == 1:
        expected = sum(k + fill + tile for tile in tiles)
    assert run(one_matmul(m, n, k), machine).makespan == expected


@pytest.mark.parametrize("depth", [1, 2])
def test_sums_that_stay_do_not_drain_within_a_chain(depth: int) -> None:
    """32 rows of sums take four tiles, which move out and in again; 8 rows stay. (EDGE is 8 x 8)"""
    machine = EDGE.with_(dataflow="output_stationary", systolic_preload_depth=depth)
    assert chain(6, machine, rows=8).makespan == 6 * 8 + 8 + 14
    four = [*range(6 * 4)]
    moving = 8 * len(four) + 14 + 8 if depth == 2 else len(four) * (8 + 14 + 8) + 5 * 4 * 8
    assert chain(6, machine, rows=32).makespan == moving


def test_sums_that_made_room_for_others_move_in_again() -> None:
    """Two chains that take turns on the only array: each matmul but the first two brings its 8 rows back."""
    made = Made()
    made.buffer("a", 64)
    made.buffer("c", 64, 2)
    square = (8, 8)
    for step in range(6):
        operands = made.pad("a", square), made.pad("a", square), made.pad("c", square, step % 2)
        made.matmul(*operands, accumulates=step > 1)
    one = EDGE.with_(dataflow="output_stationary", systolic_preload_depth=1)
    assert run(made.build(), one).makespan == 6 * (8 + 14 + 8) + 4 * 8
    assert run(made.build(), one.with_(systolic_preload_depth=2)).makespan == 6 * 8 + 14 + 8


def test_one_set_of_weights_waits_for_the_last_result_before_it() -> None:
    """Matmul after matmul as tile after tile, and what a chain saves is not the weights' time."""
    one = EDGE.with_(systolic_preload_depth=1)
    assert chain(6, one).makespan == 6 * (8 + 32 + 14)
    assert chain(6, one, accumulates=False).makespan == 6 * (8 + 32 + 14)


@pytest.mark.parametrize(("m", "n", "expected"), [(512, 100, (1, (256, 256))), (100, 512, (2, (256, 256)))])
def test_arrays_whose_sums_stay_share_tiles_of_rows_too(m: int, n: int, expected: tuple[int, tuple[int, ...]]) -> None:
    machine = TPU.with_(dataflow="output_stationary")
    assert shares(1, m, n, machine) == expected
    assert shares(1, 129, 1, machine) == (1, (128, 1))


def test_more_than_two_sets_are_refused() -> None:
    with pytest.raises(MachineError, match="systolic_preload_depth = 3: expected 1 or 2"):
        load_machine("edge-8x8", systolic_preload_depth=3)
    with pytest.raises(MachineError, match="xpected one of weight_stationary, output_stationary"):
        load_machine("edge-8x8", dataflow="row_stationary")


def test_other_chains_take_the_array_that_is_free_first() -> None:
    made = Made()
    made.buffer("a", 128 * 128)
    made.buffer("b", 128 * 128)
    made.buffer("c", 128 * 128, 4)
    square = (128, 128)
    for slot in (0, 0, 0, 1, 2, 3):
        first = not any(row.operands[2].slot == slot for row in made.builder.instructions)
        made.matmul(made.pad("a", square), made.pad("b", square), made.pad("c", square, slot), accumulates=not first)
    trace = run(made.build(), TPU)
    names = [trace.unit_names[unit] for unit in trace.unit.tolist()]
    assert names == ["mxu0", "mxu0", "mxu0", "mxu1", "mxu1", "mxu1"]
    assert trace.makespan == 128 + 3 * 128 - 1 + 255 + 3  # the second chain is issued three cycles later


def one_pass(
    extent: tuple[int, ...], counts: tuple[int, int, int, int], *, lane: int = 0, reduction: int = 0, size: int = 4
) -> TileProgram:
    made = Made()
    made.buffer("x", math.prod(extent) * size // 4 + 1)
    made.vector([], made.pad("x", (1,)), counts, extent=extent, lane=lane, reduction=reduction)
    return made.build()


@pytest.mark.parametrize(
    ("extent", "counts", "cycles"),
    [
        ((128, 8), (1, 0, 0, 0), 1),  # one vector, one add
        ((128, 80), (1, 0, 0, 0), 10),  # a vector a cycle goes in, though two ALUs would manage two
        ((128, 80), (4, 0, 0, 0), 4 + 20 - 2),
        ((129, 8), (4, 0, 0, 0), 4 + 4 - 2),  # the 129th lane takes a second vector
        ((128, 8), (0, 1, 0, 0), 10),  # one exp
        ((128, 80), (0, 1, 0, 0), 10 + 9),  # one of ten goes in each cycle
        ((128, 80), (3, 2, 0, 0), 23 + 20 - 2),  # the ALUs work beside the special functions
        ((128, 80), (0, 0, 1, 3), 4 + 20 - 2),  # conversions and moves go through the ALUs
        ((), (2, 0, 0, 0), 2),
    ],
)
def test_a_vector_pass(extent: tuple[int, ...], counts: tuple[int, int, int, int], cycles: int) -> None:
    assert run(one_pass(extent, counts, lane=0 if extent else -1), TPU).makespan == cycles


def test_reductions_end_in_trees() -> None:
    step, add = TPU.vector.cross_lane_step_cycles, TPU.vector.alu_latency_cycles
    plain = run(one_pass((128, 64), (1, 0, 0, 0)), TPU).makespan
    # 64 elements of a row lie in its lane, 8 to a vector: they fold in 3 steps
    assert run(one_pass((128, 64), (1, 0, 0, 0), reduction=0b10), TPU).makespan == plain + 3
    # 128 lanes meet in 7 steps, for 64 results in 8 vectors; the last vector's add is all that is seen of a step's adds
    assert run(one_pass((128, 64), (1, 0, 0, 0), reduction=0b01), TPU).makespan == plain + 7 * (8 * step + add)
    # both: 3 folds, then 7 steps for the one result
    assert run(one_pass((128, 64), (1, 0, 0, 0), reduction=0b11), TPU).makespan == plain + 3 + 7 * (step + add)


@pytest.mark.parametrize("lanes", [16, 128])
@pytest.mark.parametrize(("step", "add"), [(1, 1), (2, 1), (3, 5)])
def test_a_dim_longer_than_the_lanes_crosses_them_once(lanes: int, step: int, add: int) -> None:
    """Its parts are added up lane by lane before, which is the pass itself: four vectors for each of the results."""
    machine = TPU.with_(vector_lanes=lanes, cross_lane_step_cycles=step, alu_latency_cycles=add)
    trees = {}
    for times in (1, 4):
        shape = (times * lanes, 64)
        with_trees, plain = (run(one_pass(shape, (1, 0, 0, 0), reduction=each), machine) for each in (0b01, 0))
        assert plain.makespan == times * 8
        trees[times] = with_trees.makespan - plain.makespan
    assert trees[1] == trees[4] == math.log2(lanes) * (8 * step + add)


def test_the_way_across_the_lanes_is_a_pipeline() -> None:
    """Each vector of results more adds its moves alone: the adds of one hide behind the moves of the next."""
    machine = TPU.with_(cross_lane_step_cycles=2, alu_latency_cycles=6)
    extents = [(128, 8 * vectors) for vectors in (1, 2, 3, 10)]
    trees = [
        run(one_pass(extent, (1, 0, 0, 0), reduction=0b01), machine).makespan
        - run(one_pass(extent, (1, 0, 0, 0)), machine).makespan
        for extent in extents
    ]
    assert trees == [7 * (2 * vectors + 6) for vectors in (1, 2, 3, 10)]


def test_a_special_function_unit_may_take_several_cycles_a_vector() -> None:
    assert run(one_pass((128, 80), (0, 1, 0, 0)), TPU.with_(special_interval_cycles=10)).makespan == 100


def a_pass_of_tiles(walks: tuple[int, ...], contiguous: tuple[int, ...], reads: tuple[int, ...]) -> TileProgram:
    """A pass over 256 x 64 that reads one tile and writes another; `lane` is dim 0."""
    made = Made()
    made.buffer("x", math.prod(reads))
    made.buffer("y", 256 * 64)
    made.vector([made.pad("x", reads)], made.pad("y", (256, 64)), extent=(256, 64))
    program = made.build()
    return replace(program, ops=(replace(program.ops[0], walks=walks, contiguous=contiguous),))


def test_what_lies_across_the_lanes_is_turned() -> None:
    plain = run(a_pass_of_tiles((), (), (256, 64)), TPU).makespan
    assert run(a_pass_of_tiles((0b11, 0b11), (0, 0), (256, 64)), TPU).makespan == plain
    vectors = 2 * 64 // 8
    one = run(a_pass_of_tiles((0b11, 0b11), (1, 0), (256, 64)), TPU).makespan
    assert one == plain + vectors * TPU.vector.transpose_cycles_per_vector
    both = run(a_pass_of_tiles((0b11, 0b11), (1, 1), (256, 64)), TPU).makespan
    assert both == plain + 2 * vectors * TPU.vector.transpose_cycles_per_vector


def test_what_all_lanes_share_is_spread_over_them() -> None:
    plain = run(a_pass_of_tiles((), (), (256, 64)), TPU).makespan
    # 64 numbers in 8 vectors, each over 128 lanes in 7 steps; the dim's other 128 places take the same vectors
    spread = run(a_pass_of_tiles((0b10, 0b11), (1, 0), (64,)), TPU).makespan
    assert spread == plain + 8 * 7 * TPU.vector.cross_lane_step_cycles
    # over fewer lanes in fewer steps, and still once
    few = TPU.with_(vector_lanes=16)
    plain_few = run(a_pass_of_tiles((), (), (256, 64)), few).makespan
    spread_few = run(a_pass_of_tiles((0b10, 0b11), (1, 0), (64,)), few).makespan
    assert spread_few == plain_few + 8 * 4 * few.vector.cross_lane_step_cycles
    # what lies along the lanes and is the same for all else is where it is needed
    assert run(a_pass_of_tiles((0b01, 0b11), (0, 0), (256,)), TPU).makespan == plain


def test_the_lanes_go_along_what_is_cheapest() -> None:
    def lane(walks: tuple[int, ...], contiguous: tuple[int, ...], **figures: int) -> int:
        machine = load_machine("tpu-v3", **figures)
        return vector.best_lanes(a_pass_of_tiles(walks, contiguous, (256, 64)), machine).lane.tolist()[0]

    assert lane((0b11, 0b11), (1, 1)) == 1, "half the lanes stay empty, but nothing is turned"
    assert lane((0b11, 0b11), (1, 1), transpose_cycles_per_vector=0) == 0, "all lanes are filled"
    assert lane((), ()) == 0


@pytest.mark.parametrize(
    ("batch", "m", "n", "group", "parts"),
    [
        (12, 512, 512, 0, (6, 6)),
        (3, 1, 1, 0, (2, 1)),
        (1, 512, 512, 2, (256, 256)),
        (1, 8, 300, 2, (256, 44)),  # tiles of 128 columns: two and a ragged one
        (1, 512, 128, 1, (256, 256)),
        (1, 128, 128, 0, (1,)),  # each half would take as long to preload as all of it to stream
        (1, 200, 128, 1, (100, 100)),  # preloads that take longer than the streams, and less than a whole stream
        (1, 512, 1025, 1, (256, 256)),  # nine tiles of columns are four and five, halves of the rows are halves
    ],
)
def test_arrays_share_a_product(batch: int, m: int, n: int, group: int, parts: tuple[int, ...]) -> None:
    assert shares(batch, m, n, TPU) == (group, parts)
    assert shares(batch, m, n, EDGE) == (0, (batch,)), "one array has nobody to share with"


def one_load(shape: tuple[int, ...], strides: tuple[int, ...] | None = None, offset: int = 0) -> TileProgram:
    made = Made()
    made.argument("x", (64, 4096))
    made.buffer("t", math.prod(shape))
    source = made.dram("x", shape, offset)
    if strides:
        source = type(source)(source.space, 0, 0, offset, shape, strides, 4, Access.READ)
    made.load(source, made.pad("t", shape))
    return made.build()


@pytest.mark.parametrize("machine", [TPU, EDGE])
def test_a_copy_alone_takes_its_transfer_and_the_latency(machine: Machine) -> None:
    size = 16 * 4096 * 4
    assert (
        run(one_load((16, 4096)), machine).makespan
        == math.ceil(size / machine.bus_bytes_per_cycle) + machine.dram_latency_cycles
    )


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "requests"),
    [
        ((64, 32), (4096, 1), 0, 64 * 4),  # rows of 128 bytes: 4 requests of 32
        ((64, 1), (4096, 1), 0, 64),  # 4 bytes still cost a request
        ((64, 32), (4096, 1), 4, 64 * 5),  # unaligned rows touch one request more
        ((4096, 16), (1, 4096), 0, 16 * 512),  # a transposed view is contiguous along its other dim
        ((64, 32), (-4096, -1), 63 * 4096 + 31, 64 * 4),  # the same rows, walked backwards
        ((2, 4096), (4096, 1), 0, 1024),  # rows that continue each other are one run
    ],
)
def test_the_memory_moves_whole_requests(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, requests: int
) -> None:
    trace = run(one_load(shape, strides, offset), TPU)
    assert trace.counters["dram_request_bytes"] == requests * 32
    assert trace.counters["dram_read_bytes"] == math.prod(shape) * 4


@pytest.mark.parametrize(
    "machine",
    [
        load_machine("tpu-v2", launch_overhead_cycles=0),
        load_machine("tpu-v4", launch_overhead_cycles=0, dma_bytes_per_cycle=4096),
        EDGE,
    ],
)
def test_copies_share_the_bandwidth_without_loss(machine: Machine) -> None:
    made, count, elements = Made(), 8, 1000 * 8
    made.argument("x", (count, elements))
    made.buffer("t", elements, count)
    for slot in range(count):
        made.load(made.dram("x", (elements,), slot * elements), made.pad("t", (elements,), slot))
    sent = math.ceil(count * elements * 4 / machine.bus_bytes_per_cycle)
    assert run(made.build(), machine).makespan == sent + machine.dram_latency_cycles


@pytest.mark.parametrize("lanes", [32, 128, 256])
@pytest.mark.parametrize(
    ("shape", "strides", "in_rows", "loose"),
    [
        ((64, 128), (4096, 1), 64, 64),
        ((64, 64), (4096, 1), 64, 64),  # half of the width is empty, however many lanes there are
        ((64, 130), (4096, 1), 128, 128),
        ((64, 3), (1, 64), 3, 3),  # turned on its way: what is contiguous outside is moved together
        ((128, 9), (9, 1), 128, 9),  # contiguous at both ends: 4,608 bytes
        ((16, 8, 9), (144, 9, 1), 128, 16),  # weights of half of the channels
        ((2, 64), (-64, -1), 2, 2),  # backwards, row by row
    ],
)
def test_a_queue_moves_up_to_its_width_of_what_lies_together(
    shape: tuple[int, ...], strides: tuple[int, ...], in_rows: int, loose: int, lanes: int
) -> None:
    program, machine = one_load(shape, strides), TPU.with_(vector_lanes=lanes)
    for touched, cycles in ((True, in_rows), (False, loose)):
        moved = dma.transfers(program, (0,), machine, np.array([touched]))
        assert moved.cycles.tolist() == [cycles]


@pytest.mark.parametrize("computed", [False, True])
def test_a_copy_that_transposes_moves_single_elements(computed: bool) -> None:
    """Loaded with rows along the lanes and stored with columns: one of the two finds no neighbours."""
    made = Made()
    made.argument("x", (64, 64))
    made.argument("out", (64, 64), written=True)
    made.buffer("t", 64 * 64)
    made.load(made.dram("x", (64, 64)), made.pad("t", (64, 64)))
    target = replace(made.dram("out", (64, 64)), strides=(1, 64))
    made.store(made.pad("t", (64, 64)), target)
    program = made.build()
    rows = 64 * -(-64 * 4 // TPU.dma.bytes_per_cycle)
    whole = -(-64 * 64 * 4 // TPU.dma.bytes_per_cycle)
    expected = [rows, 64 * 64] if computed else [64 * 64, rows]  # where nothing is computed it lies as it leaves
    moved = dma.transfers(program, (0, 0), TPU, np.array([computed]))
    assert moved.cycles.tolist() == expected
    strides = program.strides.copy()
    strides[program.operand_start[1] + 1] = strides[program.operand_start[0]]
    straight = replace(program, strides=strides)
    moved = dma.transfers(straight, (0, 0), TPU, np.array([computed]))
    assert moved.cycles.tolist() == ([rows, rows] if computed else [whole, whole])


@pytest.mark.parametrize(("strides", "run"), [((0, 1), 64 * 4), ((1, 0), 32 * 4), ((0, 2), 4)])
def test_a_broadcast_is_fetched_in_runs_again_and_again(strides: tuple[int, int], run: int) -> None:
    moved = dma.transfers(one_load((32, 64), strides), (0,), EDGE, np.array([True]))
    assert moved.run.tolist() == [run]
    assert moved.request_bytes.tolist() == [32 * 64 * 4 // run * max(run, EDGE.dram.request_bytes)]


def test_what_a_pass_touches_lies_in_rows() -> None:
    program = elementwise()
    assert dma.in_rows(program).tolist() == [True, True]
    assert dma.in_rows(one_load((64, 3))).tolist() == [False]


def test_a_copy_within_the_scratchpad_leaves_the_memory_alone() -> None:
    made = Made()
    made.buffer("t", 4096, 2)
    source, target = made.pad("t", (4096,), 0), made.pad("t", (4096,), 1, Access.WRITE)
    made.move(Opcode.COPY, source, target)
    trace = run(made.build(), EDGE)
    assert trace.makespan == 4096 * 4 / EDGE.dma.bytes_per_cycle
    assert trace.counters["dram_request_bytes"] == 0


@pytest.mark.parametrize(("counts", "times"), [((4, 0, 0, 0), 4), ((0, 1, 0, 0), 4), ((0, 0, 0, 4), 2)])
def test_an_operation_on_64_bits_is_four_on_32(counts: tuple[int, int, int, int], times: int) -> None:
    """A product of two halves each, and the sums of those; a move is one of each half."""
    made = Made()
    made.buffer("x", 8 * 4096)
    made.vector([made.pad("x", (8, 4096))], made.pad("x", (8, 4096)), counts, lane=0)
    program, machine = made.build(), EDGE.with_(alu_latency_cycles=1, special_latency_cycles=1)
    wide = replace(program, ops=tuple(replace(op, wide_counts=op.class_counts) for op in program.ops))
    narrow, taken = (vector.vector_cycles(each, machine).item() for each in (program, wide))
    assert taken == pytest.approx(times * narrow, rel=0.01)
    narrow, taken = (vector.operations(each).sum() for each in (program, wide))
    assert taken == times * narrow, "and so is its energy"


def test_what_is_narrow_in_a_pass_with_numbers_of_64_bits_costs_what_it_does_alone() -> None:
    """Of six operations one on 64 bits: as if there were three more."""
    made = Made()
    made.buffer("x", 8 * 4096)
    made.vector([made.pad("x", (8, 4096))], made.pad("x", (8, 4096)), (6, 0, 0, 0), lane=0)
    program, machine = made.build(), EDGE.with_(alu_latency_cycles=1, special_latency_cycles=1)
    mixed = replace(program, ops=tuple(replace(op, wide_counts=(1, 0, 0, 0)) for op in program.ops))
    mixed = replace(mixed, element_bytes=np.where(np.arange(len(mixed.element_bytes)), mixed.element_bytes, 8))
    narrow, taken = (vector.vector_cycles(each, machine).item() for each in (program, mixed))
    assert taken == pytest.approx(narrow * 9 / 6, rel=0.01)


@pytest.mark.parametrize(("element", "computed", "vectors"), [(4, 0, 2), (2, 0, 1), (2, 4, 2), (1, 2, 1), (8, 0, 2)])
def test_lanes_hold_as_many_numbers_as_the_widest_lets(element: int, computed: int, vectors: int) -> None:
    """Of 64 bits as many as of 32: their operations count as several."""
    made = Made()
    made.buffer("x", 8 * 16)
    made.vector([made.pad("x", (8, 16))], made.pad("x", (8, 16)), lane=0)
    program = made.build()
    ops = tuple(replace(op, computed_bytes=computed) for op in program.ops)
    program = replace(program, ops=ops, element_bytes=np.full_like(program.element_bytes, element))
    assert vector.vectors(program, EDGE).tolist() == [vectors]


def test_arrays_are_taken_as_they_come_free_or_in_turn() -> None:
    """A long product, then three short ones: all beside it, or every other one behind it."""
    made = Made()
    for name, elements in (("a", 4000 * 8), ("b", 64), ("c", 4000 * 8), ("d", 64), ("e", 64), ("f", 64)):
        made.buffer(name, elements)
    made.matmul(made.pad("a", (4000, 8)), made.pad("b", (8, 8)), made.pad("c", (4000, 8)))
    for name in ("d", "e", "f"):
        made.matmul(made.pad("a", (8, 8)), made.pad("b", (8, 8)), made.pad(name, (8, 8)))
    program, arrays = made.build(), EDGE.with_(systolic_arrays=2)
    taken = {
        choice: run(program, arrays.with_(systolic_selection=choice)).unit.tolist()
        for choice in ("earliest", "in_turn")
    }
    first = arrays.dma.queues
    assert taken == {"earliest": [first, *[first + 1] * 3], "in_turn": [first, first + 1] * 2}


def test_the_bus_serves_first_who_was_ready_first() -> None:
    """A store that stands before a load in the program, and is ready later, while a long load holds the bus."""
    made = Made()
    made.argument("x", (4096,))
    made.argument("y", (64,))
    made.argument("out", (64,), written=True)
    for name, elements in (("long", 4096), ("made", 64), ("short", 64)):
        made.buffer(name, elements)
    made.load(made.dram("x", (4096,)), made.pad("long", (4096,)))
    made.vector([], made.pad("made", (64,)), (0, 2, 0, 0))
    made.store(made.pad("made", (64,)), made.dram("out", (64,)))
    made.load(made.dram("y", (64,)), made.pad("short", (64,)))
    machine = at_peak()
    trace = run(made.build(), machine)
    held = 4096 * 4 // machine.bus_bytes_per_cycle
    each = 64 * 4 // machine.bus_bytes_per_cycle
    assert trace.start[[0, 3, 2]].tolist() == [0, held, held + each]
    assert trace.done[1] > trace.issue[3]


def test_few_ports_let_less_through_than_the_memory_could_give() -> None:
    made = Made()
    made.argument("x", (4096,))
    made.buffer("b", 4096)
    made.load(made.dram("x", (4096,)), made.pad("b", (4096,)))
    program, requests = made.build(), 4096 * 4 // TPU.dram.request_bytes
    least = math.ceil(4096 * 4 / (TPU.dram_bytes_per_cycle * Fraction(str(TPU.dram.stream_share))))
    assert requests // 16 < least < requests // 8
    taken = {ports: run(program, TPU.with_(interconnect_ports=ports)).makespan for ports in (1, 4, 8, 16, 64)}
    sent = {ports: max(requests // ports, least) for ports in taken}
    assert taken == {ports: cycles + TPU.dram_latency_cycles for ports, cycles in sent.items()}


def test_thousands_of_arrays_are_shared_out_without_trying_every_number_of_them() -> None:
    before = time.perf_counter()
    group, parts = shares(1, 9000, 90_000, load_machine("edge-8x8", systolic_arrays=4096))
    assert time.perf_counter() - before < 1, "8 seconds when each number was tried"
    assert group == 2 and sum(parts) == 90_000 and len(parts) <= 4096 and max(parts) == 24


@pytest.mark.parametrize(("classes", "more"), [((1, 0, 0, 0), 20), ((0, 0, 1, 0), 20), ((0, 0, 0, 1), 0)])
def test_halves_are_widened_and_narrowed_whatever_is_done_with_them(
    classes: tuple[int, int, int, int], more: int
) -> None:
    """Ten operations for each operand of two bytes; a pass that only moves them takes none."""
    made = Made()
    for name in ("x", "y"):
        made.buffer(name, 16384)
    source, target = (replace(made.pad(name, (128, 128)), element_bytes=2) for name in ("x", "y"))
    made.vector([source], target, classes)
    program = made.build()
    plain = TPU.with_(vector_narrowest_float_bytes=1)
    assert vector.vectors(program, TPU)[0] == (16 if more else 8) and vector.vectors(program, plain)[0] == 8
    operations, count = 1 + more, 16 if more else 8
    slots = [-(-each * operations // TPU.vector.alus) for each in (1, count)]
    assert vector.vector_cycles(program, TPU)[0] == max(count, operations + slots[1] - slots[0])
