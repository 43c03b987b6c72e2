"""One matmul on its array: the simulator's formulas, cycle by cycle, against the timeline."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import workbench as wb
from simulator.analysis.array_steps import ArrayWalk, array_walk
from simulator.tileprogram.program import Opcode
from tests.jupyter.timelines import shared
from tests.programs import PROGRAMS
from workbench.explaining.views.timelines.arrays import PARTS, doing_at, facts, share
from workbench.ground.errors import BadOption

MACHINES = {
    "tpu-v3": wb.machine("tpu-v3"),
    "edge-8x8": wb.machine("edge-8x8"),
    "one set of weights": wb.machine("tpu-v3", systolic_preload_depth=1),
    "sums stay": wb.machine("tpu-v3", dataflow="output_stationary", matmul_precision="bf16_3x"),
    "sums stay, one set": wb.machine("edge-8x8", dataflow="output_stationary", systolic_preload_depth=1),
    "sums leave at once": wb.machine("edge-8x8", dataflow="output_stationary", accumulator_residence="scratchpad"),
    "a slow core": wb.machine("tpu-v3", cores=[{}, {"clock_ratio": 0.5, "systolic_rows": 32}]),
}
NAMES = ("matmul_ragged", "bmm", "mlp")
MOST = 25
"""Matmuls of a run that are looked at."""


@functools.cache
def run_of(machine: str, name: str) -> wb.Journey:
    return PROGRAMS[name].traced(machine=MACHINES[machine])


def walks(machine: str, *names: str) -> Iterator[tuple[wb.Journey, ArrayWalk]]:
    for name in names:
        journey = run_of(machine, name)
        rows = np.flatnonzero(journey.simulated.trace.kind == Opcode.MATMUL).tolist()
        assert rows
        for row in rows[:: max(1, len(rows) // MOST)]:
            walk = array_walk(journey.simulated.trace, row)
            assert walk is not None
            yield journey, walk


@pytest.mark.test_all
@pytest.mark.parametrize("machine", MACHINES)
def test_preload_stream_and_drain_are_the_spans_own_cycles(machine: str):
    for journey, walk in walks(machine, *NAMES):
        trace, row = journey.simulated.trace, walk.span
        preload, stream, drain = walk.parts
        assert [part.name for part in walk.parts] == list(PARTS)
        assert 0 <= walk.hidden <= preload.cycles
        assert preload.cycles - walk.hidden == trace.phase[row] - trace.start[row]
        assert stream.cycles == trace.end[row] - trace.phase[row]
        assert drain.cycles == trace.done[row] - trace.end[row]
        for part in walk.parts:
            assert math.ceil(eval(part.numbers)) == part.cycles, part


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("machine", MACHINES)
def test_the_elements_do_all_multiplications_and_each_one_at_a_time(machine: str):
    """Cycle by cycle, what is at work adds up to batch x m x n x k; and tiles lie where the parts say."""
    for _, walk in walks(machine, "matmul_ragged", "mlp"):
        tiles = walk.tiles
        work = sum(walk.at_work(cycle) for cycle in range(walk.first, walk.last + 1))
        assert work == math.prod(walk.extent) * walk.times
        assert walk.cycle(walk.last) == walk.done or walk.parts[2].numbers.startswith("max(")
        assert (np.diff(tiles.enters) >= tiles.streams[1:]).all()  # an element has one row at a time
        assert (tiles.moves_in + tiles.moved_in <= tiles.enters).all()
        assert tiles.rows.max() <= walk.machine.array.rows and tiles.columns.max() <= walk.machine.array.columns
        for cycle in range(walk.first, walk.last, max(1, (walk.last - walk.first) // 40)):
            some = _at_work_one_by_one(walk, cycle)
            assert walk.at_work(cycle) == some
            assert some == 0 or set(doing_at(walk, cycle)) & {"stream", "drain"}


def _at_work_one_by_one(walk: ArrayWalk, cycle: int) -> int:
    count, tiles = 0, walk.tiles
    for tile in range(len(tiles)):
        i, j = np.indices((int(tiles.rows[tile]), int(tiles.columns[tile])))
        entry = cycle - int(tiles.enters[tile]) - i - j
        count += int(((entry >= 0) & (entry < tiles.streams[tile])).sum())
    return count


def test_sums_that_lie_in_the_array_are_not_moved_in_again():
    machine = wb.machine("tpu-v3", dataflow="output_stationary", systolic_arrays=1)
    journey = wb.trace(lambda a, b: a @ b, torch.randn(100, 9000), torch.randn(9000, 90), machine=machine)
    trace = journey.simulated.trace
    rows = np.flatnonzero(trace.kind == Opcode.MATMUL).tolist()
    first, second = (array_walk(trace, row) for row in rows[:2])
    assert first is not None and second is not None
    assert [first.parts[0].formula, second.parts[0].formula] == [
        "0: it adds to no sums",
        "0: its sums still lie in the array",
    ]
    assert second.parts[1].numbers == str(second.extent[3] * second.times)
    assert trace.start[rows[1]] == trace.phase[rows[1]]


def test_the_calls_of_a_run_say_the_same_from_a_file(tmp_path):
    made = PROGRAMS["matmul_ragged"]
    journey = made.traced(machine="edge-8x8")
    view = journey.simulated.array()
    events = journey.simulated.events
    assert events.kind[view.span] == "MATMUL"
    table = view.table
    assert (table.cycles - table.hidden).sum() == table.end.iloc[-1] - table.begin.iloc[0] == view.record.span_cycles
    assert len(view.tiles) == len(view.record.tiles) and list(view.tiles.tile) == list(range(len(view.tiles)))
    row = view.at(view.record.last // 2).iloc[0]
    assert row.elements == 64 and row.at_work == view.record.at_work(view.record.last // 2)
    assert 0 < share(view.record) <= 1
    assert table.formula[1] in view.text() and "switch: cycles from one set of weights" in view.text()
    assert ("sets held", "2 of 2 sets of weights") in facts(view.record)
    assert "<svg" in view.html() and f"span {view.span}" in view.html()
    journey.save(tmp_path / "a.journey")
    again = wb.load(tmp_path / "a.journey").simulated.array(view.span)
    assert again.table.equals(table) and again.html() == view.html()


def test_what_is_no_matmul_is_said():
    run = PROGRAMS["matmul_ragged"].traced().simulated
    load = run.events.index[run.events.kind == "LOAD"][0]
    with pytest.raises(BadOption, match=f"span {load} is a LOAD; the nearest matmul is span"):
        run.array(int(load))
    with pytest.raises(BadOption, match=r"rows of j\.simulated\.events are 0 to"):
        run.array(10**6)
    with pytest.raises(BadOption, match="it works from cycle"):
        run.array().at(10**6)
    with pytest.raises(BadOption, match="it has no matmul"):
        wb.trace(torch.relu, torch.randn(8, 8)).simulated.array()


def test_a_matmul_is_called_by_its_own_kernel():
    """Not by the equal one whose program it runs."""
    run = shared().simulated
    launch = len(run.trace.kernels) - 2
    assert run.scheduled.launches.launches[launch].name != run.trace.kernels[launch]
    span = next(
        row for row in np.flatnonzero(run.trace.launch == launch).tolist() if run.trace.kind[row] == Opcode.MATMUL
    )
    assert f"MATMUL of {run.scheduled.launches.launches[launch].name} on" in repr(run.array(span))
