"""The widgets that explain, by their messages, without a browser; and the lab that has them as views."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

import workbench as wb
from tests.jupyter.browserless import Front
from tests.jupyter.timelines import softmax
from tests.programs import PROGRAMS
from workbench.explaining.views.timelines.columns import Columns
from workbench.jupyter.widgets.explaining_widgets import ArrayWidget, PassesWidget, PipelineWidget


@functools.cache
def product() -> wb.Journey:
    return PROGRAMS["matmul_ragged"].traced(machine="edge-8x8")


def block(front: Front, ask: str, **given: object) -> Columns:
    answer = front.answer(ask, **given)
    return Columns(answer["header"], bytes(front.sent[-1][1][0]))


def test_an_array_widget_shows_its_matmul_and_answers_for_all_others():
    run = product().simulated
    view = run.array(run.array().span)
    widget = view.widget()
    assert isinstance(widget, ArrayWidget) and repr(view) in repr(widget) and view.html() == widget.static_html()
    front = Front(widget)
    assert front.answer("array.open")["first"] == view.span
    rows = block(front, "array.open").column("row").tolist()
    assert sorted(rows) == list(run.events.index[run.events.kind == "MATMUL"])
    for row in rows[:5]:
        made = block(front, "array.walk", span=row)
        assert made.header["span"] == row
        assert [part[3] for part in made.header["parts"]] == list(run.array(row).table.cycles)
        assert made.column("rows").tolist() == list(run.array(row).tiles.rows)
    assert "is a LOAD" in front.ask("array.walk", span=0)["error"]
    widget.close()


def test_a_pipeline_widget_shows_its_launch_and_loop():
    view = product().simulated.pipeline(0, loop=product().simulated.pipeline(0).record.loops[0])
    widget = view.widget()
    assert isinstance(widget, PipelineWidget) and view.html() == widget.static_html()
    front = Front(widget)
    opened = front.answer("pipeline.open")
    assert (opened["first"], opened["loop"]) == (0, view.loop)
    made = block(front, "pipeline.launch", launch=0, loop=view.loop)
    assert made.column("span").tolist() == list(view.spans.span)
    assert "no such loop" in front.ask("pipeline.launch", launch=0, loop="i9")["error"]


def test_a_passes_widget_has_every_text_and_every_change():
    kernel = softmax().scheduled.kernels[0]
    widget = kernel.passes.widget()
    assert isinstance(widget, PassesWidget) and kernel.passes.html() == widget.static_html()
    front = Front(widget)
    assert [each["name"] for each in front.answer("passes.open")["kernels"]] == [kernel.name]
    told = front.answer("passes.kernel", kernel=kernel.name)["passes"]
    table = kernel.passes.table
    assert [each["name"] for each in told] == list(table["pass"])
    assert [each["ops"] for each in told] == table[["ops_before", "ops_after"]].values.tolist()
    assert [each["added"] for each in told] == list(table.lines_added)
    for number in (0, len(kernel.passes)):
        text = front.answer("passes.text", kernel=kernel.name, number=number)["html"]
        assert text.count('<div class="l ') == len(kernel.passes.lines(number))
    diff = kernel.passes.between(2, 9).diff
    assert diff is not None
    for beside in (False, True):
        there, back = (
            front.answer("passes.diff", kernel=kernel.name, before=before, after=after, beside=beside)["html"]
            for before, after in ((2, 9), (9, 2))
        )
        assert there.count('<div class="l plus') == diff.added
        assert back.count('<div class="l plus') == diff.removed


def test_the_lab_has_the_three_views_and_their_rows_are_its_lists():
    journey = softmax()
    front = Front(journey.widget())
    assert {"array", "pipeline", "passes"} <= set(front.answer("open")["looks"])
    kernel = journey.scheduled.kernels[0]
    front.answer("list", name="scheduled")
    lines = kernel.passes.lines(len(kernel.passes))
    text = front.answer("passes.text", kernel=kernel.name, number=len(kernel.passes))["html"]
    rows = re.findall(r'<div class="l [^>]*>', text)
    assert len(rows) == len(lines)
    for place, tag in list(enumerate(rows))[::5]:
        if found := re.search(r'data-scheduled="(\d+)"', tag):
            front.answer("pick", name="scheduled", row=int(found[1]))
            assert journey.selection.selection == journey.select((kernel.name, int(lines.scheduled_line[place])))


def test_views_work_on_a_journey_from_a_file(tmp_path: Any):
    softmax().save(tmp_path / "a.journey")
    front = Front(wb.load(tmp_path / "a.journey").widget())
    looks = front.answer("open")["looks"]
    assert front.answer("array.open")["first"] is None  # a softmax has no matmul
    assert front.answer("pipeline.open")["launches"][0]["first"] == 0
    kernel = front.answer("passes.open")["kernels"][0]
    assert "passes" in looks and len(front.answer("passes.kernel", kernel=kernel["name"])["passes"]) > 5


@pytest.mark.parametrize("look", ["array", "pipeline", "passes"])
def test_what_may_be_recorded_is_answered_whatever_is_selected(look: str):
    """A page without Python replays these."""
    journey = product()
    widget = journey.widget()
    front = Front(widget)
    questions = widget.looks[look].recorded()
    assert questions
    first = [front.answer(f"{look}.{ask}", **given) for ask, given in questions]
    journey.selection.select(3)
    assert [front.answer(f"{look}.{ask}", **given) for ask, given in questions] == first
    journey.selection.select(None)


def test_passes_of_a_kernel_that_is_not_there():
    front = Front(softmax().scheduled.kernels[0].passes.widget())
    for ask, given in (("kernel", {}), ("text", {"number": 0}), ("diff", {"before": 0, "after": 1, "beside": False})):
        assert "there is no kernel 'k9'" in front.ask(f"passes.{ask}", kernel="k9", **given)["error"]
