"""A kernel's loop over tiles as it ran, against the events of the run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import workbench as wb
from tests.jupyter.timelines import by_host, softmax, two_cores
from tests.programs import PROGRAMS
from workbench.explaining.views.timelines.columns import NONE
from workbench.explaining.views.timelines.pipelines import STAGES, pipeline_columns
from workbench.ground.errors import BadOption


def product() -> wb.Journey:
    """In two loops."""
    made = PROGRAMS["matmul_bias_gelu"]
    tile = {"m": 128, "n": 128, "k": 256}
    return made.traced(mapping={"*": {"tile": tile}})


JOURNEYS = {"softmax": softmax, "two cores": two_cores, "a product": product}


@pytest.fixture(params=JOURNEYS)
def journey(request: pytest.FixtureRequest) -> wb.Journey:
    return JOURNEYS[request.param]()


def test_every_span_of_a_launch_is_in_one_iteration_as_the_events_have_it(journey: wb.Journey):
    run, events = journey.simulated, journey.simulated.events
    for launch in range(len(run.trace.kernels)):
        view = run.pipeline(launch)
        spans = view.spans.set_index("span").sort_index()
        mine = events[events.launch == launch]
        assert list(spans.index) == list(mine.index)
        for ours, theirs in (
            ("begin", "start"),
            ("end", "end"),
            ("kind", "kind"),
            ("unit", "unit"),
            ("cause", "cause"),
        ):
            assert list(spans[ours]) == list(mine[theirs]), ours
        program = run.scheduled.kernel(run.scheduled.launches.launches[launch].kernel).program
        for row, entry in zip(spans.itertuples(), mine.itertuples(), strict=True):
            instruction = program.instruction(entry.instr)
            assert row.iteration == instruction.iteration
            slots = {f"{program.buffers[each.target].name}[{each.slot}]" for each in instruction.operands if each.space}
            assert set(row.slots) == slots


def test_hidden_cycles_are_those_in_which_the_core_computes(journey: wb.Journey):
    """Cycle by cycle, as anyone would count."""
    run = journey.simulated
    view = run.pipeline(0)
    record, events = view.record, run.events[run.events.launch == 0]
    busy = np.zeros((run.machine.core.count, record.end + 1), bool)
    moving, mine = busy.copy(), {}
    for each in events.itertuples():
        if each.kind in ("MATMUL", "VECTOR", "DIRECT"):
            busy[each.core, each.start : each.end] = True
        elif each.kind in ("LOAD", "STORE", "GATHER", "SCATTER"):
            moving[each.core, each.start : each.end] = True
    for each in view.spans.itertuples():
        core = events.core[each.span]
        if each.stage in ("load", "store"):
            assert each.hidden == busy[core, each.begin : each.end].sum()
        mine.setdefault(each.row, []).append(each)
    for row in view.table.itertuples():
        moved = np.zeros(record.end + 1, bool)
        for each in mine[row.row]:
            if each.stage in ("load", "store"):
                moved[each.begin : each.end] = True
        assert (row.moving, row.hidden) == (moved.sum(), (moved & busy[row.core]).sum())
        during = {
            other.row
            for other in view.spans.itertuples()
            if other.stage == "compute" and events.core[other.span] == row.core and other.begin < other.end
            and moved[other.begin : other.end].any()
        }  # fmt: skip
        assert set(row.during) == during
    assert record.whole == (moving.sum(), (moving & busy).sum())
    assert view.hidden_share == pytest.approx((moving & busy).sum() / moving.sum())


def test_a_loop_that_is_named_counts_rows_and_a_launch_is_named_or_numbered():
    run = product().simulated
    inner, outer = run.pipeline(0), run.pipeline(0, loop="i0")
    assert inner.record.loops == ("i0", "i1") and outer.record.loops == ("i0",)
    assert len(outer.table) < len(inner.table)
    assert sum(map(len, (row.spans for row in outer.record.rows))) == len(run.events)
    assert run.pipeline(run.trace.kernels[0]).table.equals(inner.table)
    with pytest.raises(BadOption, match="no such loop; the kernel has i0, i1"):
        run.pipeline(0, loop="io")
    with pytest.raises(BadOption, match="no such kernel"):
        run.pipeline("k7")
    with pytest.raises(BadOption, match="launches are numbered from 0 to 0"):
        run.pipeline(1)
    hosted = by_host().simulated
    number = next(n for n, each in enumerate(hosted.scheduled.launches.launches) if "inv" in each.name)
    with pytest.raises(BadOption, match="runs on the host"):
        hosted.pipeline(number)


def test_columns_and_pictures_hold_what_the_tables_say(tmp_path):
    journey = product()
    view = journey.simulated.pipeline(0)
    block, spans = pipeline_columns(view.record), view.spans
    base = block.header["begin"]
    assert block.column("span").tolist() == list(spans.span)
    assert (block.column("start").astype(int) + base).tolist() == list(spans.begin)
    assert [-1 if each == NONE else each for each in block.column("waited_for").tolist()] == list(spans.waited_for)
    starts, flat = block.column("during_first"), block.column("during")
    assert [tuple(flat[a:b].tolist()) for a, b in pairwise(starts)] == list(spans.during)
    assert [STAGES[stage] for stage in block.column("stage")] == spans.stage.tolist()
    assert view.record.trace is journey.simulated.trace
    html = view.html()
    assert html.count("<rect") >= len(spans) and "hidden behind work" in html
    assert f"{view.hidden_share:.0%}" in view.text()
    journey.save(tmp_path / "a.journey")
    assert wb.load(tmp_path / "a.journey").simulated.pipeline(0).html() == html


def test_a_kernel_without_loops_is_one_iteration():
    run = wb.trace(torch.relu, torch.randn(4, 4)).simulated
    table = run.pipeline(0).table
    assert len(table) == 1 and table.hidden[0] == 0
