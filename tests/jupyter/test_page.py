"""The lab as a page from disk, without Python: what is picked in it is what `j.select` gives."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

import workbench as wb
from tests.browser.lab import becomes, patient
from tests.jupyter.quiet_page import quiet_page
from tests.jupyter.test_stepper_widget import JOURNEYS, LISTS
from tests.jupyter.timelines import two_cores
from tests.programs import PROGRAMS
from workbench import journey as journeys
from workbench.explaining.views.selections.lab_lists import Listing
from workbench.explaining.views.selections.lookup import names_of
from workbench.explaining.views.timelines.columns import critical_columns, dependence_columns, timeline_columns
from workbench.ground.errors import BadOption, WorkbenchError
from workbench.jupyter.widgets import recording, stepper_widget
from workbench.jupyter.widgets.answers import Answer, Later
from workbench.jupyter.widgets.look import Look, Question
from workbench.jupyter.widgets.plain_values import LISTS as MADE
from workbench.jupyter.widgets.plain_values import about_selection, cells
from workbench.jupyter.widgets.timeline_widget import TimelineSource

_ASK = """questions => {
    const model = document.getElementById("lab").model;
    return questions.map(([ask, given]) => {
        const heard = [];
        const hear = (message, buffers) => heard.push([message, buffers.map(each => [...new Uint8Array(
            each.buffer, each.byteOffset, each.byteLength)])]);
        model.on("msg:custom", hear);
        model.send({ id: "test", ask, given });
        model.off("msg:custom", hear);
        return heard.filter(([message]) => message.id === "test" || message.tell);
    });
}"""
Messages = list[tuple[dict[str, Any], list[bytes]]]


class Opened:
    """A page that was written for a journey, open in a browser."""

    def __init__(self, page: Page, journey: wb.Journey, path: Path) -> None:
        self.page, self.journey, self.path = page, journey, path
        self.lists: dict[str, Listing] = {name: make(journey._stages) for name, make in MADE.items()}
        self.asked = list[str]()
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector(".wb-timeline canvas")

    def ask(self, what: str, /, **given: object) -> Messages:
        """Messages that the page sends by itself, then the answer."""
        return self.ask_all([(what, given)])[0]

    def ask_all(self, questions: Sequence[tuple[str, dict[str, object]]]) -> list[Messages]:
        heard = self.page.evaluate(_ASK, questions)
        return [[(message, list(map(bytes, buffers))) for message, buffers in each] for each in heard]

    def answer(self, what: str, /, **given: object) -> dict[str, Any]:
        message, _ = self.ask(what, **given)[-1]
        assert "error" not in message, message["error"]
        return message["answer"]

    def error(self, what: str, /, **given: object) -> str:
        return self.ask(what, **given)[-1][0]["error"]

    def holds(self, what: object, heard: Messages, thread: str) -> None:
        """The page tells that what `j.select(what)` gives is selected, and which rows that are."""
        found, (told, buffers) = self.journey.select(what), heard[0]
        given = told["given"]
        assert given["lists"] == list(LISTS)
        for name, marked in zip(LISTS, buffers, strict=True):
            assert np.frombuffer(marked, "<u4").tolist() == self.lists[name].rows_of(found).tolist(), (what, name)
        expected = about_selection(found).items()
        assert {key: given["selection"][key] for key, _ in expected} == {
            key: list(value) if isinstance(value, tuple) else value for key, value in expected
        }
        assert found.html().endswith(f"</style>{thread}</div>")

    def selects(self, asked: Sequence[tuple[str, dict[str, object], object]]) -> None:
        """Each question, asked while nothing is selected, selects what `j.select` makes of the thing beside it."""
        every = [each for ask, given, _ in asked for each in (("choose", {"text": ""}), (ask, given), ("thread", {}))]
        heard = self.ask_all(every)
        for (ask, given, thing), told, thread in zip(asked, heard[1::3], heard[2::3], strict=True):
            assert told[-1][0] == {"id": "test", "answer": {}}, (ask, given)
            if thing is None:
                assert len(told) == 1
            else:
                self.holds(thing, told, thread[0][0]["answer"]["html"])

    def picks(self, name: str, rows: Iterable[int]) -> None:
        self.selects([("pick", {"name": name, "row": row}, self.lists[name].row(row).thing) for row in rows])

    def marks(self, name: str, rows: list[int]) -> None:
        """A list comes to draw these rows as selected."""
        drawn = self.page.locator(f".list.of-{name} .row.s")
        becomes(lambda: sorted(drawn.evaluate_all("rows => rows.map(row => Number(row.dataset.row))")), rows)

    def says(self, what: str) -> None:
        """The lab comes to say that this is selected."""
        expect(self.page.locator(".what")).to_contain_text(what)

    def notes(self, what: str) -> None:
        """The lab comes to say that this is wrong."""
        expect(self.page.locator(".notice")).to_contain_text(what)


@pytest.fixture(scope="module")
def softmax() -> wb.Journey:
    made = PROGRAMS["softmax_last"].traced()
    made.check()
    made.check(stage="captured")
    return made


@pytest.fixture(scope="module")
def many_spans() -> wb.Journey:
    return PROGRAMS["softmax_last"].traced().with_(mapping={"*": {"tile": {"d0": 32}}})  # 16 steps of 8 instructions


Opens = Callable[..., Opened]


@pytest.fixture
def open_page(chromium_browser: Browser, tmp_path: Path) -> Iterator[Opens]:
    made = list[Opened]()
    with contextlib.ExitStack() as pages:

        def opened(journey: wb.Journey, **options: Any) -> Opened:
            path = tmp_path / "lab.html"
            journey.to_html(path, interactive=True)
            made.append(Opened(pages.enter_context(quiet_page(chromium_browser, **options)), journey, path))
            return made[-1]

        yield opened
        for each in made:
            assert each.asked == [each.path.as_uri()]


LONG = {"a feed-forward network": (30, 10_000), "ResNet-18": (8, 25)}
"""Of each list of these journeys so many rows are picked, and so many in a whole sweep."""


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("name", JOURNEYS)
def test_what_is_picked_is_what_select_gives(name: str, open_page: Opens, whole_sweep: bool):
    """Every row of the short journeys, some of each list of the long ones; and the rows themselves."""
    opened, lot = open_page(JOURNEYS[name]()), random.Random(0)
    for each, listing in opened.lists.items():
        count = len(listing)
        shown = opened.answer("rows", name=each, first=0, count=count)["rows"]
        assert [(tuple(texts), *rest) for texts, *rest in shown] == cells(listing.page(0, count))
        most = LONG[name][whole_sweep] if name in LONG else count
        opened.picks(each, lot.sample(range(count), min(most, count)))


@pytest.mark.test_all
def test_what_is_typed_is_what_select_gives(open_page: Opens):
    opened = open_page(PROGRAMS["ffn_residual"].traced())
    journey, names = opened.journey, list(names_of(opened.journey._stages.origins()))
    kernel = journey.lowered.record.kernels[1].name
    lines = [text for text in journey._stages.sources().values() if text.strip()]
    typed = (*names, *lines, *journey._stages.sources(), f"{kernel}:3", f"{kernel}#2", f"  {kernel} ", "span 5", "7")
    opened.selects([("choose", {"text": name}, name.strip()) for name in typed])
    count = len(opened.lists["instructions"]) - opened.lists["instructions"].outline()[1][0] - 1
    for name, said in (
        ("aten.nothing", "this page has no Python, and finds calls"),
        (f"{kernel}#{count}", f"{kernel} has instructions 0 to {count - 1}"),
        (f"{kernel}:0", f"{kernel} has lines 1 to "),
        ("constructor", "this page has no Python"),
        ("span 123,456,789", "nothing in this journey is span 123456789: rows 0 to "),
    ):
        assert said in opened.error("choose", text=name)
        with pytest.raises(WorkbenchError):
            journey.select(name)


@pytest.mark.test_all
def test_what_can_be_two_things_is_refused_with_both(open_page: Opens):
    twice = wb.trace(lambda x: (x.exp() + 1,
                                x.exp() + 1), PROGRAMS["softmax_last"].traced()._request.inputs[0][:8])  # fmt: skip
    opened = open_page(twice)
    texts = list(twice._stages.sources().values())
    said = 0
    for text in texts:
        try:
            twice.select(text.strip())
        except WorkbenchError as error:
            assert opened.error("choose", text=text) == str(error)
            said += 1
    assert said == sum(texts.count(text) > 1 for text in texts)


@pytest.mark.test_all
def test_timelines_and_reasons_for_idle_time_are_those_of_python(open_page: Opens):
    opened, lot = open_page(PROGRAMS["ffn_residual"].traced()), random.Random(1)
    run, launches = opened.journey.simulated, opened.journey.scheduled.record.launches
    blocks = {
        "timeline": timeline_columns(run.record, launches),
        "dependences": dependence_columns(run.record),
        "critical": critical_columns(run.record),
    }
    for what, block in blocks.items():
        message, (data,) = opened.ask("columns", run=0, what=what)[-1]
        assert message["answer"]["header"] == dict(block.header) and data == block.data
    source, told = TimelineSource(run), list[bool]()
    for _ in range(200):
        unit, cycle = lot.choice(run.gantt().lanes).name, lot.randrange(run.cycles)
        try:
            answer = source.findings(unit, cycle)
        except BadOption:
            continue  # it is at work
        assert opened.answer("gap", run=0, unit=unit, cycle=cycle) == answer
        told.append(bool(answer["findings"]))
    assert any(told) and not all(told)


@pytest.mark.test_all
def test_it_is_driven_as_in_a_notebook(softmax: wb.Journey, open_page: Opens):
    opened = open_page(softmax)
    page, keys = opened.page, opened.page.keyboard
    page.locator(".list.of-instructions .row", has_text="#3").first.click()
    opened.says("instruction 3 of k0_softmax")
    opened.marks("spans", [3])
    page.locator(".list.of-spans .row[data-row='4']").click()
    opened.marks("spans", [4])
    page.locator(".list.of-spans").focus()
    for key in ("ArrowDown", "Enter"):
        keys.press(key)
    opened.marks("spans", [5])
    opened.marks("instructions", [6])
    keys.press("Alt+ArrowLeft")
    keys.press("Alt+ArrowLeft")
    opened.marks("spans", [3])
    keys.press("Alt+ArrowRight")
    opened.marks("spans", [4])
    page.wait_for_function(
        "(c => c.width && c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean))"
        "(document.querySelector('.tl-plot canvas'))"
    )
    light = page.evaluate("document.querySelector('.tl-plot canvas').toDataURL()")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("light => document.querySelector('.tl-plot canvas').toDataURL() !== light", arg=light)
    page.locator("details.as-table summary").click()
    shown = page.locator(".thread-of table.thread td:last-child")
    becomes(shown.all_inner_texts, [line for _, lines in softmax.select(4).parts() for line in lines])
    page.locator(".bar input").fill("aten.softmax.int")
    keys.press("Enter")
    opened.says("op aten.softmax.int")
    page.locator(".bar input").fill("aten.softmx.int")
    keys.press("Enter")
    opened.notes("this page has no Python")
    page.locator(".tl-plot canvas").last.focus()
    keys.press("ArrowRight")
    expect(page.locator(".what b")).to_contain_text("span")
    keys.press("Escape")
    opened.says("Press anything")
    opened.marks("calls", [])


@pytest.mark.test_all
def test_badges_say_what_check_said_and_stages_that_were_not_checked_have_none(softmax: wb.Journey, open_page: Opens):
    opened = open_page(softmax)
    badges = opened.page.locator(".badge")
    becomes(badges.all_inner_texts, ["✓ right", "✓ right"])
    badges.last.click()
    becomes(opened.page.locator(".said").inner_text, softmax.check().text())


@pytest.mark.test_all
def test_a_remedy_that_nobody_can_try_says_so_beside_its_button(softmax: wb.Journey, open_page: Opens):
    opened = open_page(softmax)
    opened.page.locator(".looks button:text-is('Findings')").click()
    cards = opened.page.locator(".fi-card")
    expect(cards).to_have_count(len(softmax.findings))
    tries = opened.page.get_by_role("button", name="try it")
    expect(tries).to_have_count(sum(map(bool, softmax.findings.remedy)))
    for each in tries.all():
        expect(each).to_be_disabled()
        expect(each).to_have_accessible_description("needs Python: j.widget()")
        expect(each.locator("xpath=following-sibling::span")).to_be_visible()
    expect(opened.page.locator(".notice")).to_be_hidden()


@pytest.mark.test_all
def test_the_page_opens_with_what_is_selected(open_page: Opens):
    journey = PROGRAMS["softmax_ragged"].traced()
    journey.selection.select(2)
    opened = open_page(journey)
    opened.says("span 2")
    opened.marks("spans", [2])
    opened.page.locator(".bar button").nth(2).click()
    opened.marks("spans", [])
    assert journey.selection.selection == journey.select(2)


@pytest.mark.test_all
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_either_theme(scheme: str, softmax: wb.Journey, open_page: Opens):
    opened = open_page(softmax, color_scheme=scheme)
    opened.page.locator(".list.of-spans .row").nth(2).click()
    opened.marks("spans", [2])
    ground = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]
    expect(opened.page.locator("body")).to_have_css("background-color", ground)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = Axe().run(opened.page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found] == []


@pytest.mark.test_all
def test_without_a_script_all_of_it_can_be_read(softmax: wb.Journey, chromium_browser: Browser, tmp_path: Path):
    softmax.to_html(tmp_path / "lab.html", interactive=True)
    for script in (True, False):
        with quiet_page(chromium_browser, java_script_enabled=script) as page:
            page.goto((tmp_path / "lab.html").as_uri())
            if script:
                page.wait_for_selector(".wb-timeline canvas")
            read = page.get_by_role("heading", name="Simulated when each instruction")
            expect(read).to_be_visible(visible=not script)
            expect(page.locator(".stepper")).to_have_count(int(script))


@pytest.mark.test_all
def test_a_record_that_cannot_be_read_leaves_what_can(softmax: wb.Journey, chromium_browser: Browser, tmp_path: Path):
    softmax.to_html(tmp_path / "lab.html", interactive=True)
    whole = (tmp_path / "lab.html").read_text(encoding="utf-8")
    begin = whole.index('id="record">') + 2000
    (tmp_path / "lab.html").write_text(whole[:begin] + whole[begin + 400 :], encoding="utf-8")
    page = patient(chromium_browser.new_page())
    page.goto((tmp_path / "lab.html").as_uri())
    expect(page.locator("#lab p")).to_contain_text(
        "The record in this page is damaged or cut short: write the page again"
    )
    expect(page.get_by_role("heading", name="Simulated when each instruction")).to_be_visible()
    page.close()


class Halves(Look):
    name = "halves"

    def recorded(self) -> Sequence[Question]:
        return [("half", {"of": 3, "in": "all"}), ("later", {})]

    def answer_half(self, of: int, **_: object) -> Answer:
        return {"half": of / 2}, [memoryview(b"abcd"), b"ef"]

    def answer_later(self) -> Later:
        return Later(lambda: {"done": True})


class NotKept(Halves):
    name = "not_kept"

    def recorded(self) -> None:
        return None


@pytest.mark.test_all
def test_views_answer_what_was_recorded_and_others_are_left_out(
    softmax: wb.Journey, open_page: Opens, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stepper_widget, "_looks", lambda *_: [Halves(), NotKept()])
    opened = open_page(softmax)
    assert opened.answer("open")["looks"] == ["halves"]
    assert opened.ask("halves.half", **{"in": "all", "of": 3}) == [
        ({"id": "test", "answer": {"half": 1.5}}, [b"abcd", b"ef"])
    ]
    assert opened.answer("halves.later") == {"done": True}
    for ask, given in (("halves.half", {"of": 4}), ("not_kept.half", {"of": 3, "in": "all"}), ("toString", {})):
        assert "no recorded answer" in opened.error(ask, **given)


@pytest.mark.test_all
def test_lists_whose_selections_would_be_too_many_are_for_reading_and_say_so(
    many_spans: wb.Journey, open_page: Opens, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recording, "MOST_ROWS", 200)
    opened = open_page(many_spans)
    left = [name for name in LISTS if ", to read" in opened.answer("list", name=name)["list"]["title"]]
    assert left == ["instructions", "spans"]
    for name in LISTS:
        if name not in left:
            opened.picks(name, [len(opened.lists[name]) - 1])
    assert "Spans cannot be selected in this page" in opened.error("pick", name="spans", row=2)
    opened.page.locator(".list.of-spans .row").nth(2).click()
    opened.notes("Spans cannot be selected in this page")


def test_a_run_that_is_too_long_for_a_page_is_refused(
    many_spans: wb.Journey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journeys, "MOST_SPANS", 100)
    with pytest.raises(BadOption, match="this run has 128 spans, and a page can hold 100"):
        many_spans.to_html(tmp_path / "lab.html", interactive=True)
    assert not (tmp_path / "lab.html").exists()


def test_the_same_journey_gives_the_same_page(softmax: wb.Journey, tmp_path: Path):
    for name in ("one", "other"):
        softmax.to_html(tmp_path / name, interactive=True)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("width", [800, 1280, 1920])
def test_the_unit_of_a_span_says_its_core_at_every_width(open_page: Opens, width: int):
    opened = open_page(two_cores())
    opened.page.set_viewport_size({"width": width, "height": 1000})
    opened.page.wait_for_function("width => innerWidth === width", arg=width)
    units = opened.page.locator(".row.of-spans > span:nth-child(2)")
    expect(units.first).to_have_text(re.compile(r"^core\d\."))
    becomes(lambda: units.evaluate_all("all => all.filter(each => each.scrollWidth > each.clientWidth).length"), 0)


@pytest.mark.test_all
def test_a_list_that_is_longer_than_what_is_recorded_has_its_first_rows(
    many_spans: wb.Journey, open_page: Opens, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recording, "MOST_ROWS", 20)
    opened = open_page(many_spans)
    listed = {name: opened.answer("list", name=name)["list"] for name in LISTS}
    assert listed["scheduled"]["title"] == "MLIR on tiles, the first 20 to read" and listed["scheduled"]["count"] == 20
    assert listed["spans"]["count"] == len(opened.lists["spans"]) > 20
    assert opened.answer("rows", name="scheduled", first=15, count=10)["rows"][-1][0][0] == "19"
    opened.ask("choose", text=many_spans.lowered.kernels[0].name)
    opened.says(many_spans.lowered.kernels[0].name)
    drawn = opened.page.locator(".of-scheduled .row")
    assert max(drawn.evaluate_all("rows => rows.map(row => Number(row.dataset.row))")) < 20


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore")
def test_an_argument_that_is_called_as_a_parameter_and_a_file_with_a_line_break(open_page: Opens):
    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = (torch.nn.Parameter(torch.randn(*shape)) for shape in ((5, 12), (5,)))

        def forward(self, bias: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(bias, self.weight, self.bias)

    open_page(wb.trace(Named(), torch.randn(8, 12), machine="edge-8x8")).answer("open")
    made: dict[str, Any] = {}
    exec(compile("def f(x):\n    return x.relu() + 1\n", "/nowhere/a b:3.py\n<b>", "exec"), made)
    open_page(wb.trace(made["f"], torch.randn(4, 4), machine="edge-8x8")).answer("open")
