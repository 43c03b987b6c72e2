"""Tests the busy times of channels, and the causes of waits of transfers that hold their queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator import Machine, Trace, load_machine
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.stalls import channels_of, stalls_of
from simulator.errors import InvariantViolation
from simulator.records.spans import Wait
from tests.simulator.build import direct_copy, elementwise
from tests.simulator.engine.test_engine import loads
from tests.simulator.memory.test_banked import EDGE, TPU, run
from tests.simulator.memory.test_banks import DDR4, stream

OPENING = 1 + 16
"""The cycle in which a request is taken, and ACT to RD."""


@pytest.mark.parametrize(
    ("addresses", "writes", "expected"),
    [
        ((0, 64), (0, 0), {"row": OPENING, "bank_group": 6 - 4}),
        ((0, 64), (0, 1), {"row": OPENING, "turnaround": 16 + 2 - 12}),  # read latency + gap - write latency
        ((0, 64), (1, 0), {"row": OPENING, "turnaround": 12 + 9}),  # write latency + write to read in a group
        ((0, 8192 * 16), (0, 0), {"row": OPENING + (39 - 16) + 16 + 16 - 4}),  # open, PRE, ACT; less the first's data
    ],
)
def test_a_channel_says_what_its_oldest_request_waits_for(
    addresses: tuple[int, ...], writes: tuple[int, ...], expected: dict[str, int]
) -> None:
    spent = stream(DDR4, *addresses, writes=writes).spent
    waiting = {name: spent[f"{name}_cycles"] for name in ("row", "bank_group", "turnaround", "refresh", "command")}
    assert {name: cycles for name, cycles in waiting.items() if cycles} == expected


def test_a_refresh_takes_its_time() -> None:
    addresses = [number * 64 for number in range(250)]
    short, long = (stream(replace(DDR4, refresh_interval=900, refresh=cycles), *addresses) for cycles in (100, 250))
    assert short.counters["refreshes"] == long.counters["refreshes"] == 1
    assert long.spent["refresh_cycles"] - short.spent["refresh_cycles"] == 150
    assert long.spent["transfer_cycles"] == short.spent["transfer_cycles"]


def test_requests_stand_before_a_full_queue() -> None:
    """The first of 40 is read after its row is open; eight wait for one of the 32 before them."""
    few, many = (stream(DDR4, *(64 * at for at in range(count))).spent["queue_full_cycles"] for count in (32, 40))
    assert few == 0 < many <= 8 * 6


def waits(trace: Trace, span: int) -> dict[str, int]:
    found = dict(zip([wait.label for wait in Wait], trace.waits[span].tolist(), strict=True))
    return {name: cycles for name, cycles in found.items() if cycles}


def test_a_load_tells_the_way_the_row_and_its_own_data_apart() -> None:
    """One request: taken and its row opened in 1 + 22 cycles of the memory, two of which are one of the machine's."""
    trace, way = run(loads(1, elements=16), EDGE), EDGE.way_to_banks_cycles
    assert waits(trace, 0) == {"interconnect": way, "memory_row": 23 // 2}
    row = stalls_of(trace)[0]
    assert row["busy"] == trace.makespan - way - 23 // 2
    assert ("load memory_row", 11) in waterfall_of(trace) and ("load interconnect", way) in waterfall_of(trace)


def test_transfers_side_by_side_wait_for_each_other_s_data() -> None:
    """Each has half of the bus, and ends little after the other."""
    alone, both = run(loads(1, elements=8192), EDGE), run(loads(2, elements=8192), EDGE)
    assert "memory_bus" not in waits(alone, 0)
    last = both.end.argmax()
    assert 0.45 < waits(both, int(last))["memory_bus"] / (both.end - both.start)[last] < 0.55


def test_who_is_slower_than_the_memory_does_not_wait_for_it() -> None:
    trace = run(loads(1, elements=1000), EDGE.with_(dma_bytes_per_cycle=1))
    assert waits(trace, 0) == {"interconnect": EDGE.way_to_banks_cycles}


@pytest.mark.parametrize("machine", [EDGE, TPU], ids=lambda machine: machine.name)
def test_all_of_a_channel_s_time_is_told(machine: Machine) -> None:
    for program in (elementwise(), direct_copy(4, 32)):
        trace = run(program, machine)
        for row in channels_of(trace):
            told = [name for name in row if name.endswith("_cycles") and name != "queue_full_cycles"]
            assert sum(row[name] for name in told) == trace.makespan


def test_simple_memory_has_no_such_columns() -> None:
    trace = run(elementwise(), load_machine("edge-8x8"))
    told = {wait.label for wait in Wait} | {"bandwidth"}
    assert len(trace.waits) == 0 and not told & set(stalls_of(trace)[0])


def test_time_that_is_not_there_is_noticed() -> None:
    trace = run(elementwise(), EDGE)
    with pytest.raises(InvariantViolation, match="of which it waits"):
        replace(trace, waits=trace.waits + trace.makespan).invariants()
    with pytest.raises(InvariantViolation, match="channel 0 accounts for"):
        replace(trace, channel_cycles=trace.channel_cycles + 1).invariants()
