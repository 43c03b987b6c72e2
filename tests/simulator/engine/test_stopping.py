"""Simulations that are stopped, that stand still, and launches that are not simulated twice."""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np
import pytest

from simulator import Deadlock, HostCall, Launched, SimulationStopped, load_machine, simulate
from simulator.engine import engine, event_loop
from simulator.tileprogram.program import DependenceKind, TileProgram
from tests.simulator.build import Made, direct_copy, elementwise, matmul_chain

EDGE = load_machine("edge-8x8")
BANKED = load_machine("edge-8x8", memory="banked")


def wide(tiles: int, slots: int = 2) -> Launched:
    return Launched("wide", elementwise(tiles, slots), (0, 1 << 20))


def one_transfer(megabytes: int) -> Launched:
    """A loop of reads, which is one instruction, however long: nothing for the loop over events to count."""
    made = Made()
    made.argument("x", (megabytes << 18,))
    made.direct(made.dram("x", (megabytes << 18,)))
    return Launched("reads", made.build(), (0,))


@pytest.mark.parametrize("machine", [EDGE, BANKED], ids=["simple", "banked"])
def test_a_simulation_whose_time_is_over_says_how_far_it_came(machine: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(machine, type(EDGE))
    monkeypatch.setattr(event_loop, "EVENTS", 10)
    with pytest.raises(
        SimulationStopped, match=r"its limit of 0 seconds.* of 360 instructions .* launch 1 of 2 \('wide'"
    ):
        simulate([wide(60), wide(60)], machine, seconds=0)
    told: list[tuple[int, int]] = []

    def progress(done: int, of: int) -> None:
        told.append((done, of))
        if done > 200:
            raise KeyboardInterrupt  # as the interpreter does, between two stretches

    with pytest.raises(KeyboardInterrupt):
        simulate([wide(60), wide(60)], machine, repeats=False, progress=progress)
    assert [of for _, of in told] == [360] * len(told)
    assert sorted(told) == told and 200 < told[-1][0] < 240
    whole = simulate([wide(60), wide(60)], machine, seconds=100, repeats=False)  # nothing is left of those
    assert whole.digest() == simulate([wide(60), wide(60)], machine, repeats=False).digest()


def test_stretches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = [wide(20), Launched("m", matmul_chain(64, 64, 64, 16), (0, 1 << 16, 1 << 20))]
    launches += [Launched("d", direct_copy(3, 300), (64, 1 << 16))]
    for machine in (EDGE, BANKED, load_machine("tpu-v3", memory="banked", launch_overhead_cycles=50_000)):
        whole = simulate(launches, machine).digest()
        with monkeypatch.context() as changed:
            changed.setattr(event_loop, "EVENTS", 7)
            assert simulate(launches, machine).digest() == whole


def test_ctrl_c_is_seen_within_one_transfer_of_a_banked_memory() -> None:
    """The signal is sent where Python is asked in the middle of the transfer: an alarm would come when chance says."""
    looks = list[tuple[int, int]]()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def look(done: int, of: int) -> None:
        looks.append((done, of))
        if len(looks) == 3:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            simulate([one_transfer(16)], BANKED, progress=look)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(looks) == 3
    whole = list[tuple[int, int]]()
    simulate([one_transfer(1)], BANKED, progress=lambda done, of: whole.append((done, of)))
    assert len(whole) > 3  # and the transfer that was interrupted is sixteen times as long


def waiting(program: TileProgram, waits: dict[int, int]) -> TileProgram:
    """The program with one more dependence for some instructions, in whatever direction."""
    starts, kinds, sources = [0], list[int](), list[int]()
    for row in range(len(program)):
        old = slice(int(program.dependence_start[row]), int(program.dependence_start[row + 1]))
        sources += program.dependence[old].tolist() + ([waits[row]] if row in waits else [])
        kinds += program.dependence_kind[old].tolist() + ([DependenceKind.READ_AFTER_WRITE] if row in waits else [])
        starts.append(len(sources))
    return replace(
        program,
        dependence_start=np.array(starts, np.int64),
        dependence=np.array(sources, np.int32),
        dependence_kind=np.array(kinds, np.uint8),
    )


@pytest.mark.parametrize(
    ("tiles", "slots", "waits", "figures", "circle"),
    [
        (1, 1, {0: 2}, {}, "0 LOAD waits for 2 STORE waits for 1 VECTOR waits for 0 LOAD"),
        # a load waits for a store behind it in the one queue
        (1, 1, {0: 2}, {"dma_queues": 1}, "0 LOAD waits for 2 STORE waits for 1 VECTOR waits for 0 LOAD"),
        (2, 2, {1: 4}, {}, "1 VECTOR waits for 4 VECTOR waits for 1 VECTOR"),
        # the later one is not even issued: the window is full of what waits for it, or its queue is
        (3, 3, {0: 6}, {"issue_window": 2}, "0 LOAD waits for 6 LOAD waits for 5 STORE waits for 4 VECTOR"),
        (3, 3, {0: 6}, {"queue_depth": 1, "dma_queues": 1}, "0 LOAD waits for 6 LOAD waits for 5"),
    ],
)
@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_a_deadlock_is_told_with_its_circle(
    monkeypatch: pytest.MonkeyPatch,
    tiles: int,
    slots: int,
    waits: dict[int, int],
    figures: dict[str, int],
    circle: str,
    memory: str,
) -> None:
    monkeypatch.setattr(engine, "_check_program", lambda *_: None)  # which would refuse it
    program = waiting(elementwise(tiles, slots), waits)
    with pytest.raises(Deadlock, match=r"'k' is stuck at cycle \d+ with \d of \d instructions to go") as caught:
        simulate([Launched("k", program, (0, 0))], load_machine("edge-8x8", memory=memory, **figures))
    assert circle in caught.value.circle
    first, _, last = caught.value.circle.partition(" waits for ")
    assert last.endswith(first)


@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_repeated_launches_give_the_same_trace_simulated_or_not(monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    machine = load_machine("edge-8x8", memory=memory, launch_overhead_cycles=17, dram_bytes_per_second=7_300_000_001)
    program, other = elementwise(5, 2), matmul_chain(48, 32, 64, 16)
    launches: list[Launched | HostCall] = []
    for round_ in range(4):
        launches.append(Launched("a", program, (0, 4 * round_)))  # another place in a request each time
        launches.append(Launched("a", program, (640 + 64 * round_, 4)))  # the same place
        launches.append(HostCall("h", 100, 100, 5))
        launches.append(Launched("b", other, (128 * round_, 8, 4096)))
    each = simulate(launches, machine, repeats=False)
    each.invariants()
    counted = list[int]()
    run = event_loop.run
    monkeypatch.setattr(engine, "run", lambda *given: (counted.append(1), run(*given))[1])
    once = simulate(launches, machine)
    once.invariants()
    assert once.digest() == each.digest()
    assert len(counted) == (4 + 1 if memory == "simple" else 12)  # rows open and refreshes due are different ones
