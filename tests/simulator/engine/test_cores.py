"""Several cores: units and scratchpads of their own, one memory, and barriers where they meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import Cause, Deadlock, Launched, Machine, MachineError, load_machine, simulate
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.stalls import stalls_of
from simulator.errors import DoesNotFit, InvariantViolation, ProgramError
from simulator.tileprogram.barriers import meetings
from simulator.tileprogram.buffer_addresses import placed
from simulator.tileprogram.program import Instruction, Opcode, TileProgram
from simulator.tileprogram.verifier import verify
from tests.broken_programs import drop_edge, implied
from tests.simulator.build import Made, run


def machine(cores: int = 2, **figures: int | str) -> Machine:
    return load_machine("edge-8x8", cores=cores, **figures)


class Cores(Made):
    """A program of which each instruction is put on the core that is named last."""

    core = 0

    def buffer(self, name: str, elements: int, slots: int = 1) -> None:
        super().buffer(name, elements, slots)
        *before, made = self.builder.buffers
        offset = max((buffer.offset + buffer.bytes for buffer in before if buffer.core == self.core), default=0)
        self.builder.buffers[-1] = replace(made, core=self.core, offset=offset)

    def add(self, instruction: Instruction, counts: tuple[int, int, int, int] = (0, 0, 0, 0)) -> int:
        return super().add(replace(instruction, core=self.core), counts)

    def barrier(self, *cores: int, size: int | None = None) -> list[int]:
        """One meeting, in which the rows of these cores follow one another."""
        rows = list[int]()
        for core in cores:
            self.core = core
            rows.append(self.add(Instruction(Opcode.BARRIER, 0, (), (), (size or len(cores),))))
            self.together(rows)
        return rows

    def together(self, rows: list[int]) -> None:
        """Makes BARRIERs one meeting: they are of one op."""
        for row in rows:
            self.builder.instructions[row] = replace(
                self.builder.instructions[row], op=self.builder.instructions[rows[0]].op
            )


def spread(cores: int, tiles: int = 4, elements: int = 64, specials: int = 4) -> TileProgram:
    """`out = f(x)`, each core its share of the tiles, through a scratchpad of its own."""
    made = Cores()
    made.argument("x", (cores * tiles, elements))
    made.argument("out", (cores * tiles, elements), written=True)
    for core in range(cores):
        made.core = core
        made.buffer(f"in{core}", elements, 2)
        made.buffer(f"result{core}", elements, 2)
        for tile in range(tiles):
            at, slot = (core * tiles + tile) * elements, tile % 2
            made.load(made.dram("x", (elements,), at), made.pad(f"in{core}", (elements,), slot))
            made.vector(
                [made.pad(f"in{core}", (elements,), slot)],
                made.pad(f"result{core}", (elements,), slot),
                (0, specials, 0, 0),
            )
            made.store(made.pad(f"result{core}", (elements,), slot), made.dram("out", (elements,), at))
    made.barrier(*range(cores))
    return made.build()


def test_each_core_has_units_of_its_own() -> None:
    trace = run(spread(2), machine(2))
    one = [name for name in run(spread(1), machine(1)).unit_names]
    assert trace.unit_names == tuple(f"core{core}.{name}" for core in range(2) for name in one)
    named = [trace.unit_names[unit] for unit in trace.unit]
    assert all(name.startswith(f"core{core}.") for name, core in zip(named, trace.core, strict=True))
    assert {name for name in named if name.endswith("vpu")} == {"core0.vpu", "core1.vpu"}


def test_what_is_bound_by_a_cores_own_units_takes_as_long_on_any_number_of_them() -> None:
    lengths = {cores: run(spread(cores, specials=400), machine(cores)).makespan for cores in (1, 2, 4, 16)}
    alone = lengths[1]
    assert all(alone < length < 1.1 * alone for cores, length in lengths.items() if cores > 1)


def test_what_is_bound_by_the_memory_takes_longer_with_each_core() -> None:
    """From two cores on the memory never rests, but for the latency of the last answer."""
    for cores in (2, 4):
        trace = run(spread(cores, tiles=16, elements=1024, specials=0), machine(cores))
        needed = trace.counters["dram_request_bytes"] / trace.machine.bus_bytes_per_cycle
        assert needed == 2 * cores * 16 * 4096 / trace.machine.bus_bytes_per_cycle
        assert needed <= trace.makespan < 1.05 * needed


def test_cores_take_turns_at_the_memory() -> None:
    """Both want all of it: neither is done much earlier than the other."""
    trace = run(spread(2, tiles=16, elements=1024, specials=0), machine(2))
    ends = [trace.end[(trace.core == core) & (trace.kind == Opcode.STORE)].max() for core in range(2)]
    assert abs(ends[0] - ends[1]) < 0.05 * trace.makespan


def uneven() -> TileProgram:
    """Core 1 has much to do, core 0 little; they meet; then core 0 reads what core 1 wrote."""
    made = Cores()
    made.argument("x", (64,))
    made.argument("y", (64,), written=True)
    made.argument("z", (64,), written=True)
    made.core = 1
    made.buffer("b", 64)
    made.load(made.dram("x", (64,)), made.pad("b", (64,)))
    made.vector([made.pad("b", (64,))], made.pad("b", (64,)), (0, 50, 0, 0))
    made.store(made.pad("b", (64,)), made.dram("y", (64,)))
    made.core = 0
    made.buffer("a", 64)
    made.load(made.dram("x", (64,)), made.pad("a", (64,)))
    made.barrier(0, 1)
    made.core = 0
    made.load(made.dram("y", (64,)), made.pad("a", (64,)))
    made.store(made.pad("a", (64,)), made.dram("z", (64,)))
    return made.build()


def test_a_barrier_waits_for_the_last_and_takes_the_way_between_the_cores() -> None:
    on = machine(2, interconnect_latency_cycles=30)
    trace = run(uneven(), on)
    ((first, second),) = meetings(trace.launches[0].program)
    last = int(trace.done[2])  # core 1's store
    assert trace.start[[first, second]].tolist() == [last, last]
    assert trace.end[[first, second]].tolist() == [last + 30, last + 30]
    assert trace.issue[first] == trace.done[3] < trace.issue[second] == last
    assert [Cause(cause) for cause in trace.cause[[first, second]]] == [Cause.BARRIER, Cause.BARRIER]
    assert trace.blocker[[first, second]].tolist() == [second, 2]
    after = second + 1
    assert trace.start[after] == last + 30
    assert (Cause(trace.cause[after]), trace.blocker[after]) == (Cause.BARRIER, first)
    assert dict(waterfall_of(trace))["barrier"] == 30
    idle = {row["unit"]: row["barrier"] for row in stalls_of(trace)}
    assert idle["core0.scalar"] == last


def test_a_meeting_puts_instructions_of_different_cores_in_order() -> None:
    """So what it orders need not be said by a dependence, and what it does not must be."""
    program = uneven()
    crossing = [
        edge
        for edge in range(len(program.dependence))
        if program.core[np.searchsorted(program.dependence_start, edge, side="right") - 1] == 0
        and program.core[program.dependence[edge]] == 1
    ]
    assert len(crossing) == 1
    assert implied(program, crossing[0])
    run(drop_edge(program, crossing[0]), machine(2))
    alone = replace(program, opcode=np.where(program.opcode == Opcode.BARRIER, Opcode.DIRECT, program.opcode))
    assert not implied(alone, crossing[0])


def test_invariants_notice_who_does_not_wait_at_a_barrier() -> None:
    trace = run(uneven(), machine(2))
    ((first, second),) = meetings(trace.launches[0].program)
    done = trace.done.copy()
    done[2] += 7
    with pytest.raises(InvariantViolation, match=f"the barrier {first} starts at {done[2] - 7}, .* at {done[2]}"):
        replace(trace, done=done).invariants()
    end = trace.end.copy()
    end[first] += 7
    with pytest.raises(InvariantViolation, match=f"instruction {second + 1} starts before the barrier {first}"):
        replace(trace, end=end).invariants()


def test_a_barrier_to_which_a_core_never_comes() -> None:
    made = Cores()
    made.argument("x", (64,))
    made.buffer("a", 64)
    made.load(made.dram("x", (64,)), made.pad("a", (64,)))
    made.barrier(0, size=2)
    with pytest.raises(Deadlock, match="only core 0 of 2 ever comes to the barrier 1") as caught:
        simulate([Launched("k", made.build(), (0,))], machine(2))
    assert (caught.value.waiting, caught.value.circle) == (1, "")


def test_barriers_in_another_order_on_each_core() -> None:
    made = Cores()
    first = made.barrier(0)
    second = made.barrier(0)
    second += made.barrier(1)
    first += made.barrier(1)
    for rows in (first, second):
        made.together(rows)
        for row in rows:
            made.builder.instructions[row] = replace(made.builder.instructions[row], extent=(2,))
    with pytest.raises(Deadlock, match="instructions that wait for each other in a circle") as caught:
        simulate([Launched("k", made.build(), ())], machine(2))
    first, *others, last = caught.value.circle.split(" waits for ")
    assert first == last
    assert sorted([first, *others]) == [f"{row} BARRIER on core {row // 2}" for row in range(4)]


@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_a_core_that_waits_before_a_barrier_for_what_comes_after_it(memory: str) -> None:
    """Core 0 meets core 1 and then writes; core 1 reads that, and then meets core 0."""
    made = Cores()
    made.argument("x", (64,))
    made.argument("y", (64,), written=True)
    made.buffer("a", 64)
    meeting = made.barrier(0)
    made.load(made.dram("x", (64,)), made.pad("a", (64,)))
    made.store(made.pad("a", (64,)), made.dram("y", (64,)))
    made.core = 1
    made.buffer("b", 64)
    made.load(made.dram("y", (64,)), made.pad("b", (64,)))
    meeting += made.barrier(1)
    made.together(meeting)
    for row in meeting:
        made.builder.instructions[row] = replace(made.builder.instructions[row], extent=(2,))
    circle = "3 LOAD on core 1 waits for 2 STORE on core 0 waits for 1 LOAD on core 0 waits for 0 BARRIER on core 0"
    with pytest.raises(Deadlock) as caught:
        simulate([Launched("k", made.build(), (0, 4096))], machine(2, memory=memory))
    names = caught.value.circle.split(" waits for ")
    turned = [" waits for ".join([*names[place:-1], *names[:place]]) for place in range(len(names) - 1)]
    assert f"{circle} waits for 4 BARRIER on core 1" in turned
    assert caught.value.waiting == 5


def test_programs_that_make_no_sense_on_several_cores() -> None:
    with pytest.raises(ProgramError, match="instructions of core 1: 'edge-8x8' has 1"):
        simulate([Launched("k", spread(2), (0, 4096))], machine(1))
    made = Cores()
    made.argument("x", (64,))
    made.core = 1
    made.buffer("b", 64)
    made.core = 0
    made.load(made.dram("x", (64,)), made.pad("b", (64,)))
    with pytest.raises(ProgramError, match="runs on core 0 and uses 'b', in the scratchpad of core 1"):
        verify(made.build())
    made = Cores()
    made.together(made.barrier(0) + made.barrier(0))
    with pytest.raises(ProgramError, match=r"instructions \[0, 1\], of cores \[0, 0\], are one meeting of 1 cores"):
        verify(made.build())


def test_no_cores_are_refused() -> None:
    with pytest.raises(MachineError, match="cores = 0"):
        load_machine("tpu-v3", cores=0)


def test_every_core_has_all_of_a_scratchpad() -> None:
    made = Cores()
    made.argument("x", (50_000,))
    for core in range(2):
        made.core = core
        made.buffer(f"a{core}", 50_000)
        made.load(made.dram("x", (50_000,)), made.pad(f"a{core}", (50_000,)))
    program = made.build()
    assert program.scratchpad_bytes == 200_000
    run(program, machine(2))
    made.buffer("more", 50_000)
    with pytest.raises(DoesNotFit) as caught:
        run(made.build(), machine(2))
    assert caught.value.buffers == (("a1", 200_000), ("more", 200_000))


def test_addresses_are_shared_within_a_core() -> None:
    """Two buffers used one after the other on each core: they lie on each other, and wait for each other, there."""
    made = Cores()
    made.argument("x", (64,))
    for core in range(2):
        made.core = core
        for name in ("a", "b"):
            made.buffer(f"{name}{core}", 64)
            made.load(made.dram("x", (64,)), made.pad(f"{name}{core}", (64,)))
    program = placed(made.build(), 256)
    assert [buffer.offset for buffer in program.buffers] == [0, 0, 0, 0]
    assert [[source for source, _ in program.instruction(row).dependences] for row in range(4)] == [[], [0], [], [2]]
    run(program, machine(2))


@settings(max_examples=60, deadline=None)
@given(
    cores=st.integers(1, 4),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), max_size=30),
    figures=st.fixed_dictionaries(
        {
            "dma_queues": st.integers(1, 3),
            "queue_depth": st.integers(1, 4),
            "issue_window": st.integers(1, 6),
            "interconnect_latency_cycles": st.integers(0, 20),
        }
    ),
)
def test_whatever_cores_do_in_whatever_order_the_invariants_hold(
    cores: int, steps: list[tuple[int, int, int]], figures: dict[str, int]
) -> None:
    """Loads, stores and passes on a few tiles that all cores share in DRAM, and now and then all of them meet."""
    made = Cores()
    made.argument("x", (4, 64), written=True)
    for made.core in range(cores):
        made.buffer(f"t{made.core}", 64, 2)
    for core, what, tile in steps:
        made.core = core % cores
        mine, there = made.pad(f"t{made.core}", (64,), tile % 2), made.dram("x", (64,), 64 * tile)
        if what < 2:
            made.load(there, mine)
        elif what < 4:
            made.store(mine, there)
        elif what == 4:
            made.vector([mine], mine, (1, 2, 0, 0))
        else:
            made.barrier(*range(cores))
    run(made.build(), machine(cores, **figures))
