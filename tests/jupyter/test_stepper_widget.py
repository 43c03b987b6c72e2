"""The lab's main widget, by its messages: what it lists, and one selection that is the same as `j.select`'s."""

from __future__ import annotations

import gc
import json
import random
import weakref
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ipywidgets.widgets.widget import _instances

import workbench as wb
from templates.foobar import FoobarTiled, register_fake
from tests.jupyter.browserless import Front
from tests.programs import PROGRAMS
from workbench.ground.errors import BadOption, UnknownSelection
from workbench.jupyter.widgets.stepper_widget import STAGES, Stepper
from workbench.models.resnet import resnet18
from workbench.models.seeded import with_statistics

LISTS = ("python", "calls", "kernels", "rendered", "scheduled", "instructions", "spans")


def foobar() -> wb.Journey:
    register_fake()
    with wb.ops.scope():
        wb.ops.template("aten._foobar.default")(FoobarTiled)
        journey = wb.trace(lambda x: torch.ops.aten._foobar(x), torch.randn(47, 10))
        assert journey.simulated.cycles
        return journey


def network() -> wb.Journey:
    return wb.trace(with_statistics(resnet18()).eval(), torch.randn(1, 3, 32, 32))


JOURNEYS: dict[str, Callable[[], wb.Journey]] = {
    "softmax": PROGRAMS["softmax_last"].traced,
    "a feed-forward network": PROGRAMS["ffn_residual"].traced,
    "_foobar": foobar,
    "ResNet-18": network,
}


@pytest.fixture(scope="module")
def softmax() -> wb.Journey:
    return PROGRAMS["softmax_last"].traced()


LONG = pytest.param("ResNet-18", marks=pytest.mark.test_all)


@pytest.fixture(scope="module", params=[*(name for name in JOURNEYS if name != "ResNet-18"), LONG])
def journey(request: pytest.FixtureRequest) -> wb.Journey:
    return JOURNEYS[request.param]()


class Open(Front):
    """The front end with every list open, as it is drawn."""

    def __init__(self, widget: object) -> None:
        assert isinstance(widget, Stepper)
        super().__init__(widget)
        self.lists: dict[str, dict[str, Any]] = {name: self.answer("list", name=name)["list"] for name in LISTS}
        self.sent.clear()
        self._rows: dict[str, list[list[Any]]] = {}

    def marked(self) -> dict[str, list[int]]:
        """The rows of each list that were told last."""
        told, buffers = next((content, columns) for content, columns in reversed(self.sent) if "tell" in content)
        names = told["given"]["lists"]
        return {name: np.frombuffer(column, "<u4").tolist() for name, column in zip(names, buffers, strict=True)}

    def rows(self, name: str) -> list[list[Any]]:
        """All rows of a list, page by page as a screen asks for them."""
        if name not in self._rows:
            pages = range(0, self.lists[name]["count"], 100)
            found = [self.answer("rows", name=name, first=first, count=100)["rows"] for first in pages]
            self._rows[name] = [row for page in found for row in page]
        return self._rows[name]


def as_told(front: Open) -> dict[str, object]:
    """The browser's selection in the words of `j.select`, read off the rows themselves."""
    marked = front.marked()
    lists = {name: front.rows(name) for name in LISTS}

    def with_kernel(name: str) -> list[tuple[str, int]]:
        """(kernel, number below its title)."""
        titles = [row for row, _ in front.lists[name]["outline"]]
        found = list[tuple[str, int]]()
        for row in marked[name]:
            title = titles[bisect_left(titles, row) - 1]
            found.append((lists[name][title][0][0], row - title - 1))
        return found

    return {
        "spans": tuple(marked["spans"]),
        "nodes": tuple(lists["calls"][row][0][0] for row in marked["calls"]),
        "kernels": tuple(lists["kernels"][row][0][0] for row in marked["kernels"] if lists["kernels"][row][1]),
        "lowered": sorted(lists["kernels"][row][0][0] for row in marked["kernels"] if not lists["kernels"][row][1]),
        "rendered": sorted((kernel, line + 1) for kernel, line in with_kernel("rendered")),
        "scheduled": sorted((kernel, line + 1) for kernel, line in with_kernel("scheduled")),
        "instructions": sorted(with_kernel("instructions")),
        "source lines": sorted(int(lists["python"][row][0][0]) for row in marked["python"]),
    }


def as_selected(found: wb.Selection) -> dict[str, object]:
    return {
        "spans": found.spans,
        "nodes": found.nodes,
        "kernels": found.kernels,
        "lowered": sorted(found.lowered),
        "rendered": sorted(found.rendered_lines),
        "scheduled": sorted(found.mlir_lines),
        "instructions": sorted(found.instructions),
        "source lines": sorted(int(place.rpartition(":")[2]) for place in found.source_lines),
    }


@pytest.mark.test_all
def test_a_span_leads_to_its_line_and_back_as_select_does(journey: wb.Journey):
    """From spans to the line of Python, and from there back to the spans, through the messages of the widget."""
    front = Open(journey.widget())
    came_from = dict[tuple[str, int], list[int]]()
    for row in range(len(journey.simulated.events)):
        front.answer("pick", name="spans", row=row)
        assert as_told(front) == as_selected(journey.select(row))
        for name, places in front.marked().items():
            for place in places[:1]:
                came_from.setdefault((name, place), []).append(row)
        front.sent.clear()
    assert {name for name, _ in came_from} == set(LISTS)
    for (name, place), rows in came_from.items():
        front.answer("pick", name=name, row=place)
        expected = journey.select(front.widget._lists[name].row(place).thing)
        assert as_told(front) == as_selected(expected) and set(rows) <= set(expected.spans)
        front.sent.clear()


def test_every_kind_of_row_selects_what_select_does(journey: wb.Journey):
    front = Open(journey.widget())
    lot = random.Random(1)
    for name in LISTS:
        listing = front.widget._lists[name]
        for row in lot.sample(range(len(listing)), min(8, len(listing))):
            thing = listing.row(row).thing
            if thing is None:
                continue
            front.answer("pick", name=name, row=row)
            front.answer("choose", text="")
            front.answer("pick", name=name, row=row)
            assert as_told(front) == as_selected(journey.select(thing)), (name, row)
            assert front.widget.selection == journey.select(thing)


def test_widgets_of_a_journey_share_what_is_selected(softmax: wb.Journey):
    one, other = Open(softmax.widget()), Open(softmax.widget(stage="timeline"))
    one.answer("pick", name="spans", row=3)
    assert one.marked() == other.marked() and other.marked()["spans"] == [3]
    other.widget.selection = "aten.softmax.int"
    assert one.marked() == other.marked() and softmax.selection.selection == other.widget.selection
    assert one.widget.selection == softmax.select("aten.softmax.int")
    one.widget.close()
    heard = len(one.sent)
    other.answer("pick", name="spans", row=4)
    assert len(one.sent) == heard and other.marked()["spans"] == [4]


def test_back_and_forward_go_through_selections(softmax: wb.Journey):
    journey = softmax.with_(machine="tpu-v2")
    front = Open(journey.widget())
    for row in (1, 2, 3):
        front.answer("pick", name="spans", row=row)
    front.answer("step", by=-1)
    assert front.marked()["spans"] == [2]
    front.answer("step", by=-1)
    about = front.told("selection")[-1]["selection"]
    assert about["what"] == "span 1" and (about["back"], about["forward"]) == (1, 2)
    front.answer("step", by=1)
    assert front.widget.selection == journey.select(2)
    front.answer("pick", name="spans", row=5)
    assert journey.selection.steps_forward == 0
    for _ in range(9):
        front.answer("step", by=-1)
    assert front.widget.selection is None and journey.selection.steps_forward == 3


def test_counts_are_those_of_the_selection(softmax: wb.Journey):
    front = Open(softmax.widget())
    front.answer("choose", text="")
    front.answer("choose", text="aten.softmax.int")
    told, found = front.told("selection")[-1]["selection"], softmax.select("aten.softmax.int")
    assert told["what"] == found.what and told["cycles"] == found.cycles
    for items, noun in ((found.spans, "span"), (found.kernels, "kernel"), (found.buffers, "buffer")):
        assert any(said in (f"{len(items):,} {noun}", f"{len(items):,} {noun}s") for said in told["counts"])


def test_what_cannot_be_selected_is_said_and_changes_nothing(softmax: wb.Journey):
    front = Open(softmax.widget())
    front.widget.selection = 1
    for what, given, said in (
        ("choose", {"text": "aten.softmx.int"}, "did you mean 'aten.softmax.int'"),
        ("pick", {"name": "spans", "row": 10**6}, "has no row 1000000"),
        ("pick", {"name": "nothing", "row": 0}, "the list 'nothing' is not open"),
        ("list", {"name": "nothing"}, "there is no list 'nothing'; the lists are python"),
        ("check", {"stage": "program"}, "program has no numbers to compare"),
    ):
        assert said in front.ask(what, **given)["error"]
    assert front.widget.selection == softmax.select(1)
    with pytest.raises(UnknownSelection):
        front.widget.selection = "nothing like it"
    with pytest.raises(BadOption, match="stage='end'; expected one of capture"):
        softmax.widget(stage="end")


def test_the_strip_has_figures_and_what_check_said(softmax: wb.Journey):
    journey = softmax.with_(machine="tpu-v4")
    front = Front(journey.widget())
    cards = front.answer("open")["stages"]
    assert [card["name"] for card in cards] == list(STAGES) and cards[0]["figures"] and not cards[5]["figures"]
    front.answer("list", name="spans")
    answer = front.answer("check", stage="schedule")
    done = {card["name"]: card for card in answer["stages"]}
    assert done["timeline"]["figures"][0] == f"{journey.simulated.cycles:,} cycles"
    assert done["schedule"]["check"]["ok"] is True and done["capture"]["check"] is None


def test_little_is_sent_at_opening(journey: wb.Journey):
    """However long the texts and timelines: lists say their lengths, and rows come as they are looked at."""
    front = Front(journey.widget())
    front.answer("open")
    for name in LISTS:
        front.answer("list", name=name)
    kernels = len(journey.lowered.record.kernels)
    rows = sum(len(content["answer"]["list"]["first"]) for content, _ in front.sent[1:])
    assert rows <= 50 * len(LISTS)
    assert len(json.dumps([content for content, _ in front.sent])) < 100_000 + 250 * kernels
    front.sent.clear()
    assert len(front.answer("rows", name="spans", first=0, count=10**9)["rows"]) <= 1000


def test_a_journey_from_a_file_has_the_same_lab(softmax: wb.Journey, tmp_path: Path):
    softmax.save(tmp_path / "it.journey")
    front, again = Open(softmax.widget()), Open(wb.lab(tmp_path / "it.journey"))
    assert {name: front.rows(name) for name in LISTS} == {name: again.rows(name) for name in LISTS}
    for each in (front, again):
        each.answer("choose", text="")
        each.answer("pick", name="spans", row=2)
    assert front.marked() == again.marked()
    assert "Trace the function again" in again.ask("check", stage="schedule")["error"]


@pytest.mark.test_all
def test_a_closed_lab_leaves_nothing(softmax: wb.Journey):
    before = set(_instances)
    widget = softmax.widget()
    front = Open(widget)
    gone = weakref.ref(widget)
    front.widget.close()
    del front, widget
    gc.collect()
    assert set(_instances) == before and gone() is None


def test_a_reader_without_a_kernel_sees_the_journey(softmax: wb.Journey):
    widget = softmax.widget()
    widget.selection = 2
    bundle, _ = widget._repr_mimebundle_()
    shown = str(bundle["text/html"])
    assert softmax.overview.stages[4].figures[0] in shown and softmax.select(2).html() in shown
    assert bundle["text/plain"] == f"Stepper('<lambda>', {softmax.select(2)!r})"


def test_a_stage_that_fails_says_so_and_those_before_it_are_shown(softmax: wb.Journey):
    journey = softmax.with_(mapping={"*": {"tile": {"rows": 8}}})
    widget = journey.widget()
    assert "tile names" in str(widget._repr_mimebundle_()[0]["text/html"])
    front = Front(widget)
    front.answer("open")
    assert front.answer("list", name="kernels")["list"]["count"] > 1
    said = front.ask("list", name="scheduled")["error"]
    assert "tile names" in said and "Traceback" not in said
    assert "tile names" in front.ask("choose", text="aten.softmax.int")["error"] and widget.selection is None


def test_the_timeline_s_picture_comes_in_one_block(softmax: wb.Journey):
    front = Front(softmax.widget())
    answer = front.ask("columns", run=0, what="timeline")
    assert answer["answer"]["header"]["spans"] == len(softmax.simulated.events)
    assert len(front.sent[-1][1]) == 1
    assert "no columns 'spans'" in front.ask("columns", run=0, what="spans")["error"]


def test_lists_count_what_is_in_them_and_not_their_titles():
    """As the strip above them does."""
    journey = PROGRAMS["ffn_residual"].traced()
    front = Open(journey.widget())
    entries = {name: about["entries"] for name, about in front.lists.items()}
    for name in LISTS:
        titles = sum(head and not (name == "kernels" and thing) for _, head, _, thing in front.rows(name))
        assert entries[name] == len(front.rows(name)) - titles, name
    cards = {card["name"]: card["figures"][0] for card in front.answer("open")["stages"]}
    assert cards["program"] == f"{entries['instructions']} instructions"
    assert cards["render"] == f"{entries['rendered']} lines of MLIR"
    assert cards["capture"] == f"{entries['calls']} ATen calls" and entries["python"] == len(journey._stages.sources())
    assert entries["spans"] == len(journey.simulated.events)
    assert entries["kernels"] == len(journey.lowered.kernels) + len(journey.lowered.record.nodes)
