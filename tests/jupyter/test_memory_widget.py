"""Scratchpad and tiles as a widget, by its messages."""

from __future__ import annotations

import gc
import weakref
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from simulator.errors import DoesNotFit
from tests.jupyter.browserless import Front
from tests.jupyter.timelines import RUNS, softmax, two_cores
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.memory_widget import MemoryWidget


def widget_of(journey: wb.Journey) -> MemoryWidget:
    made = journey.simulated.scratchpad.widget()
    assert isinstance(made, MemoryWidget)
    return made


@pytest.fixture(params=RUNS)
def journey(request: pytest.FixtureRequest) -> wb.Journey:
    made = RUNS[request.param]()
    made.selection.select(None)
    return made


def column(front: Front, answer: dict[str, Any], name: str) -> list[int]:
    """A column of the launch that was answered last."""
    place = next(each for each in answer["header"]["columns"] if each["name"] == name)
    dtype = {"u8": "u1", "u16": "<u2", "u32": "<u4"}[place["type"]]
    return np.frombuffer(front.sent[-1][1][0], dtype, place["length"], place["offset"]).tolist()


def test_launches_are_those_of_the_run(journey: wb.Journey):
    front = Front(widget_of(journey))
    run = journey.simulated
    about = front.answer("memory.open")
    assert about["kernels"] == [launch.name for launch in run.scheduled.launches.launches]
    assert about["launches"] == [[begin, end] for _, begin, end in run.trace.kernel_spans]
    assert about["cycles"] == run.cycles and about["selects"]
    for launch in range(len(about["launches"])):
        answer = front.answer("memory.launch", launch=launch)
        header, here = answer["header"], run.events[run.events.launch == launch]
        assert (header["kernel"], header["first_span"]) == (about["kernels"][launch], here.index[0])
        start = np.array(column(front, answer, "start")) + header["begin"]
        assert start.tolist() == here.start.tolist()
        kinds = [header["kinds"][kind] for kind in column(front, answer, "kind")]
        assert kinds == here.kind.tolist()
        held = run.scratchpad.table
        mine = held[held.launch == launch].sort_values(["start", "end"])
        assert sorted(column(front, answer, "life_start")) == (mine.start - header["begin"]).tolist()


def test_what_is_pressed_is_selected_and_what_is_selected_is_told(journey: wb.Journey):
    front = Front(widget_of(journey))
    launch = next(n for n in range(len(journey.simulated.replays.times)) if journey.simulated.replays.of(n).slots)
    replay = journey.simulated.replays.of(launch)
    front.answer("memory.tile", launch=launch, touch=0)
    assert journey.selection.selection == journey.select(wb.TileAt(replay.kernel, 0))
    for expected in (journey.select(wb.TileAt(replay.kernel, 0)), journey.select(wb.BufferAt(replay.kernel, 0))):
        told = next(buffers for content, buffers in reversed(front.sent) if content.get("tell") == "selected")
        assert np.frombuffer(told[0], "<u4").tolist() == list(expected.spans)
        front.answer("memory.buffer", launch=launch, number=0)
    journey.selection.select(None)
    front.answer("selected")
    assert np.frombuffer(front.sent[-1][1][0], "<u4").tolist() == []


def test_the_cycle_is_one_of_the_run():
    widget = widget_of(softmax())
    cycles = softmax().simulated.cycles
    widget.cycle = cycles
    assert repr(widget) == f"MemoryWidget({softmax().simulated.at(cycles).record.summary()})"
    with pytest.raises(BadOption, match="the run has the cycles 0 to"):
        widget.cycle = cycles + 1
    assert widget.cycle == cycles


def test_a_launch_opens_at_its_begin():
    run = two_cores().simulated
    begin = run.replays.times[1][0]
    widget = run.scratchpad.of(1).widget()
    assert isinstance(widget, MemoryWidget) and widget.cycle == begin


def test_it_opens_where_what_is_selected_begins():
    journey = two_cores()
    run = journey.simulated
    (first, _), (second, _), *_ = run.replays.times
    later = int(run.events[(run.events.launch == 1) & (run.events.start > second)].index[3])
    for selected, of_all, of_first in ((later, int(run.events.start[later]), first), (None, first, first)):
        journey.selection.select(selected)
        assert widget_of(journey).cycle == of_all
        assert run.scratchpad.of(0).widget().cycle == of_first  # type: ignore[attr-defined]


def test_wrong_questions_are_answered_in_words():
    front = Front(widget_of(softmax()))
    assert "there is no launch 99" in front.ask("memory.launch", launch=99)["error"]
    assert "its tiles have the rows" in front.ask("memory.tile", launch=0, touch=10**6)["error"]
    assert "the view memory has no answer to 'color'" in front.ask("memory.color")["error"]


def test_a_run_without_a_journey_selects_nothing():
    journey = softmax()
    run = wb.simulate(journey.lowered, journey.scheduled, machine="tpu-v3")
    widget = run.scratchpad.widget()
    assert isinstance(widget, MemoryWidget)
    front = Front(widget)
    assert front.answer("memory.open")["selects"] is False
    assert "belongs to no journey" in front.ask("memory.buffer", launch=0, number=0)["error"]
    assert front.answer("selected") == {}


def test_what_does_not_fit_has_no_cycles_to_show():
    journey = wb.trace(lambda x, w: x @ w, torch.randn(256, 256), torch.randn(256, 256), machine="edge-8x8")
    with pytest.raises(DoesNotFit) as caught:
        _ = journey.with_(mapping={"*": {"tile": {"m": 256, "n": 256, "k": 256}}}).scheduled
    with pytest.raises(BadOption, match="this mapping did not run"):
        caught.value.scratchpad.widget()  # type: ignore[union-attr]


def test_readers_without_a_kernel_see_the_launch():
    widget = widget_of(softmax())
    html = widget.static_html()
    assert html.count("<svg") == 1 + len(softmax().simulated.replays.of(0).grids)
    assert softmax().simulated.at(widget.cycle).record.summary() in unescape(html)


def test_a_journey_from_a_file_has_it(tmp_path: Path):
    softmax().save(tmp_path / "a.journey")
    loaded = wb.load(tmp_path / "a.journey")
    front = Front(widget_of(loaded))
    assert front.answer("memory.launch", launch=0)["header"]["kernel"] == "k0_softmax"
    front.answer("memory.buffer", launch=0, number=1)
    assert loaded.selection.selection == loaded.select(wb.BufferAt("k0_softmax", 1))


def test_the_lab_has_it_and_it_is_recorded_whole():
    journey = two_cores()
    lab = journey.widget()
    front = Front(lab)  # type: ignore[arg-type]
    assert "memory" in front.answer("open")["looks"]
    for ask, given in lab.looks["memory"].recorded():  # type: ignore[attr-defined]
        assert front.answer(f"memory.{ask}", **given)
    assert len(lab.looks["memory"].recorded()) == 1 + len(journey.simulated.replays.times)  # type: ignore[attr-defined]
    lab.close()  # type: ignore[attr-defined]


@pytest.mark.test_all
def test_a_closed_widget_hears_nothing_and_is_let_go():
    journey = softmax()
    widget = widget_of(journey)
    front = Front(widget)
    widget.close()
    front.sent.clear()
    journey.selection.select(0)
    journey.selection.select(None)
    assert front.sent == [] and repr(widget) == "MemoryWidget(closed)"
    gone = weakref.ref(widget)
    del widget, front
    gc.collect()
    assert gone() is None
