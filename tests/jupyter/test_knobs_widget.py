"""The knobs' widget by its messages, without a browser."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from tests.jupyter.browserless import Front
from tests.jupyter.timelines import NORMS_APART, by_host
from workbench.explaining.views.timelines.columns import Columns, timeline_columns
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.knobs_widget import KnobsWidget
from workbench.jupyter.widgets.stepper_widget import Stepper


@pytest.fixture(scope="module")
def j() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(
        lambda x, w: F.gelu(x @ w).softmax(0), torch.randn(64, 96), torch.randn(96, 128), machine="edge-8x8"
    )


@pytest.fixture
def opened(j: wb.Journey) -> Iterator[tuple[KnobsWidget, Front]]:
    widget = j.knobs("k0").widget()
    assert isinstance(widget, KnobsWidget)
    yield widget, Front(widget)
    widget.close()


def ask(front: Front, what: str, **given: object) -> Any:
    return front.answer(f"knobs.{what}", **given)


def settled(widget: KnobsWidget, front: Front) -> dict[str, Any]:
    """The step that was told last."""
    widget.experiment.wait(120)
    return front.told("knobs.step")[-1]


def test_it_opens_with_the_knobs_that_python_has(j: wb.Journey, opened: tuple[KnobsWidget, Front]):
    found = ask(opened[1], "open")
    knobs = j.knobs("k0")
    assert [each["name"] for each in found["knobs"]] == [each.name for each in knobs.knobs if each.kernel]
    assert [each["name"] for each in found["shared"]] == [each.name for each in knobs.knobs if not each.kernel]
    assert found["kernel"] == knobs.kernel and found["kernels"] == [each.name for each in j.scheduled.kernels]
    tile = found["knobs"][0]
    assert tile["values"] == [f"{value:,}" for value in knobs["tile.m"].values] and tile["range"] == "1 to 64"
    assert [(step["cycles"], step["call"]) for step in found["steps"]] == [(j.simulated.cycles, "j")]


def test_turning_in_the_browser_makes_the_step_that_python_makes(j: wb.Journey, opened: tuple[KnobsWidget, Front]):
    widget, front = opened
    ask(front, "open")
    assert ask(front, "turn", kernel=j.knobs("k0").kernel, knob="tile.m", text="16") == {}
    told = settled(widget, front)
    made = j.knobs("k0").turned("tile.m", 16)
    assert (told["cycles"], told["call"]) == (made.simulated.cycles, j.knobs("k0").call("tile.m", 16))
    assert told["more_cycles"] == made.simulated.cycles - j.simulated.cycles and told["what"] == "tile.m 16"
    assert widget.step.cycles == widget.journey.simulated.cycles == made.simulated.cycles
    answer = front.ask("knobs.columns", run=1, what="timeline")
    buffers = next(buffers for content, buffers in front.sent if content is answer)
    run = made.simulated
    expected = timeline_columns(run.trace, run.scheduled.launches)
    assert Columns(answer["answer"]["header"], bytes(buffers[0])).data == expected.data


def test_a_knob_turned_from_python_is_told(j: wb.Journey, opened: tuple[KnobsWidget, Front]):
    widget, front = opened
    ask(front, "open")
    widget.experiment.turn("buffers", 1, kernel="k0")
    told = settled(widget, front)
    assert told["turned"] == [{"kernel": j.knobs("k0").kernel, "name": "buffers"}] and told["now"] == 1
    assert {"kernel": j.knobs("k0").kernel, "name": "buffers", "text": "1"} in told["values"]
    assert ask(front, "back", step=0) == {}
    assert settled(widget, front)["what"] == "back to the start" and widget.journey is j


@pytest.mark.test_all
def test_what_is_refused_is_told_with_its_reason(j: wb.Journey, opened: tuple[KnobsWidget, Front]):
    widget, front = opened
    ask(front, "open")
    name = j.knobs("k0").kernel
    ask(front, "turn", kernel=name, knob="tile.m", text="9,999")
    told = settled(widget, front)
    assert told["refused"] == j.knobs("k0").why_not("tile.m", 9999) and told["now"] == 0
    assert told["turned"] == [{"kernel": name, "name": "tile.m"}]
    refused = ask(front, "turn", kernel=name, knob="tile.m", text="many")
    assert refused == {"refused": "tile.m = 'many': expected a number, 1 to 64"}
    values = ask(front, "allowed", kernel=name, knob="buffers")["values"]
    expected = j.knobs("k0").values("buffers")
    assert [why for _, why in values] == list(expected.why_not)


@pytest.mark.test_all
def test_what_is_tried_is_worth_trying_beside_what_is_turned(j: wb.Journey, opened: tuple[KnobsWidget, Front]):
    widget, front = opened
    name = j.knobs("k0").kernel
    widget.experiment.turn("tile.m", 1, kernel="k0").wait(120)
    present = {knob["name"]: knob["values"] for knob in ask(front, "present", kernel=name)["knobs"]}
    values = ask(front, "allowed", kernel=name, knob="buffers")["values"]
    assert [value for value, _ in values] == present["buffers"] != list(map(str, j.knobs("k0")["buffers"].values))
    told = ask(front, "map", kernel=name, knobs=["buffers"])["map"]
    assert told["columns"] == present["buffers"]


@pytest.mark.test_all
def test_findings_are_those_of_the_comparison(j: wb.Journey, opened: tuple[KnobsWidget, Front]):
    widget, front = opened
    ask(front, "open")
    widget.experiment.turn("tile.m", 8, kernel="k0").wait(120)
    found = ask(front, "findings", step=1)
    expected = widget.step.findings
    assert [(each["change"], each["rule"]) for each in found["moved"]] == [
        (row.change, row.rule) for row in expected.itertuples() if row.change != "stays"
    ]
    assert found["stay"] == (expected.change == "stays").sum()
    assert ask(front, "findings", step=0) == {}


@pytest.mark.test_all
def test_scripts_are_read_written_refused_at_their_line_and_taken_back(
    j: wb.Journey, opened: tuple[KnobsWidget, Front]
):
    widget, front = opened
    ask(front, "open")
    name = j.knobs("k0").kernel
    script = ask(front, "script", kernel=name)["text"]
    assert script == j.scheduled.kernels[0].schedule
    broken = script.replace("transform.apply_cse", "transform.nonsense")
    ask(front, "write", kernel=name, text=broken)
    told = settled(widget, front)
    line = next(number for number, text in enumerate(broken.splitlines(), 1) if "nonsense" in text)
    assert [problem["line"] for problem in told["problems"]] == [line] and told["written"] == [name]
    assert told["problems"][0]["message"].startswith("there is no op 'transform.nonsense") and told["scripts"] == [name]
    ask(front, "write", kernel=name, text=script)
    assert settled(widget, front)["cycles"] == j.simulated.cycles
    ask(front, "own", kernel=name)
    assert settled(widget, front)["scripts"] == [] and widget.step.call == "j"


@pytest.mark.test_all
def test_the_map_is_filled_stopped_and_taken(j: wb.Journey, opened: tuple[KnobsWidget, Front]):
    widget, front = opened
    ask(front, "open")
    name = j.knobs("k0").kernel
    widget.experiment.turn("machine.vector_lanes", 16).wait(120)  # what is turned already stays as it is
    ask(front, "map", kernel=name, knobs=["tile.m", "buffers"])
    look: Any = widget.looks["knobs"]
    assert look._sweep.wait(200)
    found = ask(front, "map_now")["map"]
    assert found["done"] and found["known"] == found["total"] == len(found["rows"]) * len(found["columns"])
    row, column = found["best"]
    k = widget.journey.knobs("k0")
    best = k.sweep("tile.m", "buffers").best
    assert best and f"{best.cycles:,} cycles" in found["cells"][row][column]["told"]
    assert 0 < found["cells"][row][column]["colour"] <= 1 and found["apart"] == ""
    ask(front, "take", row=row, column=column)
    settled(widget, front)
    assert widget.step.cycles == best.cycles and ask(front, "map_now")["map"]["now"] == (row, column)
    told = ask(front, "map_now")["map"]
    assert told["summary"].endswith(": the setting now") and told["apart"] == ""
    slots = next(each for each in found["columns"] if each != found["columns"][column])
    widget.experiment.turn("buffers", int(slots), kernel="k0").wait(120)
    assert f"the setting now, {widget.step.cycles:,}" in ask(front, "map_now")["map"]["summary"]
    widget.experiment.turn("machine.vector_lanes", 8).wait(120)
    told = ask(front, "map_now")["map"]
    assert "machine.vector_lanes changed" in told["apart"] and told["now"] is None and "now" not in told["summary"]
    ask(front, "map", kernel=name, knobs=["tile.m", "tile.n"])
    stopped = ask(front, "stop")["map"]
    assert stopped["done"] and stopped["known"] <= stopped["total"]
    assert "takes one knob or two" in front.ask("knobs.map", kernel=name, knobs=["tile.m", "tile.m"])["error"]


def test_in_the_lab_it_shows_the_kernel_that_is_selected():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Softmax(-1))
    j = wb.trace(model, torch.randn(16, 32), fusion=NORMS_APART)
    widget = j.widget()
    assert isinstance(widget, Stepper)
    front = Front(widget)
    assert "knobs" in front.answer("open")["looks"]
    names = [each.name for each in j.scheduled.kernels]
    assert ask(front, "open")["kernel"] == names[0] and len(names) > 1
    widget.selection = names[1]
    assert ask(front, "kernel", kernel="")["kernel"] == names[1]
    assert ask(front, "kernel", kernel=names[0])["knobs"][0]["kernel"] == names[0]
    widget.close()


def test_a_journey_of_a_file_is_turned_like_any_other(j: wb.Journey, tmp_path: Any):
    j.save(tmp_path / "a.journey")
    widget = wb.load(tmp_path / "a.journey").knobs("k0").widget()
    assert isinstance(widget, KnobsWidget)
    step = widget.experiment.turn("tile.m", 16, kernel="k0").wait(120)
    assert step.cycles == j.knobs("k0").turned("tile.m", 16).simulated.cycles
    widget.close()


def test_a_journey_without_kernels_to_turn_has_its_own_knobs():
    j = wb.trace(lambda x: torch.linalg.inv(x), torch.eye(8))
    widget = j.knobs().widget()
    assert isinstance(widget, KnobsWidget)
    found = ask(Front(widget), "open")
    assert found["kernels"] == [] and found["kernel"] == "" and found["knobs"] == [] and found["shared"]
    widget.close()
    assert len(ask(Front(by_host().experiment().widget()), "open")["kernels"]) == 2


def test_readers_without_a_kernel_see_both_timelines_and_all_steps(j: wb.Journey, opened: tuple[KnobsWidget, Front]):
    widget, _ = opened
    assert widget.static_html().count("<svg role") == 1
    widget.experiment.turn("tile.m", 16, kernel="k0").wait(120)
    told = widget.static_html()
    assert told.count("<svg role") == 2 and f"{widget.step.cycles:,}" in told and "&#39;m&#39;: 16" in told
    assert repr(widget) == f"KnobsWidget(Experiment(1 step, now {widget.step.cycles:,} cycles))"


@pytest.mark.test_all
def test_closing_ends_its_own_session_and_leaves_the_users(j: wb.Journey):
    with pytest.raises(BadOption, match="no kernel has the name 'k9'"):
        j.experiment().widget("k9")
    own, session = j.knobs("k0").widget(), j.experiment()
    shown = session.widget("k0")
    assert isinstance(own, KnobsWidget) and isinstance(shown, KnobsWidget)
    for each in (own, shown):
        ask(Front(each), "open")
        each.close()
    with pytest.raises(BadOption, match="closed"):
        own.experiment.turn("tile.m", 16, kernel="k0")
    assert session.turn("tile.m", 16, kernel="k0").wait(120).cycles
    gone = weakref.ref(own)
    del own, shown, each
    gc.collect()
    assert gone() is None
