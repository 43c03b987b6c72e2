"""The knobs in a browser: turned by keys, pointer and typing, and from Python; what is said, and what is drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

import workbench as wb
from tests.browser.chromium import launched
from tests.browser.lab import becomes, settle
from tests.jupyter.live import widget_page
from tests.jupyter.timelines import NORMS_APART
from workbench.jupyter.widgets.knobs_widget import KnobsLook, KnobsWidget
from workbench.jupyter.widgets.stepper_widget import Stepper
from workbench.jupyter.widgets.widget_base import Answer


@pytest.fixture(scope="module")
def j() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(lambda x, w: F.gelu(x @ w), torch.randn(128, 256), torch.randn(256, 512))


DRAWN = '.kn-pictures[data-step="0"]'
"""The picture of the first step."""


class Editor:
    """The page with the knobs of a journey's first kernel."""

    def __init__(self, page: Page, widget: KnobsWidget) -> None:
        self.page, self.widget = page, widget

    def knob(self, name: str, part: str = "input[type=text]") -> Locator:
        return self.page.locator(f'[data-knob="{name}"] {part}')

    def drawn(self, step: int) -> None:
        """Until the picture of a step is there."""
        self.page.wait_for_selector(f'.kn-pictures[data-step="{step}"]')

    def told(self) -> list[str]:
        """Above each timeline."""
        return self.page.locator(".kn-times .tl-run").all_inner_texts()

    def spans(self) -> list[str]:
        """Number of spans in the label of each timeline."""
        labels = self.page.locator(".kn-times canvas[role=img]")
        return labels.evaluate_all("all => all.map(each => each.getAttribute('aria-label').split(' ')[2])")


@pytest.fixture
def editor(j: wb.Journey, chromium_browser: Browser) -> Iterator[Editor]:
    widget = j.knobs("k0").widget()
    assert isinstance(widget, KnobsWidget)
    with widget_page(chromium_browser, widget, DRAWN) as page:
        yield Editor(page, widget)


@pytest.mark.test_all
def test_a_key_on_a_slider_draws_the_new_timeline_above_that_of_the_start(j: wb.Journey, editor: Editor):
    assert editor.told() == [f"start: {j.simulated.cycles:,} cycles"]
    editor.knob("tile.m", "input[type=range]").press("ArrowLeft")
    editor.drawn(1)
    made = j.knobs("k0").turned("tile.m", 64)
    becomes(editor.told, [f"now: {made.simulated.cycles:,} cycles", f"start: {j.simulated.cycles:,} cycles"])
    becomes(editor.spans, [str(len(made.simulated.record)), str(len(j.simulated.record))])
    expect(editor.knob("tile.m")).to_have_value("64")
    becomes(editor.page.locator(".kn-call code").inner_text, editor.widget.step.call)
    expect(editor.page.locator(".kn-call code")).to_have_attribute("title", re.compile("j: the journey at the start"))
    expect(editor.page.locator(".kn-figure").first).to_contain_text(f"{made.simulated.cycles:,}")
    editor.page.wait_for_selector(".kn-findings :is(.came, .went)")
    # locked in time
    both = editor.page.locator(".kn-times .tl-thumb")
    editor.page.locator(".kn-times canvas[role=img]").first.press("w")
    editor.page.wait_for_function("parseFloat(document.querySelector('.tl-thumb').style.width) < 60")
    styles = "both => both.map(each => each.getAttribute('style'))"
    becomes(lambda: len(set(both.evaluate_all(styles))), 1)


@pytest.mark.test_all
def test_python_turns_it_and_a_step_is_gone_back_to(j: wb.Journey, editor: Editor):
    editor.widget.experiment.turn("buffers", 1, kernel="k0")
    editor.drawn(1)
    expect(editor.knob("buffers")).to_have_value("1")
    editor.page.locator(".kn-history button").last.click()
    editor.drawn(2)
    expect(editor.knob("buffers")).to_have_value("2")
    assert editor.widget.journey is j
    assert editor.told() == [f"now: {j.simulated.cycles:,} cycles", f"start: {j.simulated.cycles:,} cycles"]


@pytest.mark.test_all
def test_what_is_refused_is_said_at_the_knob_and_the_picture_stays(j: wb.Journey, editor: Editor):
    field = editor.knob("tile.n")
    field.fill("4096")
    field.press("Enter")
    said = editor.knob("tile.n", ".kn-why")
    why = j.knobs("k0").why_not("tile.n", 4096)
    assert why
    expect(said).to_contain_text(why)
    expect(editor.knob("tile.n", ".kn-said")).to_contain_text("256 stays")
    expect(field).to_have_attribute("aria-invalid", "true")
    assert editor.told() == [f"start: {j.simulated.cycles:,} cycles"]
    editor.widget.experiment.turn("buffers", 1, kernel="k0")
    editor.drawn(2)
    expect(field).to_have_value("256")
    expect(said).to_have_count(0)
    field.fill("a lot")
    field.press("Enter")
    editor.page.get_by_text("expected a number").wait_for()
    editor.page.locator(".kn-busy").wait_for(state="hidden")
    editor.knob("buffers", ".kn-ask").click()
    becomes(editor.knob("buffers", ".kn-good").all_inner_texts, ["1 ✓", "2 ✓"])


@pytest.mark.test_all
def test_of_a_drag_the_last_value_counts(editor: Editor):
    slider = editor.knob("tile.n", "input[type=range]").bounding_box()
    assert slider
    mouse, y = editor.page.mouse, slider["y"] + slider["height"] / 2
    mouse.move(slider["x"] + slider["width"] * 0.75, y)
    mouse.down()
    for part in (0.6, 0.5, 0.4, 0.25, 0.1, 0.01):
        mouse.move(slider["x"] + slider["width"] * part, y)
    mouse.up()
    expect(editor.knob("tile.n")).to_have_value("32")
    editor.page.wait_for_function("document.querySelector('.kn-call code').textContent.includes(\"'n': 32\")")
    editor.page.locator(".kn-busy").wait_for(state="hidden")
    history = editor.widget.experiment.history
    assert "'n': 32" in history[-1].call and len(history) < 7
    worth_trying = editor.widget.journey.knobs("k0")["tile.n"].values
    expect(editor.knob("tile.n", "input[type=range]")).to_have_value(str(worth_trying.index(32)))


@pytest.mark.test_all
def test_a_script_is_tried_as_it_is_typed_and_refused_at_its_line(j: wb.Journey, editor: Editor):
    page = editor.page
    page.get_by_text("Transform script").click()
    text = page.get_by_label("transform script")
    page.wait_for_function("document.querySelector('textarea').value.includes('transform.yield')")
    own = text.input_value()
    text.fill(own.replace("transform.apply_cse", "transform.nonsense"))
    page.get_by_role("button", name="line 9:").wait_for()
    expect(page.locator(".kn-numbers .bad")).to_have_text("9")
    text.fill(j.knobs("k0").turned("tile.m", 64).scheduled.kernels[0].schedule)
    editor.drawn(2)
    expect(page.locator(".kn-problems button")).to_have_count(0)
    expect(editor.knob("tile.m")).to_be_disabled()
    page.get_by_text("Use the knobs again").click()
    editor.drawn(3)
    expect(editor.knob("tile.m")).to_be_enabled()
    page.wait_for_function("own => document.querySelector('textarea').value === own", arg=own)


@pytest.mark.test_all
def test_the_script_that_is_shown_is_the_one_in_force(j: wb.Journey, editor: Editor):
    page, session = editor.page, editor.widget.experiment
    page.get_by_text("Transform script").click()
    text = page.get_by_label("transform script")
    expect(text).to_have_value(re.compile("transform.yield"))
    own = text.input_value()
    half = j.knobs("k0").turned("tile.m", 64).scheduled.kernels[0].schedule
    session.script("k0", half)
    editor.drawn(1)
    expect(text).to_have_value(half)
    page.get_by_text("Back to the start").click()
    editor.drawn(2)
    expect(text).to_have_value(own)
    page.locator(".kn-history button[data-step='1']").click()
    editor.drawn(3)
    expect(text).to_have_value(half)
    expect(editor.knob("tile.m")).to_be_disabled()


@pytest.mark.test_all
def test_line_numbers_stand_beside_their_lines_where_scrollbars_take_room(j: wb.Journey, chromium_browser: Browser):
    shown = launched(chromium_browser.browser_type, scrollbars=True)
    widget = j.knobs("k0").widget()
    assert isinstance(widget, KnobsWidget)
    with widget_page(shown, widget, DRAWN, width=900) as page:
        page.get_by_text("Transform script").click()
        text, numbers = page.get_by_label("transform script"), page.locator(".kn-numbers")
        expect(text).to_have_value(re.compile("transform.yield"))
        scrolled = "each => (each.scrollTop = 9999, each.scrollTop)"
        assert text.evaluate("each => each.scrollWidth > each.clientWidth")
        assert text.evaluate(scrolled) == 0
        text.fill("\n".join("a line that is wide: " * 20 for _ in range(60)))
        down = text.evaluate(scrolled)
        settle(page)
        assert down > 0 and numbers.evaluate("each => each.scrollTop") == down
    shown.close()


@pytest.mark.test_all
def test_what_is_being_typed_stays_while_a_step_comes_and_is_tried(j: wb.Journey, editor: Editor):
    page, session = editor.page, editor.widget.experiment
    page.get_by_text("Transform script").click()
    text = page.get_by_label("transform script")
    expect(text).to_have_value(re.compile("transform.yield"))
    half = j.knobs("k0").turned("tile.m", 64).scheduled.kernels[0].schedule
    text.fill(half)
    session.turn("machine.dma_queues", 2).wait(120)
    editor.drawn(2)  # the script's step, after that of the figure
    expect(text).to_have_value(half)
    assert session.current.setting.scripts == {j.knobs("k0").kernel: half}


@pytest.mark.test_all
def test_what_is_wrong_with_a_script_is_said_as_long_as_it_stands_there(editor: Editor):
    page, session = editor.page, editor.widget.experiment
    page.get_by_text("Transform script").click()
    text, problems = page.get_by_label("transform script"), page.locator(".kn-problems")
    expect(text).to_have_value(re.compile("transform.yield"))
    own = text.input_value()
    broken = own.replace("transform.yield", "transform.yeld")
    text.fill(broken)
    expect(problems).to_contain_text("there is no op 'transform.yeld'")
    session.turn("tile.m", 9999, kernel="k0").wait(120)  # refused too
    session.turn("buffers", 1, kernel="k0").wait(120)
    editor.drawn(3)
    expect(problems).to_contain_text("there is no op 'transform.yeld'")
    expect(text).to_have_value(broken)
    page.get_by_role("button", name="Try it").click()
    becomes(lambda: len(session.history), 5)
    assert "transform.yeld" in session.history[-1].refused
    page.get_by_role("button", name="Restore the text").click()
    expect(text).to_have_value(own)
    expect(problems).to_have_text("")
    expect(page.get_by_role("button", name="Use the knobs again")).to_be_disabled()


@pytest.mark.test_all
def test_a_slider_has_what_is_worth_trying_beside_what_is_turned_now(j: wb.Journey, editor: Editor):
    editor.widget.experiment.turn("tile.m", 1, kernel="k0").wait(120)
    editor.drawn(1)
    present = editor.widget.journey.knobs("k0")["tile.m"].values
    assert present != j.knobs("k0")["tile.m"].values
    becomes(editor.knob("tile.m", ".kn-marks span").all_inner_texts, list(map(str, present)))


@pytest.mark.test_all
def test_a_value_that_python_cannot_take_any_more_goes_back(editor: Editor):
    editor.page.evaluate("() => { model.send = () => { throw new Error('closed'); }; }")
    field = editor.knob("buffers")
    field.fill("1")
    field.press("Enter")
    notice = editor.page.locator(".notice")
    expect(notice).to_contain_text("The kernel that made this widget is gone")
    expect(notice).to_contain_text("what is shown below stays as it was")
    expect(field).to_have_value("2")
    expect(field).to_be_disabled()


@pytest.mark.test_all
def test_the_history_has_every_step_also_those_that_were_refused(editor: Editor):
    session = editor.widget.experiment
    session.turn("tile.m", 9999, kernel="k0").wait(120)
    session.turn("order", ("nobody",), kernel="k0").wait(120)
    session.turn("buffers", 1, kernel="k0").wait(120)
    editor.drawn(3)
    told = editor.page.locator(".kn-history .kn-step").all_inner_texts()
    assert [text.split()[0] for text in told] == ["3", "2", "1", "0"]
    refused = editor.page.locator(".kn-history li.kn-step")
    expect(refused).to_have_count(2)
    assert refused.evaluate_all("all => all.map(each => each.title)") == [
        step.refused for step in (session.history[2], session.history[1])
    ]


@pytest.mark.test_all
def test_the_range_of_buffers_and_its_marks_follow_the_tiles(editor: Editor):
    marks, slider = editor.knob("buffers", ".kn-marks span"), editor.knob("buffers", "input[type=range]")
    becomes(marks.all_inner_texts, ["1", "2"])
    editor.widget.experiment.turn("tile.m", 32, kernel="k0")
    editor.drawn(1)
    expect(editor.knob("buffers", ".kn-range")).to_have_text("1 to 8")
    becomes(marks.all_inner_texts, ["1", "2", "4", "8"])
    expect(slider).to_have_value("1")
    slider.press("ArrowRight")
    editor.drawn(2)
    assert ("buffers", 4) in {(knob.name, value) for knob, value in editor.widget.step.setting.values.items()}
    editor.widget.experiment.turn("buffers", 2, kernel="k0").back(0)
    editor.drawn(3)
    expect(editor.knob("buffers", ".kn-range")).to_have_text("1 to 2")
    becomes(marks.all_inner_texts, ["1", "2"])


@pytest.mark.test_all
def test_an_order_is_wholly_in_its_field_and_words_below_the_map_are_indented(chromium_browser: Browser):
    torch.manual_seed(0)
    j = wb.trace(F.conv2d, torch.randn(1, 8, 10, 10), torch.randn(8, 8, 3, 3))
    widget = j.knobs("k0").widget()
    assert isinstance(widget, KnobsWidget)
    with widget_page(chromium_browser, widget, DRAWN) as page:
        field = page.locator('[data-knob="order"] input[type=text]')
        assert len(field.input_value()) > 15
        assert field.evaluate("each => each.scrollWidth <= each.clientWidth")
        page.get_by_text("Map of mappings").click()
        page.get_by_text("Fill the map").click()
        page.locator(".kn-summary", has_text="best: ").wait_for()
        left = "each => each.getBoundingClientRect().left + parseFloat(getComputedStyle(each).paddingLeft)"
        lines = [page.locator(each).evaluate(left) for each in (".kn-told", ".kn-summary", ".kn-map")]
        assert max(lines) - min(lines) < 1


def test_an_empty_field_is_refused_in_a_whole_sentence(editor: Editor):
    field = editor.knob("tile.n")
    field.fill("")
    field.press("Enter")
    expect(editor.knob("tile.n", ".kn-why")).to_have_text(re.compile("^An empty field is refused: tile.n = ''"))


@pytest.mark.test_all
def test_every_step_is_shown_once_also_of_a_session_that_is_under_way(
    j: wb.Journey, chromium_browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    opens = KnobsLook.answer_open

    def while_turning(look: KnobsLook) -> Answer:
        found = opens(look)
        look.experiment.turn("buffers", 1, kernel="k0").wait(120)
        return found

    monkeypatch.setattr(KnobsLook, "answer_open", while_turning)
    widget = j.knobs("k0").widget()
    assert isinstance(widget, KnobsWidget)
    with widget_page(chromium_browser, widget) as page:
        steps = page.locator(".kn-history .kn-step")
        expect(steps).to_have_count(2)
        look: Any = widget.looks["knobs"]
        look._tell_step(widget.step)  # as of one that was in the answer already
        widget.experiment.turn("tile.m", 64, kernel="k0").wait(120)
        page.wait_for_selector('.kn-pictures[data-step="2"]')
        expect(steps).to_have_count(3)


@pytest.mark.test_all
def test_the_map_is_filled_and_a_cell_taken_by_keys(j: wb.Journey, editor: Editor):
    page = editor.page
    page.get_by_text("Map of mappings").click()
    page.get_by_label("the knob across").select_option("buffers")
    page.get_by_text("Fill the map").click()
    page.locator(".kn-told", has_text="Press a cell").wait_for()
    page.wait_for_function("!document.querySelector('.kn-cell.unknown')")
    sweep = j.knobs("k0").sweep("tile.m", "buffers")
    for row, size in enumerate(sweep.axes[0]):
        for column, slots in enumerate(sweep.axes[1]):
            point = next(each for each in sweep.points if each.values == (size, slots))
            cell = page.locator(f'td[data-row="{row}"][data-column="{column}"]')
            told = f"{point.cycles:,} cycles" if point.cycles else point.refused
            expect(cell).to_have_attribute("title", re.compile(re.escape(told)))
    expect(page.locator(".kn-summary")).to_have_text(re.compile(f"^{sweep.knobs[0].kernel}: best: "))
    now = page.locator("td.now")
    now.focus()
    now.press("ArrowUp")
    expect(page.locator(".kn-told")).to_contain_text("tile.m 64, buffers 2")
    page.keyboard.press("Enter")
    editor.drawn(1)
    assert editor.widget.step.cycles == j.knobs("k0").turned("tile.m", 64).simulated.cycles
    page.locator('td.now[data-row="3"]').wait_for()


@pytest.mark.test_all
def test_a_map_of_other_values_has_other_headings(editor: Editor):
    page = editor.page
    page.get_by_text("Map of mappings").click()
    page.get_by_label("the knob downwards").select_option("one knob only")
    page.get_by_label("the knob across").select_option("tile.m")
    heads: list[str] = []
    for step, size in enumerate(("24", "20"), 1):
        field = editor.knob("tile.m")
        field.fill(size)
        field.press("Enter")
        editor.drawn(step)
        page.get_by_text("Fill the map").click()
        page.locator(".kn-map th", has_text=re.compile(f"^{size}$")).wait_for()
        page.wait_for_function("!document.querySelector('.kn-cell.unknown')")
        heads = page.locator(".kn-map thead th").all_inner_texts()[1:]
        titles = [each.get_attribute("title") or "" for each in page.locator("td.kn-cell").all()]
        assert [title.partition(":")[0] for title in titles] == [f"tile.m {head}" for head in heads]


@pytest.mark.test_all
def test_what_a_script_sets_is_said_and_not_offered_to_the_map(j: wb.Journey, editor: Editor):
    page = editor.page
    editor.widget.experiment.script("k0", j.scheduled.record.kernels[0].schedule)
    editor.drawn(1)
    said = page.locator(".kn-rests")
    expect(said).to_contain_text("A script of yours sets tile, order and cores")
    offered = page.get_by_label("the knob across").locator("option")
    becomes(lambda: [each for each in offered.all_text_contents() if each.startswith("tile.")], [])
    said.get_by_role("button", name="Drop it").click()
    editor.drawn(2)
    expect(said).to_be_hidden()
    becomes(lambda: "tile.m" in offered.all_text_contents(), True)
    assert editor.widget.step.call == "j"


@pytest.mark.test_all
def test_knobs_are_found_by_what_they_are(editor: Editor):
    page = editor.page
    page.get_by_text("Figures of the machine").click()
    page.get_by_label("find among Figures of the machine").fill("multipliers")
    becomes(lambda: page.locator("[data-knob^='machine.']:visible").count(), 3)


def test_what_is_typed_before_the_list_is_drawn_is_searched_for(editor: Editor):
    """Opening tells that it happened a moment later; here, both come before it does."""
    page = editor.page
    page.get_by_label("find among Figures of the machine").evaluate(
        """field => {
            field.closest("details").open = true;
            field.value = "multipliers";
            field.dispatchEvent(new Event("input"));
        }"""
    )
    becomes(lambda: page.locator("[data-knob^='machine.']:visible").count(), 3)


@pytest.mark.test_all
def test_axe_finds_nothing_in_either_theme(editor: Editor):
    page: Any = editor.page
    page.get_by_text("Map of mappings").click()
    page.get_by_text("Transform script").click()
    page.get_by_text("Fusion rules").click()
    page.wait_for_function("document.querySelector('textarea').value.includes('transform.yield')")
    expect(page.locator(".kn-list .kn-knob")).not_to_have_count(0)
    editor.knob("tile.m", "input[type=range]").press("ArrowLeft")
    editor.drawn(1)
    for light in ("true", "false"):
        page.evaluate("light => document.body.dataset.jpThemeLight = light", light)
        found = Axe().run(page, context="main .wb", options={"resultTypes": ["violations"]}).response["violations"]
        assert [f"{rule['id']}: {rule['nodes'][0]['html'][:120]}" for rule in found] == []


@pytest.mark.test_all
def test_in_the_lab_it_shows_the_kernel_that_is_selected(chromium_browser: Browser):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Softmax(-1))
    j = wb.trace(model, torch.randn(16, 32), fusion=NORMS_APART)
    lab = j.widget()
    assert isinstance(lab, Stepper) and j.simulated.cycles
    with widget_page(chromium_browser, lab) as page:
        page.locator(".list.of-kernels .row.head").nth(1).click()
        page.get_by_role("button", name="Knobs").click()
        kernels = page.locator(".wb-knobs").get_by_label("kernel", exact=True)
        page.wait_for_selector('.kn-pictures[data-step="0"]')
        names = [kernel.name for kernel in j.scheduled.kernels]
        expect(kernels).to_have_value(names[1])
        lab.selection = None
        page.locator(".what:has-text('Press anything')").wait_for()
        page.locator('[data-knob="buffers"] .kn-ask').click()
        page.locator('[data-knob="buffers"] .kn-good').first.wait_for()  # what was asked before is answered
        expect(kernels).to_have_value(names[1])  # with nothing selected it stays where it is
        lab.selection = names[0]
        page.wait_for_function("name => document.querySelector('.wb-knobs select').value === name", arg=names[0])
        page.locator('[data-knob="buffers"] input[type=text]').fill("1")
        page.keyboard.press("Enter")
        page.wait_for_selector('.kn-pictures[data-step="1"]')
        look: Any = lab.looks["knobs"]
        assert look.experiment.current.call == j.knobs(names[0]).call("buffers", 1)


def test_it_ends_without_anything_left_running(editor: Editor):
    page = editor.page
    page.evaluate("window.end()")
    before = page.evaluate("window.sent")
    page.evaluate("() => { window.told = []; model.on('msg:custom', message => told.push(message.tell)); }")
    editor.widget.experiment.turn("buffers", 1, kernel="k0").wait(120)
    page.wait_for_function("told.some(each => each?.endsWith('step'))")
    settle(page)
    expect(page.locator("canvas")).to_have_count(0)
    assert page.evaluate("window.sent") == before
