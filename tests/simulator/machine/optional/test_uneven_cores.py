"""Cores that differ: what each has of its own, and what of the work."""

from __future__ import annotations

import pytest

from simulator import Machine, load_machine
from simulator.errors import MachineError
from simulator.machine.machine_file import parse_machine
from simulator.tileprogram.program import TileProgram
from tests.simulator.build import run
from tests.simulator.engine.test_cores import spread
from tests.simulator.units.test_closed_forms import one_matmul, one_pass

SLOW = {"clock_ratio": 0.5}


def edge(*cores: dict[str, int | float]) -> Machine:
    return load_machine("edge-8x8", cores=cores)


def test_a_smaller_array_takes_what_it_takes_by_itself() -> None:
    """Core 0 is the only one that works: on its own figures."""
    small = {"systolic_rows": 4, "systolic_columns": 4}
    alone = load_machine("edge-8x8", systolic_rows=4, systolic_columns=4)
    assert run(one_matmul(40, 20, 12), edge(small, {})).makespan == run(one_matmul(40, 20, 12), alone).makespan
    assert run(one_matmul(40, 20, 12), edge({}, small)).makespan < run(one_matmul(40, 20, 12), alone).makespan


@pytest.mark.parametrize("program", [one_matmul(64, 16, 16), one_pass((8, 64), (3, 0, 0, 0))])
def test_half_the_clock_takes_twice_the_cycles(program: TileProgram) -> None:
    assert run(program, edge(SLOW)).makespan == 2 * run(program, edge({})).makespan


def test_memory_and_queues_go_by_the_machine_s_clock() -> None:
    fast, slow = (run(spread(2), edge({}, own)) for own in ({}, SLOW))
    moved = [(trace.end - trace.start)[trace.bytes > 0].min() for trace in (fast, slow)]
    assert moved[0] == moved[1] and fast.makespan < slow.makespan


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (({}, {}), (0, 1)),
        (({}, SLOW), (0, 0, 1)),
        (({}, SLOW, SLOW), (0, 0, 1, 2)),
        ((SLOW, SLOW), (0, 1)),
        ((SLOW, {}), (1, 1, 0)),
        (({"systolic_rows": 24}, {}), (0, 0, 0, 1)),
        (({"clock_ratio": 1.5}, {}), (0, 1, 0, 0, 1)),
        (({"systolic_rows": 8000}, {}), (*[0] * 16, 1)),
    ],
)
def test_shares_are_in_proportion_to_products(cores: tuple[dict[str, int | float], ...], expected: object) -> None:
    assert edge(*cores).shares == expected


def test_a_file_says_it_as_tables() -> None:
    text = (
        'version = 1\nbase = "edge-8x8"\nassumed = ["cores"]\n[[cores]]\n[[cores]]\nvector.lanes = 4\nclock_ratio = 0.5'
    )
    machine = parse_machine("mine", text)
    assert (machine.core.count, machine.core.own_figures) == (2, "1: clock_ratio=0.5 vector_lanes=4")
    assert machine.scratchpad_bytes == load_machine("edge-8x8").scratchpad_bytes // 2
    assert machine.peak_macs_per_cycle == 64 + 32
    assert machine.with_(cores=[{}, {"clock_ratio": 0.5, "vector_lanes": 4}]).figures() == machine.figures()


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"cores": [{"clock_mhz": 5}]}, "core 0 of `cores`: a core has no 'clock_mhz' of its own"),
        (
            {"cores": [{}, {"clock_rtio": 0.5}]},
            r"core 1 of `cores`: a core has no 'clock_rtio' of its own; did you mean 'clock_ratio'\? Expected some of",
        ),
        ({"cores": [{"vector_lanes": 0.5}]}, "vector_lanes = 0.5: expected a whole number, more than zero"),
        ({"cores": [{"clock_ratio": 0}]}, "clock_ratio = 0: expected a number, more than zero"),
        ({"cores": [3]}, "core 0 of `cores` is 3; expected a table"),
        ({"cores": []}, "the list is empty"),
        ({"core_figures": "1: vector_lanes=4"}, "there is no core '1'; the machine has 1, from 0 on"),
    ],
)
def test_cores_that_make_no_sense_are_refused(figures: dict[str, object], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        load_machine("edge-8x8", **figures)  # pyright: ignore[reportArgumentType]
