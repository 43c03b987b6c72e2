"""`j.simulated.at(cycle)`: slots, boxes and tiles in a cycle, beside the trace and the tables over time."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import workbench as wb
from simulator.tileprogram.program import Access, Space
from tests.jupyter.timelines import RUNS
from workbench.explaining.views.scratchpads.moments import EMPTY, IN_USE, WAITS
from workbench.explaining.views.scratchpads.replay_columns import replay_columns
from workbench.explaining.views.scratchpads.tiles import BY_INDEX
from workbench.ground.errors import BadOption, EmptyTable


@pytest.fixture(scope="module", params=RUNS)
def journey(request: pytest.FixtureRequest) -> wb.Journey:
    return RUNS[request.param]()


@pytest.fixture(scope="module")
def product() -> wb.Journey:
    """2 x 3 tiles of the result, each over two steps: x is moved three times, w twice."""
    mapping = {"*": {"tile": {"m": 32, "n": 32, "k": 64}}}
    return wb.trace(lambda x, w: x @ w, torch.randn(64, 128), torch.randn(128, 96), machine="edge-8x8", mapping=mapping)


def cycles_of(journey: wb.Journey, count: int = 25) -> list[int]:
    """Some by chance, and those in which launches begin and end."""
    draw, run = random.Random(1), journey.simulated
    edges = [edge for times in run.replays.times for edge in times]
    return sorted({0, run.cycles, *edges, *draw.sample(range(run.cycles), count)})


def launch_at(journey: wb.Journey, cycle: int) -> int:
    return max((n for n, begin in enumerate(journey.simulated.trace.begins.tolist()) if begin <= cycle), default=0)


def going(journey: wb.Journey, launch: int, cycle: int, access: Access) -> dict[tuple[str, int], set[int]]:
    """Which instructions read or write which slots, operand by operand."""
    trace = journey.simulated.trace
    program, first = trace.launches[launch].program, int(np.searchsorted(trace.launch, launch))
    found = dict[tuple[str, int], set[int]]()
    for row in range(len(program)):
        start, end, done = (int(column[first + row]) for column in (trace.start, trace.end, trace.done))
        for operand in range(int(program.operand_start[row]), int(program.operand_start[row + 1])):
            told = program.operand(operand)
            over = done if told.access & Access.WRITE else end
            if told.space == Space.SCRATCHPAD and told.access & access and start <= cycle < over:
                found.setdefault((program.buffers[told.target].name, told.slot), set()).add(row)
    return found


def numbers(text: str) -> set[int]:
    return {int(part.partition("#")[2]) for part in text.split(", ") if part}


@pytest.mark.test_all(but=1)
def test_slots_hold_what_the_table_over_time_says(journey: wb.Journey):
    run = journey.simulated
    over_time = run.scratchpad.table
    for cycle in cycles_of(journey):
        launch = launch_at(journey, cycle)
        if run.replays.of(launch).is_host:
            continue
        slots = run.at(cycle).slots
        here = over_time[(over_time.launch == launch) & (over_time.start <= cycle) & (cycle < over_time.end)]
        held = slots[slots.state != EMPTY]
        keys = ["core", "buffer", "slot", "tensor", "role", "start", "read", "end", "address", "bytes"]
        wanted = here[keys].sort_values(["core", "address", "slot"]).to_numpy().tolist()
        assert held[keys].to_numpy().tolist() == wanted
        states = {WAITS if cycle < read else IN_USE for read in here.read}
        assert set(held.state) == states
        for column, access in (("written_by", Access.WRITE), ("read_by", Access.READ)):
            users = {(row.buffer, row.slot): numbers(getattr(row, column)) for row in slots.itertuples()}
            assert {place: rows for place, rows in users.items() if rows} == going(journey, launch, cycle, access)


@pytest.mark.test_all(but=1)
def test_boxes_are_those_of_instructions_at_work(journey: wb.Journey):
    run = journey.simulated
    for cycle in cycles_of(journey, 12):
        moment = run.at(cycle)
        if moment.record.replay.is_host:
            continue
        table = journey.scheduled.tiles(moment.kernel).table
        trace, first = run.trace, moment.record.replay.first_span
        rows = first + table.instruction.to_numpy()
        over = np.where(table.access.str.contains("write"), trace.done[rows], trace.end[rows])
        now = table[(trace.start[rows] <= cycle) & (cycle < over) & table.start.notna()]
        wanted = now.drop(columns=["exact"]).to_numpy().tolist()
        if not wanted:
            with pytest.warns(EmptyTable, match="no instruction touches"):
                assert moment.boxes.empty
        else:
            assert moment.boxes.drop(columns=["exact"]).to_numpy().tolist() == wanted
        busy = run.events.iloc[list(moment.spans)]
        assert ((busy.start <= cycle) & (cycle < busy.end)).all()
        assert len(busy) == int(((trace.start <= cycle) & (cycle < trace.end)).sum())


@pytest.mark.test_all
def test_tiles_are_moved_as_often_as_their_moves_have_begun(product: wb.Journey):
    run, table = product.simulated, product.scheduled.tiles("k0_matmul").table
    start = run.trace.start
    for cycle in cycles_of(product):
        begun = start[table.instruction.to_numpy()] <= cycle
        for row in run.at(cycle).tiles.itertuples():
            same = table.kind.isin(["LOAD", "STORE"]) & (table.tensor == row.tensor) & (table.start == row.start)
            assert (row.moved, row.moves) == (int((same & begun).sum()), int(same.sum()))
            assert table[same].extent.iloc[0] == row.extent
    last = run.at(run.cycles).tiles
    assert (last.moved == last.moves).all() and set(last.now) == {""}
    assert last.groupby("tensor").moves.first().to_dict() == {"matmul": 1, "w": 2, "x": 3}
    assert last.groupby("tensor").moves.sum().to_dict() == {"matmul": 6, "w": 12, "x": 12}
    begin = run.at(0).tiles
    assert begin[begin.moved > 0][["tensor", "start", "now"]].to_numpy().tolist() == [["x", (0, 0), "read"]]


def as_text(moment: Any) -> list[str]:
    record = moment.record
    return [record.slots().text(), record.boxes().text(), record.tiles().text()]


def test_nothing_changes_between_two_changes(product: wb.Journey):
    run = product.simulated
    changes = run.replays.of(0).changes.tolist()
    assert changes[0] == 0 and changes[-1] == run.cycles
    for before, after in pairwise(changes[:21]):
        assert as_text(run.at(before)) == as_text(run.at(after - 1))
        assert as_text(run.at(before)) != as_text(run.at(after))


def test_a_moment_says_what_it_is(product: wb.Journey):
    moment = product.simulated.at(700)
    assert moment.cycle == 700 and moment.kernel == "k0_matmul"
    assert repr(moment).startswith("Moment(cycle 700, k0_matmul: ")
    assert "of 262,144 bytes hold something" in moment.text() and "MATMUL #2" in moment.text()
    assert "<table" in moment.html() and "MATMUL #2" in moment.html()
    assert product.simulated.at(0).record.bytes_now == 32 * 64 * 4


def test_a_cycle_that_the_run_does_not_have(product: wb.Journey):
    cycles = product.simulated.cycles
    for cycle in (-1, cycles + 1):
        with pytest.raises(BadOption, match=rf"at\({cycle:,}\): the run has the cycles 0 to {cycles:,}"):
            product.simulated.at(cycle)
    with pytest.raises(BadOption, match="no kernel ran"):
        wb.trace(lambda x: x.t(), torch.randn(2, 3)).simulated.at(0)


def test_a_step_on_the_host_has_neither_slots_nor_tiles():
    journey = RUNS["a step on the host"]()
    replays = journey.simulated.replays
    host = next(n for n in range(len(replays.times)) if replays.of(n).is_host)
    moment = journey.simulated.at(replays.times[host][0])
    with pytest.warns(EmptyTable, match="on the host"):
        assert moment.slots.empty and moment.tiles.empty
    assert replay_columns(replays.of(host)).header["note"].startswith("PyTorch computes")


def test_between_two_kernels_nothing_goes_on(journey: wb.Journey):
    run = journey.simulated
    for launch, (_, end) in enumerate(run.replays.times[:-1]):
        if run.replays.times[launch + 1][0] > end and not run.replays.of(launch).is_host:
            moment = run.at(end)
            assert moment.record.replay.launch == launch and "ended in cycle" in repr(moment)
            assert moment.spans == () and set(moment.slots.state) == {EMPTY}


def test_a_journey_from_a_file_says_the_same(product: wb.Journey, tmp_path: Path):
    product.save(tmp_path / "a.journey")
    loaded = wb.load(tmp_path / "a.journey")
    for cycle in cycles_of(product, 5):
        ours, theirs = product.simulated.at(cycle), loaded.simulated.at(cycle)
        pd.testing.assert_frame_equal(ours.slots, theirs.slots)
        pd.testing.assert_frame_equal(ours.tiles, theirs.tiles)


def test_what_indices_choose_is_said():
    journey = wb.trace(lambda t, i: t[i] * 2, torch.randn(256, 32), torch.randint(0, 256, (40,)), machine="edge-8x8")
    grids = replay_columns(journey.simulated.replays.of(0)).header["grids"]
    assert {grid["tensor"]: BY_INDEX in grid["caption"] for grid in grids} == {"t": True, "i": False, "mul": False}
