"""The timeline's widget by its messages, without a browser."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import workbench as wb
from simulator.errors import BadArgument
from tests.jupyter.browserless import Front
from tests.jupyter.timelines import by_host, softmax, two_cores
from workbench.explaining.findings.finding_record import Finding
from workbench.explaining.findings.rule_search import about
from workbench.explaining.views.timelines.columns import Columns, timeline_columns
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets import timeline_widget as timelines
from workbench.jupyter.widgets.timeline_widget import TimelineWidget


def opened(journey: wb.Journey, beside: wb.Journey | None = None) -> tuple[TimelineWidget, Front]:
    widget = journey.simulated.widget(beside=beside.simulated if beside else None)
    assert isinstance(widget, TimelineWidget)
    return widget, Front(widget)


def columns(front: Front, run: int, what: str) -> dict[str, Any]:
    """The message that answers with a block of columns."""
    return front.ask("columns", run=run, what=what)


def test_nothing_large_is_state_and_columns_come_as_bytes_when_asked_for():
    widget, front = opened(softmax())
    state = widget.get_state()
    assert sum(len(str(value)) for name, value in state.items() if name not in ("module_text", "_esm", "_css")) < 1000
    answer = columns(front, 0, "timeline")["answer"]
    assert [len(sent) for _, sent in front.sent] == [1]
    block = Columns(answer["header"], bytes(front.sent[-1][1][0]))
    run = softmax().simulated
    assert block.data == timeline_columns(run.trace, run.scheduled.launches).data
    assert len(block.data) < 30 * len(run.trace) + 400
    for what, column in (("dependences", "slack"), ("critical", "critical")):
        assert any(each["name"] == column for each in columns(front, 0, what)["answer"]["header"]["columns"])


def test_what_is_asked_wrongly_is_said():
    _, front = opened(softmax())
    assert "it has timeline, dependences, critical" in columns(front, 0, "dependencies")["error"]
    assert "there is no unit 'vpu9'" in front.ask("gap", run=0, unit="vpu9", cycle=1)["error"]


def test_idle_time_comes_with_the_findings_that_show_its_spans(monkeypatch: pytest.MonkeyPatch):
    journey = two_cores()
    _, front = opened(journey)
    view, findings, spoken = journey.simulated.gantt(), journey.findings, 0
    for lane, begin in zip(view.idle_time.lane.tolist()[::7], view.idle_time.start.tolist()[::7], strict=True):
        unit = view.lanes[lane].name
        row = journey.simulated.gap(unit, begin).iloc[0]
        around = {row.next_span, row.waited_for} - {-1}
        mine = [each.rule for each in findings.itertuples() if around & set(each.spans)]
        kernel = journey.simulated.events.kernel[row.next_span]
        expected = mine or [each.rule for each in findings.itertuples() if each.kernel == kernel]
        told = front.answer("gap", run=0, unit=unit, cycle=begin)["findings"]
        assert [each["rule"] for each in told] == expected
        spoken += len(told)
    assert spoken
    monkeypatch.setattr(timelines, "MOST_SPANS", 3)
    assert "j.findings" in front.answer("gap", run=0, unit=unit, cycle=begin)["note"]


def test_findings_of_the_spans_come_before_those_of_the_kernel():
    shown, of_kernel, other = Finding("k1", 9, "", (4, 5)), Finding("k0", 8, ""), Finding("k0", 7, "", (5,))
    assert about([shown, of_kernel, other], [5], "k0") == (shown, other)
    assert about([shown, of_kernel, other], [6], "k0") == (of_kernel, other)
    assert about([shown, Finding("", 3, "")], [6], "") == ()


def test_spans_are_selected_from_python_and_those_that_are_not_there_are_refused():
    widget, _ = opened(softmax(), two_cores())
    widget.spans, widget.spans_beside = [3, 4], [len(two_cores().simulated.trace) - 1]
    assert widget.spans == [3, 4] and widget.get_state()["spans"] == [3, 4]
    count = len(softmax().simulated.trace)
    with pytest.raises(BadOption, match=rf"spans holds {count}, and rows of j.simulated.events are 0 to {count - 1}"):
        widget.spans = [0, count]
    alone, _ = opened(softmax())
    with pytest.raises(BadOption, match="there is no second timeline"):
        alone.spans_beside = [0]


def test_a_stretch_of_the_run_is_shown_from_python():
    widget, front = opened(softmax())
    widget.show(10, 20)
    assert front.told("show") == [{"begin": 10, "end": 20}]
    with pytest.raises(BadOption, match=r"show\(20, 10\): expected two cycles in order"):
        widget.show(20, 10)


def test_two_runs_stand_above_each_other():
    _, front = opened(softmax(), two_cores())
    assert [each.startswith("Simulated(") for each in front.answer("open")["titles"]] == [True, True]
    second = columns(front, 1, "timeline")["answer"]["header"]
    assert second["makespan"] == two_cores().simulated.cycles
    with pytest.raises(BadArgument, match="beside"):
        softmax().simulated.widget(beside=3)  # type: ignore[arg-type]


def test_a_reader_without_a_kernel_sees_the_picture():
    widget, _ = opened(softmax(), by_host())
    twin = widget.static_html()
    assert twin.count("<svg") == 2 and "<script" not in twin
    assert repr(widget) == f"TimelineWidget({softmax().simulated!r} beside {by_host().simulated!r})"


@pytest.mark.test_all
def test_a_closed_widget_lets_go_of_the_run():
    widget, _ = opened(softmax())
    source = weakref.ref(widget._sources[0])
    widget.close()
    assert repr(widget) == "TimelineWidget(closed)"
    gc.collect()
    assert source() is None


def test_a_run_without_spans_has_columns_without_numbers():
    journey = wb.trace(lambda x: x.t(), torch.randn(2, 3))
    _, front = opened(journey)
    header = columns(front, 0, "timeline")["answer"]["header"]
    assert header["spans"] == len(journey.simulated.trace) == 0 and header["lanes"] == []
    assert columns(front, 0, "dependences")["answer"] and columns(front, 0, "critical")["answer"]
