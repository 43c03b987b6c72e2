"""Loops that hand a value from iteration to iteration: the closed form, and the invariant that sees a chain unpaid."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from simulator import Launched, Machine, Trace, load_machine, simulate, verify
from simulator.errors import InvariantViolation, ProgramError
from simulator.tileprogram.program import Access, Carried, OpClass, TileProgram
from simulator.units import scalar
from tests.simulator import build
from tests.simulator.build import Made, elements

EDGE = load_machine("edge-8x8", alu_latency_cycles=3)
NEAR = EDGE.scratchpad.latency_cycles
ALU, SPECIAL = EDGE.vector.alu_latency_cycles, EDGE.vector.special_latency_cycles
ADD, DIVIDE = (1, 0, 0, 0), (0, 1, 0, 0)
N = 512


def loop(
    counts: tuple[int, int, int, int], *carried: Carried, points: int = N, core: int = 0, store: bool = False
) -> TileProgram:
    """A loop that reads one element of the scratchpad in each iteration."""
    made = Made()
    made.buffer("t", N)
    made.buffer("out", N)
    accesses = [elements(made.pad("t", (points,)))]
    accesses += [elements(made.pad("out", (points,)), Access.WRITE)] if store else []
    made.direct(*accesses, counts=counts, carried=carried)
    program = made.build()
    buffers = tuple(dataclasses.replace(buffer, core=core) for buffer in program.buffers)
    return dataclasses.replace(program, buffers=buffers, core=np.full_like(program.core, core))


def run(program: TileProgram, machine: Machine = EDGE) -> Trace:
    return build.run(program, machine)


@pytest.mark.parametrize(
    ("counts", "carried", "expected"),
    [
        # what is not handed on overlaps: a division a cycle, an addition a cycle
        (DIVIDE, [], NEAR + SPECIAL + (N - 1) * EDGE.vector.special_interval_cycles),
        (DIVIDE, [Carried(1, DIVIDE)], NEAR + N * SPECIAL),
        (ADD, [Carried(1, ADD)], NEAR + N * ALU),
        # only the addition is between the iterations; divisions run beside
        ((1, 1, 0, 0), [Carried(1, ADD)], NEAR + SPECIAL + N * ALU),
        ((1, 1, 0, 0), [Carried(1, (1, 1, 0, 0))], NEAR + N * (ALU + SPECIAL)),
        # a conversion is an operation of the same unit as an addition
        ((1, 0, 1, 0), [Carried(1, (1, 0, 1, 0))], NEAR + N * 2 * ALU),
        # of two values the longest chain counts, and two that take turns come round every second iteration
        ((5, 1, 0, 0), [Carried(1, (4, 0, 0, 0)), Carried(1, DIVIDE)], NEAR + SPECIAL + ALU + N * 4 * ALU),
        (DIVIDE, [Carried(2, DIVIDE)], NEAR + N // 2 * SPECIAL),
        # a round of two iterations may be longer than one iteration is
        (DIVIDE, [Carried(2, (0, 2, 0, 0))], NEAR + N * SPECIAL),
        # a chain of few operations costs nothing where the throughput is what counts
        ((20, 0, 0, 0), [Carried(1, ADD)], NEAR + 20 * ALU + (N - 1) * 20),
    ],
)
def test_the_longest_chain_counts(counts: tuple[int, int, int, int], carried: list[Carried], expected: int) -> None:
    assert run(loop(counts, *carried)).makespan == expected


def test_one_iteration_is_no_chain_and_memory_counts_beside_it() -> None:
    assert run(loop(DIVIDE, Carried(1, DIVIDE), points=1)).makespan == NEAR + SPECIAL
    slow = EDGE.with_(scalar_outstanding=1, scratchpad_latency_cycles=50)
    assert run(loop(DIVIDE, Carried(1, DIVIDE)), slow).makespan == run(loop(DIVIDE), slow).makespan
    stored = run(loop(DIVIDE, Carried(1, DIVIDE), store=True)).makespan
    assert stored == NEAR + N * SPECIAL + NEAR


def test_a_loop_may_touch_nothing_if_it_hands_something_on() -> None:
    made = Made()
    made.direct(points=100, counts=DIVIDE, carried=(Carried(1, DIVIDE),))
    assert run(made.build()).makespan == 100 * SPECIAL
    made = Made()
    made.direct(points=100, counts=DIVIDE)
    with pytest.raises(ProgramError, match="is no loop of accesses"):
        verify(made.build())


@pytest.mark.parametrize("ratio", ["0.3", "1.7"])
def test_a_core_of_another_clock_computes_its_chain_by_it(ratio: str) -> None:
    machine = EDGE.with_(cores=2, core_figures=f"1: clock_ratio={ratio}")
    rest = run(loop(DIVIDE, Carried(1, DIVIDE), core=1), machine).makespan - NEAR
    assert abs(rest - N * SPECIAL / float(ratio)) <= SPECIAL


@pytest.mark.parametrize(
    "forget",
    [
        lambda kept: lambda program, machine, ratio: 0 * kept(program, machine, ratio),
        lambda kept: lambda program, machine, ratio: kept(program, machine, ratio) // 2,
    ],
)
def test_an_invariant_sees_a_chain_that_is_not_paid_for(forget: Callable[..., Callable[..., object]]) -> None:
    program = loop(DIVIDE, Carried(1, DIVIDE))
    with mock.patch.object(scalar, "_handed_on", forget(scalar._handed_on)):  # pyright: ignore[reportPrivateUsage]
        trace = simulate([Launched("k", program, ())], EDGE)
    with pytest.raises(InvariantViolation, match="a chain of its iterations needs 5120"):
        trace.invariants()


@pytest.mark.parametrize("chain", [Carried(0, DIVIDE), Carried(1, (1, 1)), Carried(1, ADD), Carried(2, (0, 3, 0, 0))])
def test_a_chain_of_more_than_its_iterations_do_is_refused(chain: Carried) -> None:
    with pytest.raises(ProgramError, match="has a chain of"):
        verify(loop(DIVIDE, chain))


def test_chains_go_to_a_file_and_back(tmp_path: Path) -> None:
    program = loop((1, 1, 0, 0), Carried(1, ADD), Carried(2, (1, 1, 0, 0)))
    path = tmp_path / "program.npz"
    program.save(path)
    assert TileProgram.load(path) == program
    assert TileProgram.load(path).ops[0].carried[1].class_counts[OpClass.SPECIAL] == 1
