"""The common memory: what stays resident, what that saves, what it costs, and how the plan is followed."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import (
    Cause,
    CommonMemoryFull,
    InvariantViolation,
    Launched,
    LaunchError,
    Machine,
    MachineError,
    Placed,
    Resident,
    Trace,
    load_machine,
    simulate,
)
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.stalls import channels_of, stalls_of
from simulator.machine.optional.common_memory_shape import bytes_per_cycle, latency_cycles
from simulator.optional.common_memory.residents import CommonMemory
from simulator.records.spans import Via
from simulator.tileprogram.program import Instruction, Opcode, TileProgram
from tests.simulator.build import Made, direct_copy, elementwise, matmul_chain
from tests.simulator.engine.test_cores import Cores
from tests.simulator.random_programs import check, machines, plans, with_common_memory

MACHINE = load_machine(
    "edge-8x8",
    common_memory_bytes=1 << 20,
    common_memory_bytes_per_second=51_200_000_000,  # 64 bytes a cycle
    common_memory_latency_ns=20,
)
DRAM = ("dram_read_bytes", "dram_write_bytes")
WEIGHT, X, OUT = 0, 1 << 16, 2 << 16


def run(launches: list[Launched], *residents: Resident, machine: Machine = MACHINE, repeats: bool = True) -> Trace:
    trace = simulate(launches, machine, residents=residents, repeats=repeats)
    trace.invariants()
    return trace


def loads(*shapes_and_offsets: tuple[tuple[int, ...], int]) -> TileProgram:
    """Loads of boxes of a 16x16 tensor, each into a slot of its own."""
    made = Made()
    made.argument("x", (16, 16))
    made.buffer("t", 256, len(shapes_and_offsets))
    for slot, (shape, offset) in enumerate(shapes_and_offsets):
        made.load(made.dram("x", shape, offset), made.pad("t", shape, slot))
    return made.build()


def dram(trace: Trace) -> tuple[int, int]:
    return trace.counters["dram_read_bytes"], trace.counters["dram_write_bytes"]


def common(trace: Trace) -> tuple[int, int]:
    return trace.counters["common_read_bytes"], trace.counters["common_write_bytes"]


def test_the_first_launch_brings_a_weight_and_later_ones_find_it() -> None:
    program = matmul_chain(16, 16, 16, 8)
    launches = [Launched("k", program, (X, WEIGHT, OUT + place)) for place in range(3)]
    before = run(launches)
    after = run(launches, Resident("w", WEIGHT, 16 * 16 * 4, 0, 2, alone=False))
    # two rows of tiles: each box of the weight is loaded twice a launch, and comes from DRAM once in all
    weight = 16 * 16 * 4
    assert dram(after) == (dram(before)[0] - 5 * weight, dram(before)[1])
    assert common(after) == (5 * weight, 0)


def test_a_tensor_between_two_launches_never_sees_dram() -> None:
    program, size = elementwise(), 6 * 8 * 64 * 4
    launches = [Launched("a", program, (X, OUT)), Launched("b", program, (OUT, WEIGHT))]
    before = run(launches)
    after = run(launches, Resident("h", OUT, size, 0, 1, alone=True))
    assert dram(before) == (2 * size, 2 * size)
    assert dram(after) == (size, size)
    assert common(after) == (size, size)


def test_a_result_that_is_kept_is_written_to_both() -> None:
    program, size = elementwise(), 6 * 8 * 64 * 4
    launches = [Launched("a", program, (X, OUT)), Launched("b", program, (OUT, WEIGHT))]
    after = run(launches, Resident("h", OUT, size, 0, 1, alone=False))
    assert (dram(after), common(after)) == ((size, 2 * size), (size, 0))


def test_only_what_was_brought_is_found() -> None:
    """The second launch has other tiles: one lies in what the first has loaded, the others do not."""
    first = loads(((8, 16), 0))
    second = loads(((4, 8), 4 * 16), ((16, 8), 0), ((8, 16), 8 * 16))
    launches = [Launched("a", first, (X,)), Launched("b", second, (X,))]
    after = run(launches, Resident("x", X, 1024, 0, 1, alone=False))
    assert after.via.tolist() == [Via.DRAM, Via.SECOND, Via.DRAM, Via.DRAM]


def test_residence_ends_with_its_interval() -> None:
    program = loads(((16, 16), 0))
    launches = [Launched("k", program, (X,))] * 4
    after = run(launches, Resident("x", X, 1024, 1, 2, alone=False))
    assert after.via.tolist() == [Via.DRAM, Via.DRAM, Via.SECOND, Via.DRAM]


@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_a_copy_costs_latency_and_bandwidth_of_the_common_memory(memory: str) -> None:
    machine = MACHINE.with_(memory=memory)
    assert bytes_per_cycle(machine) == 64
    assert latency_cycles(machine) == 10 + 16  # interconnect, 20 ns at 800 MHz
    launches = [Launched("k", loads(((16, 16), 0)), (X,))] * 2
    trace = run(launches, Resident("x", X, 1024, 0, 1, alone=False), machine=machine)
    queue = -(-1024 // machine.dma.bytes_per_cycle)
    assert trace.end[1] - trace.start[1] == max(1024 // 64, queue) + 26
    if memory == "banked":
        assert channels_of(trace)[0]["reads"] == 1024 // machine.dram.request_bytes


def test_copies_take_turns_and_say_whom_they_waited_for() -> None:
    program = loads(*[((4, 16), 64 * place) for place in range(4)])
    machine = MACHINE.with_(dma_queues=4, dma_bytes_per_cycle=4096)
    trace = run([Launched("k", program, (X,))] * 2, Resident("x", X, 1024, 0, 1, alone=False), machine=machine)
    begin = int(trace.begins[1])
    assert (trace.start[4:] - begin).tolist() == [0, 4, 8, 12]  # 256 bytes at 64 a cycle
    assert [Cause(cause) for cause in trace.cause[5:]] == [Cause.SECOND_MEMORY] * 3
    assert trace.blocker[5:].tolist() == [0, 1, 2]
    assert {row["unit"]: row["common_memory"] for row in stalls_of(trace)}["dma1"] > 0
    assert dict(waterfall_of(trace))["common memory load transfer"] > 0


def test_the_same_box_waits_for_the_one_that_brings_it() -> None:
    trace = run([Launched("k", loads(((16, 16), 0), ((16, 16), 0)), (X,))], Resident("x", X, 1024, 0, 0, alone=False))
    assert trace.via.tolist() == [Via.DRAM, Via.SECOND]
    assert trace.start[1] == trace.done[0]
    assert Cause(trace.cause[1]) == Cause.DATA


def test_a_launch_that_finds_more_is_no_repetition() -> None:
    launches = [Launched("k", matmul_chain(16, 16, 16, 8), (X, WEIGHT, OUT))] * 3
    resident = Resident("w", WEIGHT, 1024, 0, 2, alone=False)
    once, each = run(launches, resident), run(launches, resident, repeats=False)
    assert once.digest() == each.digest()
    assert once.via.tolist() != [*once.via[: len(once) // 3].tolist()] * 3


@pytest.mark.test_all
@settings(max_examples=40, deadline=None, derandomize=True)
@given(plans(), machines(), st.sampled_from([10**9, 3 * 10**10 + 7]), st.integers(0, 100), st.integers(1, 40))
def test_random_plans_keep_all_invariants(
    plan: tuple[list[Launched], list[Resident], list[Placed]], machine: Machine, rate: int, latency: int, stretch: int
) -> None:
    launches, residents, lie = plan
    trace = check(launches, with_common_memory(machine, rate, latency), stretch, residents, lie)
    whole, memory = simulate(launches, machine).counters, CommonMemory(residents)
    spared = [memory.spare(number, launched) for number, launched in enumerate(launches)]
    moved = trace.bytes.reshape(len(launches), -1)
    served = sum(int(moved[number][each.rows].sum()) for number, each in enumerate(spared) if each)
    assert sum(common(trace)) == served == sum(whole[name] - trace.counters[name] for name in DRAM)


def test_cores_find_what_another_brought() -> None:
    """Core 1 waits for core 0's copy of the box; with a barrier between them, what comes after it needs not."""
    made = Cores()
    made.argument("x", (8, 8))
    for core, name in enumerate("ab"):
        made.core = core
        made.buffer(name, 64)
        made.load(made.dram("x", (8, 8)), made.pad(name, (8, 8)))
    two = MACHINE.with_(cores=2)
    trace = run([Launched("k", made.build(), (X,))], Resident("x", X, 256, 0, 0, alone=False), machine=two)
    assert trace.via.tolist() == [Via.DRAM, Via.SECOND]
    assert trace.start[1] == trace.done[0]


def test_a_core_does_not_wait_for_what_another_brings_after_they_meet() -> None:
    """In the program's order core 0 loads after the meeting first; core 1, before it, would wait for ever."""
    made = Cores()
    made.argument("x", (8, 8))
    made.core = 1
    made.buffer("b", 64)
    made.core = 0
    made.buffer("a", 64)
    early = made.barrier(0)
    made.core = 0
    made.load(made.dram("x", (8, 8)), made.pad("a", (8, 8)))
    made.core = 1
    made.load(made.dram("x", (8, 8)), made.pad("b", (8, 8)))
    late = made.add(Instruction(Opcode.BARRIER, 0, (), (), (2,)))
    made.together([*early, late])
    for row in (*early, late):
        made.builder.instructions[row] = dataclasses.replace(made.builder.instructions[row], extent=(2,))
    two = MACHINE.with_(cores=2)
    trace = run([Launched("k", made.build(), (X,))], Resident("x", X, 256, 0, 0, alone=False), machine=two)
    assert trace.via[np.isin(trace.kind, [Opcode.LOAD])].tolist() == [Via.DRAM, Via.DRAM]


def test_without_residents_a_common_memory_changes_nothing() -> None:
    launches = [Launched("k", matmul_chain(16, 16, 16, 8), (X, WEIGHT, OUT))]
    plain = simulate(launches, load_machine("edge-8x8"))
    assert np.array_equal(run(launches).end, plain.end)
    assert "common_memory" not in stalls_of(plain)[0]


def test_more_than_fits_is_told_by_launch_and_tensor() -> None:
    launches = [Launched("k", matmul_chain(16, 16, 16, 8), (X, WEIGHT, OUT))] * 2
    plan = [Resident("w", WEIGHT, 1024, 0, 1, alone=False), Resident("x", X, 1024, 1, 1, alone=False)]
    run(launches, *plan, machine=MACHINE.with_(common_memory_bytes=2048))
    full = r"launch 1 \(counted from 0\) needs 2,048 bytes .* has 2,047.*\n- w: 1,024 bytes"
    with pytest.raises(CommonMemoryFull, match=full):
        run(launches, *plan, machine=MACHINE.with_(common_memory_bytes=2047))
    with pytest.raises(CommonMemoryFull, match="has none"):
        run(launches, *plan, machine=load_machine("edge-8x8"))


def test_single_elements_are_not_served() -> None:
    launches = [Launched("k", direct_copy(4, 8), (X, OUT))]
    with pytest.raises(LaunchError, match="a DIRECT asks for elements of 'x'"):
        run(launches, Resident("x", X, 128, 0, 0, alone=False))


def test_a_copy_beyond_the_resident_is_refused() -> None:
    with pytest.raises(LaunchError, match="leaves 'x', which is resident with 1000 bytes"):
        run([Launched("k", loads(((16, 16), 0)), (X,))], Resident("x", X, 1000, 0, 0, alone=False))


def test_a_common_memory_needs_a_bandwidth() -> None:
    with pytest.raises(MachineError, match="needs common_memory_bytes_per_second"):
        load_machine("edge-8x8", common_memory_bytes=1024)


@pytest.mark.parametrize("change", ["early", "full", "stray"])
def test_the_invariants_see_a_plan_that_is_not_kept(change: str) -> None:
    launches = [Launched("k", loads(((16, 16), 0)), (X,))] * 2
    trace = run(launches, Resident("x", X, 1024, 0, 1, alone=False))
    broken = {
        "early": replace(trace, via=np.full(2, Via.SECOND, np.uint8)),
        "full": replace(trace, asked={"residents": (replace(trace.asked["residents"][0], bytes=1 << 21),)}),
        "stray": replace(trace, asked={"residents": (replace(trace.asked["residents"][0], last=0),)}),
    }[change]
    told = {"early": "before all of it is there", "full": "bytes are resident", "stray": "what is not resident"}[change]
    with pytest.raises(InvariantViolation, match=told):
        broken.invariants()
