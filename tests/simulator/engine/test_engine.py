"""Tests the waits of instructions: issue, queues, units, memory; and their record in the trace."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import Cause, Launched, Trace, load_machine, machine_names, simulate
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.stalls import stalls_of, traffic_of
from simulator.errors import DoesNotFit, LaunchError
from simulator.tileprogram.program import TileProgram
from tests.simulator.build import EDGE, Made, elementwise, matmul_chain, run


def loads(count: int, elements: int = 8) -> TileProgram:
    made = Made()
    made.argument("x", (count, elements))
    made.buffer("t", elements, count)
    for slot in range(count):
        made.load(made.dram("x", (elements,), slot * elements), made.pad("t", (elements,), slot))
    return made.build()


def causes(trace: Trace) -> list[Cause]:
    return [Cause(cause) for cause in trace.cause]


def test_a_pipeline_of_one_slot_is_strictly_serial() -> None:
    trace = run(elementwise(tiles=3, slots=1))
    loads_, vectors, stores = trace.start[0::3], trace.start[1::3], trace.start[2::3]
    assert (vectors == trace.end[0::3]).all()
    assert (stores == trace.end[1::3]).all()
    # the slot is free once it is read, but the store of the tile before is first on the bus
    assert (loads_[1:] == trace.phase[2::3][:-1]).all()
    assert causes(trace)[3] == Cause.BANDWIDTH


def test_two_slots_overlap_what_one_serialises() -> None:
    assert run(elementwise(tiles=12, slots=2)).makespan < 0.75 * run(elementwise(tiles=12, slots=1)).makespan


def test_instructions_issue_one_an_interval() -> None:
    trace = run(loads(6), load_machine("edge-8x8", issue_interval_cycles=50))
    assert trace.start.tolist() == [0, 50, 100, 150, 200, 250]
    assert causes(trace) == [Cause.LAUNCH, *[Cause.ISSUE] * 5]
    assert trace.blocker.tolist() == [-1, 0, 1, 2, 3, 4]


def test_one_queue_does_one_copy_at_a_time() -> None:
    trace = run(loads(4), EDGE.with_(dma_queues=1))
    each = 2 + EDGE.dram_latency_cycles  # 32 bytes are one request of 64, two cycles on the bus
    assert trace.start.tolist() == [0, each, 2 * each, 3 * each]
    assert causes(trace)[1:] == [Cause.UNIT_BUSY] * 3


def test_a_full_queue_stops_issue() -> None:
    trace = run(loads(5), EDGE.with_(dma_queues=1, queue_depth=1))
    each = 2 + EDGE.dram_latency_cycles
    assert trace.issue.tolist() == [0, 1, each, 2 * each, 3 * each]
    assert [Cause(cause) for cause in trace.issue_cause[2:]] == [Cause.QUEUE_FULL] * 3
    assert trace.issue_blocker[2:].tolist() == [1, 2, 3]


def test_the_window_holds_issue_until_the_oldest_is_complete() -> None:
    trace = run(loads(4), EDGE.with_(issue_window=2))
    each = 2 + EDGE.dram_latency_cycles
    assert trace.issue.tolist() == [0, 1, each, each + 2]
    assert [Cause(cause) for cause in trace.issue_cause] == [Cause.LAUNCH, Cause.ISSUE, Cause.WINDOW, Cause.WINDOW]


def test_transfers_hold_the_bus_in_turn() -> None:
    trace = run(loads(3, elements=1024))
    assert trace.start.tolist() == [0, 128, 256]
    assert causes(trace)[1:] == [Cause.BANDWIDTH] * 2
    assert trace.blocker.tolist() == [-1, 0, 1]


def test_a_store_that_waits_does_not_hold_the_bus() -> None:
    """A later load whose data is wanted overtakes an earlier store that is still waiting for its result."""
    made = Made()
    made.argument("x", (2, 64))
    made.argument("y", (64,), written=True)
    made.buffer("t", 64, 2)
    made.load(made.dram("x", (64,)), made.pad("t", (64,)))
    made.vector([made.pad("t", (64,))], made.pad("t", (64,)), (0, 50, 0, 0))
    made.store(made.pad("t", (64,)), made.dram("y", (64,)))
    made.load(made.dram("x", (64,), 64), made.pad("t", (64,), 1))
    trace = run(made.build())
    assert trace.start[3] < trace.start[1] < trace.start[2]


def test_launches_run_one_after_another() -> None:
    machine = load_machine("edge-8x8", launch_overhead_cycles=30)
    alone = simulate([Launched("k", elementwise(), (0, 0))], machine)
    twice = simulate([Launched("k", elementwise(), (0, 0)), Launched("l", elementwise(), (0, 0), after=(0,))], machine)
    twice.invariants()
    assert twice.makespan == 2 * alone.makespan
    assert twice.kernel_spans[1] == ("l", alone.makespan + 30, 2 * alone.makespan)
    assert dict(waterfall_of(twice))["launch"] == 60
    assert twice.columns()["kernel"][-1] == "l"


def test_no_launch_is_no_time() -> None:
    trace = simulate([], EDGE)
    trace.invariants()
    assert (trace.makespan, waterfall_of(trace), len(trace)) == (0, [], 0)


def test_a_program_of_nothing_takes_no_time() -> None:
    assert run(Made().build()).makespan == 0


@pytest.mark.parametrize("name", machine_names())
def test_stalls_and_waterfall_add_up(name: str) -> None:
    trace = run(matmul_chain(64, 64, 64, 16), load_machine(name))
    for row in stalls_of(trace):
        assert sum(value for key, value in row.items() if key not in ("unit", "total")) == trace.makespan
    assert sum(cycles for _, cycles in waterfall_of(trace)) == trace.makespan


def test_the_waterfall_of_a_serial_program_is_its_parts() -> None:
    trace = run(elementwise(tiles=1, rows=8, columns=64))
    bus, latency = 8 * 64 * 4 // 32, EDGE.dram_latency_cycles
    vector = int(trace.end[1] - trace.start[1])
    assert sorted(waterfall_of(trace)) == [
        ("load latency", latency),
        ("load transfer", bus),
        ("store latency", latency),
        ("store transfer", bus),
        ("vector", vector),
    ]


def test_bytes_are_counted_by_argument() -> None:
    trace = run(matmul_chain(64, 64, 64, 16))
    size = 64 * 64 * 4
    assert [(row["argument"], row["read"], row["written"]) for row in traffic_of(trace)] == [
        ("a", 4 * size, 0),
        ("b", 4 * size, 0),
        ("out", 0, size),
    ]
    assert trace.counters["macs"] == 64**3


def test_invariants_notice_a_trace_that_was_changed() -> None:
    from dataclasses import replace

    from simulator.errors import InvariantViolation

    trace = run(elementwise())
    start = trace.start.copy()
    start[4] -= 5
    with pytest.raises(InvariantViolation, match="span 4 starts at"):
        replace(trace, start=start).invariants()
    with pytest.raises(InvariantViolation, match="moves 1 bytes, its box has 2048"):
        replace(trace, bytes=np.where(trace.bytes == 0, 0, 1)).invariants()


def test_a_program_larger_than_the_scratchpad_does_not_fit() -> None:
    made = Made()
    made.buffer("big", 60_000)
    made.buffer("small", 10_000)
    with pytest.raises(DoesNotFit) as caught:
        run(made.build())
    assert (caught.value.demand, caught.value.capacity, caught.value.gap) == (280_000, 262_144, 17_856)
    assert caught.value.buffers == (("big", 240_000), ("small", 40_000))


def test_launches_must_make_sense() -> None:
    with pytest.raises(LaunchError, match="gives 1 addresses for 2 arguments"):
        simulate([Launched("k", elementwise(), (0,))], EDGE)
    for address in (-1, 2**60):
        with pytest.raises(LaunchError, match=f"an argument at {address}: no address"):
            simulate([Launched("k", elementwise(), (0, address))], EDGE)
    with pytest.raises(LaunchError, match="waits for launch 0, which is not before it"):
        simulate([Launched("k", elementwise(), (0, 0), after=(0,))], EDGE)


def test_a_queue_takes_no_more_room_than_the_program_could_fill() -> None:
    launches = [Launched("k", matmul_chain(32, 32, 64, 16), (0, 4096, 8192))]
    deep, deeper = (simulate(launches, load_machine("edge-8x8", queue_depth=depth)) for depth in (1000, 2**40))
    assert deeper.makespan == deep.makespan and np.array_equal(deeper.met, deep.met)
