"""Loops of direct accesses: the closed forms of the scalar unit, its bytes, and how it shares the memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from simulator import Cause, Launched, load_machine, machine_names, simulate, verify
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.stalls import traffic_of
from simulator.errors import ProgramError
from simulator.tileprogram.program import Access, Opcode, Operand, TileProgram
from tests.broken_programs import drop_edge, implied
from tests.simulator.build import EDGE, Made, direct_copy, elements, run, tiled_copy

READ, WRITE = Access.READ, Access.WRITE
FAR, NEAR = EDGE.dram_latency_cycles, EDGE.scratchpad.latency_cycles
OUTSTANDING = EDGE.scalar.outstanding


def one_loop(
    accesses: Callable[[Made], list[Operand]], counts: tuple[int, int, int, int] = (0, 0, 0, 1)
) -> TileProgram:
    made = Made()
    made.argument("x", (4096,))
    made.argument("out", (4096,), written=True)
    made.buffer("t", 4096)
    made.direct(*accesses(made), counts=counts)
    return made.build()


def copy(made: Made, count: int) -> list[Operand]:
    return [elements(made.dram("x", (count,))), elements(made.dram("out", (count,)), WRITE)]


def test_one_element_is_read_and_then_written() -> None:
    assert run(one_loop(lambda made: copy(made, 1))).makespan == 2 * FAR


@pytest.mark.parametrize("count", [1, 7, 768])
@pytest.mark.parametrize("outstanding", [1, 4, 32])
def test_a_copy_goes_as_fast_as_its_latencies_overlap(count: int, outstanding: int) -> None:
    def pace(points: int) -> int:
        return max(2 * points, math.ceil(points * 2 * FAR / outstanding))

    expected = 2 * FAR + pace(count) - pace(1)
    program = one_loop(lambda made: copy(made, count))
    assert run(program, load_machine("edge-8x8", scalar_outstanding=outstanding)).makespan == expected


def test_with_enough_outstanding_the_unit_sends_one_access_a_cycle() -> None:
    machine = load_machine("tpu-v3", launch_overhead_cycles=0, scalar_outstanding=1000)
    expected = 2 * machine.dram_latency_cycles + 2 * 768 - 2
    assert run(one_loop(lambda made: copy(made, 768)), machine).makespan == expected
    faster = load_machine("tpu-v3", launch_overhead_cycles=0, scalar_outstanding=1000, scalar_accesses_per_cycle=2)
    assert run(one_loop(lambda made: copy(made, 768)), faster).makespan == 2 * machine.dram_latency_cycles + 768 - 1


def test_with_even_more_the_memory_is_what_holds_it_up() -> None:
    """Every access is a request of 64 bytes, two cycles of the bus."""
    machine = EDGE.with_(scalar_outstanding=1000, scalar_accesses_per_cycle=4)
    assert run(one_loop(lambda made: copy(made, 768)), machine).makespan == 2 * 768 * 2 + FAR


def test_the_scratchpad_answers_sooner_and_needs_no_bus() -> None:
    program = one_loop(
        lambda made: [elements(made.pad("t", (32,))), elements(made.pad("t", (32,), offset=64), WRITE)], (1, 0, 0, 0)
    )
    trace = run(program)
    assert trace.makespan == NEAR + 1 + NEAR + 2 * 32 - 2  # two accesses a point; the latencies overlap
    assert trace.counters["dram_request_bytes"] == trace.bytes[0] == 0
    assert dict(waterfall_of(trace)) == {"scalar accesses": 64, "scalar latency": trace.makespan - 64}


def test_operations_take_their_time_too() -> None:
    def reads(made: Made) -> list[Operand]:
        return [elements(made.pad("t", (100,)))]

    special, interval = EDGE.vector.special_latency_cycles, EDGE.vector.special_interval_cycles
    assert run(one_loop(reads, (0, 1, 0, 0))).makespan == NEAR + special + 99 * interval
    assert run(one_loop(reads, (3, 0, 1, 0))).makespan == NEAR + 4 + 99 * 4
    assert run(one_loop(reads, (2, 3, 0, 0))).counters["special"] == 300


def test_a_loop_that_reads_what_it_wrote_waits_for_every_answer() -> None:
    def running_sum(made: Made, *, ahead: int = 1, stride: int = 1) -> list[Operand]:
        before, after = made.dram("out", (50,)), made.dram("out", (50,), ahead * stride)
        return [elements(before, stride=stride), elements(after, WRITE, stride=stride)]

    assert run(one_loop(running_sum)).makespan == 50 * 2 * FAR
    assert run(one_loop(lambda made: running_sum(made, stride=3))).makespan == 50 * 2 * FAR
    # two sums side by side, and what is read before it is overwritten
    assert run(one_loop(lambda made: running_sum(made, ahead=2))).makespan == 25 * 2 * FAR
    free = run(one_loop(lambda made: copy(made, 50))).makespan
    assert run(one_loop(lambda made: running_sum(made, ahead=0))).makespan == free
    assert run(one_loop(lambda made: running_sum(made)[::-1])).makespan == 50 * 2 * FAR

    def beside(made: Made, *, read_first: bool) -> list[Operand]:
        """A read and a write that touch but share no byte, in patterns that are not compared exactly."""
        low, high = made.dram("out", (50,)), made.dram("out", (50,), 50)
        read, write = (low, high) if read_first else (high, low)
        return [elements(read, stride=2 - read_first), elements(write, WRITE, stride=1 + read_first)]

    for read_first in (False, True):
        assert run(one_loop(lambda made, first=read_first: beside(made, read_first=first))).makespan == free

    def accumulator(made: Made) -> list[Operand]:
        place = made.pad("t", (50,))
        return [elements(place, stride=0), elements(place, WRITE, stride=0)]

    assert run(one_loop(accumulator, (1, 0, 0, 0))).makespan == 50 * (NEAR + 1 + NEAR)


def test_bytes_are_the_elements_and_requests_are_whole() -> None:
    trace = run(direct_copy(12, 100))
    size = 12 * 100 * 4
    assert trace.bytes.tolist() == [2 * 400] * 12
    assert (trace.counters["dram_read_bytes"], trace.counters["dram_write_bytes"]) == (size, size)
    assert trace.counters["dram_request_bytes"] == 2 * 12 * 100 * 64
    assert [(row["read"], row["written"]) for row in traffic_of(trace)] == [(size, 0), (0, size)]


def test_accesses_that_a_branch_leaves_out_are_not_counted() -> None:
    made = Made()
    made.argument("x", (64,))
    made.argument("out", (64,), written=True)
    made.direct(elements(made.dram("x", (64,))), elements(made.dram("out", (5,), 8), WRITE), points=64)
    trace = run(made.build())
    assert (trace.counters["dram_read_bytes"], trace.counters["dram_write_bytes"]) == (64 * 4, 5 * 4)


def test_an_element_across_a_border_takes_two_requests() -> None:
    made = Made()
    made.argument("x", (64,))
    made.direct(elements(made.dram("x", (1,))))
    trace = simulate([Launched("k", made.build(), (62,))], EDGE)
    assert trace.counters["dram_request_bytes"] == 128


def test_loops_run_one_after_another_on_the_one_scalar_unit() -> None:
    trace = run(direct_copy(5, 64))
    assert [trace.unit_names[unit] for unit in trace.unit] == ["scalar"] * 5
    assert (trace.start[1:] == trace.end[:-1]).all()
    assert [Cause(cause) for cause in trace.cause[1:]] == [Cause.UNIT_BUSY] * 4


def test_a_load_shares_the_bus_with_a_loop() -> None:
    made = Made()
    made.argument("x", (4096,))
    made.argument("out", (4096,), written=True)
    made.buffer("t", 1024)
    made.direct(*copy(made, 512))
    made.load(made.dram("x", (1024,)), made.pad("t", (1024,)))
    trace = run(made.build())
    taken = 2 * 512 * 64 // 32
    assert (trace.start[1], Cause(trace.cause[1])) == (taken, Cause.BANDWIDTH)
    assert trace.end[1] == taken + 128 + FAR
    assert trace.end[1] < trace.end[0]  # beside the loop, not after it


@pytest.mark.parametrize("name", machine_names())
def test_direct_access_is_slower_than_tiles_and_tiles_than_two_of_them(name: str) -> None:
    machine = load_machine(name)
    direct = run(direct_copy(512, 768), machine)
    tiled, doubled = (run(tiled_copy(512, 768, 16, slots), machine) for slots in (1, 2))
    assert direct.makespan > tiled.makespan > doubled.makespan
    for trace in (direct, tiled, doubled):
        assert trace.counters["dram_read_bytes"] == trace.counters["dram_write_bytes"] == 512 * 768 * 4
    label, cycles = waterfall_of(direct)[0]
    assert label == "scalar latency" and cycles > direct.makespan / 2


def waits_both_ways() -> TileProgram:
    """A loop reads what a load brought and writes what a store takes; another writes over what was loaded."""
    made = Made()
    made.argument("x", (64,))
    made.argument("out", (64,), written=True)
    made.buffer("t", 64, 2)
    made.load(made.dram("x", (64,)), made.pad("t", (64,)))
    made.direct(elements(made.pad("t", (64,))), elements(made.pad("t", (64,), 1), WRITE))
    made.store(made.pad("t", (64,), 1), made.dram("out", (64,)))
    made.direct(elements(made.dram("x", (64,))), elements(made.pad("t", (64,)), WRITE))
    made.vector([made.pad("t", (64,))], made.pad("t", (64,), 1))
    return made.build()


def test_loops_wait_and_are_waited_for() -> None:
    program = waits_both_ways()
    run(program)
    needed = [edge for edge in range(len(program.dependence)) if not implied(program, edge)]
    assert len(needed) >= 4
    for edge in needed:
        with pytest.raises(ProgramError, match="does not wait for"):
            verify(drop_edge(program, edge))


def test_the_scalar_unit_is_in_order_but_not_with_the_vector_unit() -> None:
    made = Made()
    made.buffer("t", 64)
    made.direct(elements(made.pad("t", (64,)), WRITE))
    made.direct(elements(made.pad("t", (64,))))
    made.vector([], made.pad("t", (64,)))
    program = made.build()
    assert [implied(program, edge) for edge in range(len(program.dependence))] == [True, False]
    verify(drop_edge(program, 0))
    with pytest.raises(ProgramError, match="instruction 2"):
        verify(drop_edge(program, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: replace(row, operands=()), "is no loop of accesses"),
        (lambda row: replace(row, extent=(4, 16)), "has 2 dims, expected 1"),
        (lambda row: replace(row, extent=(63,)), "accesses 64 elements in 63 iterations"),
        (lambda row: replace(row, operands=(replace(row.operands[0], access=Access.READ_WRITE),)), "not one load or"),
        (lambda row: replace(row, operands=(replace(row.operands[1], target=0),)), "writes argument 'x', an input"),
    ],
)
def test_what_is_no_loop_of_accesses_is_refused(change: Callable[..., object], message: str) -> None:
    made = Made()
    made.argument("x", (64,))
    made.argument("out", (64,), written=True)
    made.direct(*copy(made, 64))
    made.builder.instructions = [change(row) for row in made.builder.instructions]  # type: ignore[misc]
    with pytest.raises(ProgramError, match=message):
        verify(made.build())


def test_a_loop_of_many_elements_is_one_instruction() -> None:
    program = one_loop(lambda made: copy(made, 4096))
    assert len(program) == 1 and program.opcode[0] == Opcode.DIRECT
    assert len(run(program)) == 1
