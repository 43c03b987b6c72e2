"""Slack and the critical path: known for programs made by hand, and held against what longer instructions do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from simulator import Cause, HostCall, Launched, Machine, Resident, SimulatorError, Trace, load_machine, simulate
from simulator.analysis.critical_path import critical_path_of
from simulator.analysis.energy import energy_of
from simulator.analysis.machine_roofs import loads
from simulator.analysis.memory_use import memory_use_of
from simulator.analysis.slack import dependences, slack_of
from simulator.optional.zero_tiles.skipped_tiles import skipped_of
from simulator.tileprogram.program import Opcode, TileProgram
from tests.simulator.build import EDGE, Made, at_peak, elementwise, matmul_chain, run
from tests.simulator.random_programs import launches, machines


def on_path(trace: Trace) -> list[int]:
    return [step.span for step in critical_path_of(trace) if step.span >= 0]


def check_slack(trace: Trace) -> None:
    """Checks rules that hold for every trace: no slack on the critical path, none below zero, and its steps follow.

    Where weights went in late while their array was busy, the path follows the array, which may have some.
    """
    slack, path = slack_of(trace), critical_path_of(trace)
    busy = np.isin(trace.cause, [Cause.UNIT_BUSY, Cause.ACCUMULATE])
    late = (trace.kind == Opcode.MATMUL) & (trace.phase > trace.start) & busy
    leaves = {launch: False for launch in range(len(trace.kernels))}
    for step in reversed(path):
        if step.span >= 0 and step.what != "issue":
            assert leaves[step.launch] or slack[step.span] == 0
            leaves[step.launch] |= bool(late[step.span])
    assert slack.min(initial=0) >= 0
    if path:
        assert [step.begin for step in path[1:]] == [step.end for step in path[:-1]]
        assert (path[0].begin, path[-1].end) == (0, trace.makespan)


def two_ways(short: int, long: int, after: int = 1) -> TileProgram:
    """Loads of two tiles; a long pass over one and a short one over the other, then one over both."""
    made = Made()
    made.argument("x", (16,))
    made.argument("out", (8,), written=True)
    for name in "abc":
        made.buffer(name, 8)
    made.load(made.dram("x", (8,)), made.pad("a", (8,)))
    made.load(made.dram("x", (8,), 8), made.pad("b", (8,)))
    made.vector([made.pad("a", (8,))], made.pad("a", (8,)), (short, 0, 0, 0))
    made.vector([made.pad("b", (8,))], made.pad("b", (8,)), (long, 0, 0, 0))
    made.vector([made.pad("a", (8,)), made.pad("b", (8,))], made.pad("c", (8,)), (after, 0, 0, 0))
    made.store(made.pad("c", (8,)), made.dram("out", (8,)))
    return made.build()


def test_what_nothing_waits_for_may_take_until_the_end() -> None:
    made = Made()
    made.argument("x", (8, 64))
    made.buffer("t", 512)
    made.buffer("u", 8)
    made.load(made.dram("x", (8, 64)), made.pad("t", (8, 64)))
    made.vector([], made.pad("u", (8,)), (5, 0, 0, 0))
    trace = run(made.build())
    assert slack_of(trace).tolist() == [0, trace.makespan - trace.end[1]]
    assert on_path(trace) == [0, 0]  # its transfer, its latency


def test_slack_is_what_the_longer_way_leaves() -> None:
    trace = run(two_ways(short=1, long=40))
    # both loads follow each other on the bus: the first may be late by what its pass may be, less what it came early
    first, second, early, late, both, store = slack_of(trace).tolist()
    assert (second, late, both, store) == (0, 0, 0, 0)
    assert early == trace.start[3] - trace.end[2]  # the vector unit takes its passes in order
    assert first == min(early + trace.start[2] - trace.end[0], trace.start[1] - trace.met[1, Cause.BANDWIDTH])
    assert [step.what for step in critical_path_of(trace)][-3:] == ["vector", "store transfer", "store latency"]


@pytest.mark.parametrize("short", [1, 3, 20])
def test_a_pass_as_much_longer_as_its_slack_moves_nothing(short: int) -> None:
    """The unit of slack is the cycle: one more than it moves the end by one."""
    plain = run(two_ways(short, 30))
    slack = int(slack_of(plain)[2])
    assert run(two_ways(short + slack, 30)).makespan == plain.makespan
    assert run(two_ways(short + slack + 1, 30)).makespan == plain.makespan + 1


def test_what_waits_to_be_issued_delays_nobody_but_the_next_on_the_bus() -> None:
    made = Made()
    made.argument("x", (4, 8))
    made.buffer("t", 8, 4)
    for slot in range(4):
        made.load(made.dram("x", (8,), slot * 8), made.pad("t", (8,), slot))
    trace = run(made.build(), at_peak(issue_interval_cycles=50, dma_queues=8))
    # two cycles on the bus leave 48 to the next; two queues in turn leave 8 of 100 to the next but one
    assert slack_of(trace).tolist() == [8 + 48, 8, 48, 0]
    assert [(step.what, step.cycles) for step in critical_path_of(trace)] == [
        *[("issue", 50)] * 3,
        ("load transfer", 2),
        ("load latency", EDGE.dram_latency_cycles),
    ]


@pytest.mark.parametrize("figures", [{"dma_queues": 1, "queue_depth": 1}, {"issue_window": 1}])
def test_a_full_queue_and_the_window_hand_lateness_on(figures: dict[str, int]) -> None:
    trace = run(elementwise(4, 2), load_machine("edge-8x8", **figures))
    check_slack(trace)
    if "issue_window" in figures:
        assert slack_of(trace).tolist() == [0] * len(trace)  # one after the other
        assert set(on_path(trace)) == {*range(len(trace))}


def test_a_matmul_whose_weights_came_early_has_slack_for_them() -> None:
    slow = load_machine("edge-8x8", systolic_rows=2, systolic_columns=2)
    trace = run(matmul_chain(16, 16, 32, 8), slow)
    check_slack(trace)
    assert slack_of(trace)[trace.done.argmax()] == 0
    loads = np.flatnonzero(trace.kind == Opcode.LOAD)
    assert slack_of(trace)[loads].max() > 0


def test_weights_that_come_late_leave_their_pass_no_slack() -> None:
    """The array is free at 17, the weights are in at 19: eight cycles after the pass that makes them, at 11."""
    made = Made()
    made.argument("x", (8, 8))
    for name in "abcd":
        made.buffer(name, 64)
    square = (8, 8)
    made.vector([], made.pad("b", square), (11, 0, 0, 0), lane=1)
    made.matmul(made.pad("a", square), made.pad("a", square), made.pad("c", square))
    made.matmul(made.pad("a", square), made.pad("b", square), made.pad("d", square))
    trace = run(made.build())
    assert (trace.done[0], trace.end[1], trace.start[2], trace.phase[2]) == (11, 17, 17, 19)
    assert slack_of(trace).tolist() == [0, 2, 0]


def test_launches_and_steps_on_the_host_have_their_own_slack() -> None:
    program = two_ways(3, 40)
    alone = slack_of(run(program)).tolist()
    given = [Launched("k", program, (0, 0)), HostCall("h", 100, 100, 10), Launched("k", program, (0, 0))]
    trace = simulate(given, EDGE)
    check_slack(trace)
    assert slack_of(trace).tolist() == [*alone, 0, 0, 0, *alone]
    hosted = [step for step in critical_path_of(trace) if step.launch == 1]
    assert [step.what for step in hosted] == ["host link", "host compute", "host link"]


def test_the_common_memory_hands_lateness_on() -> None:
    machine = EDGE.with_(common_memory_bytes=1 << 16, common_memory_bytes_per_second=25 * 10**8, dma_queues=4)
    program = matmul_chain(16, 16, 16, 8)
    resident = Resident("w", 0, 1024, 0, 1, alone=False)
    trace = simulate([Launched("k", program, (4096, 0, 8192))] * 2, machine, residents=[resident])
    check_slack(trace)
    assert "common memory load transfer" in {step.what for step in critical_path_of(trace)}


@pytest.mark.parametrize("analysis", [slack_of, dependences, energy_of, skipped_of, loads, memory_use_of])
def test_what_follows_from_its_programs_a_trace_without_them_does_not_have(
    analysis: Callable[[Trace], object],
) -> None:
    trace = simulate([Launched("k", two_ways(1, 2), (0, 0))], EDGE)
    bare = type(trace)(**{name: getattr(trace, name) for name in trace.__dataclass_fields__ if name != "launches"})
    with pytest.raises(SimulatorError, match="loaded without its programs"):
        analysis(bare)


@pytest.mark.test_all
@given(given_launches=launches(), machine=machines())
@settings(max_examples=60, deadline=None)
def test_random_programs_have_no_slack_on_their_path(given_launches: list[Launched], machine: Machine) -> None:
    check_slack(simulate(given_launches, machine))
