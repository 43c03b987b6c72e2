"""The lab's main widget as a person meets it: pressed and typed into in JupyterLab, and asked about from Python.

Pictures of it are left in `screenshots/`, which is not committed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import lab, looks
from tests.browser.tabs import Tabs, run_all

SHOTS = lab.ROOT / "screenshots"

pytestmark = pytest.mark.sweep(one_in=2)  # each test in one JupyterLab of the two

CODES = (
    "import torch, workbench as wb\nj = wb.trace(torch.softmax, torch.randn(512, 512), 1)",
    "w = j.widget()\nw",
    "other = wb.lab(j, stage='timeline')\nother",
)
LISTS = ("python", "calls", "kernels", "rendered", "scheduled", "instructions", "spans")


@pytest.fixture(scope="module")
def notebook(tabs: Tabs, folder: Path) -> Iterator[lab.Opened]:
    """Two labs of one journey."""
    with tabs.opened(folder / "stepper.ipynb", CODES) as made:
        row(made.page, "spans", 0).wait_for()
        yield made


@pytest.fixture
def opened(notebook: lab.Opened) -> Iterator[Page]:
    """The labs with nothing selected, and nothing in the browser's console by the end."""
    lab.show(notebook.page, dark=False, width=1280)
    lab.ask_python(notebook.page, "w.selection = None")
    widget(notebook.page).locator(".what:has-text('Press anything')").wait_for()
    yield notebook.page
    assert notebook.errors == []


def widget(page: Page, number: int = 0) -> Locator:
    return page.locator(".wb-lab").nth(number)


def row(page: Page, name: str, number: int, lab_number: int = 0) -> Locator:
    return widget(page, lab_number).locator(f".list.of-{name} .row[data-row='{number}']")


def press_span(page: Page, number: int) -> None:
    """Presses a span near the begin, wherever its list was left: only rows in view exist."""
    widget(page).locator(".list.of-spans").focus()
    page.keyboard.press("Home")
    row(page, "spans", number).click()
    wait_for(page, f"span {number}")


def what(page: Page, number: int = 0) -> str:
    return widget(page, number).locator(".what b").inner_text()


def what_is_said(page: Page, number: int = 0) -> str:
    return widget(page, number).locator(".what").inner_text()


def wait_for(page: Page, text: str, number: int = 0) -> None:
    """Until the lab says that this is selected."""
    widget(page, number).locator(f".what b:text-is('{text}')").wait_for()


def wait_until_python_says(page: Page, code: str, text: str) -> None:
    """A press is answered a moment later."""
    until = time.monotonic() + lab.PATIENCE_SECONDS
    while not (said := lab.ask_python(page, code)).startswith(text):
        assert time.monotonic() < until, said


def test_what_is_pressed_in_any_list_is_selected_in_python_and_in_every_other(opened: Page):
    for name in LISTS:
        lab.answered(opened)  # lists that moved have their rows
        first = widget(opened).locator(f".list.of-{name} .row:not(.plain)").first
        number = first.get_attribute("data-row")
        first.click()
        asked = f"print(w.selection == j.select(w._lists['{name}'].row({number}).thing), w.selection.what)"
        wait_until_python_says(opened, asked, "True ")
        said = lab.ask_python(opened, "print(w.selection.what)")
        wait_for(opened, said)
        wait_for(opened, said, 1)
    press_span(opened, 5)
    for name in LISTS:
        marked = widget(opened).locator(f".list.of-{name} .row[aria-selected='true']")
        expect(marked.first, name).to_be_visible()
    expected = lab.ask_python(opened, "print(len(j.select(5).rendered_lines))")
    expect(widget(opened).locator(".part-rendered .count")).to_have_text(re.compile(f"^{expected} of "))


@pytest.mark.test_all
def test_what_python_selects_moves_both_labs(opened: Page):
    lab.ask_python(opened, "w.selection = j.select(len(j.simulated.events) - 1)")
    last = int(lab.ask_python(opened, "print(len(j.simulated.events) - 1)"))
    for number in (0, 1):
        wait_for(opened, f"span {last}", number)
        # the list has moved there
        expect(row(opened, "spans", last, number)).to_have_attribute("aria-selected", "true")
    lab.ask_python(opened, "other.selection = None")
    widget(opened).locator(".what:has-text('Press anything')").wait_for()


def test_keys_step_through_stages_rows_and_selections_and_leave_the_notebook_alone(opened: Page):
    before = len(opened.evaluate(lab.CELLS))
    widget(opened).locator(".strip button.stage").first.click()
    for key, expected in (("ArrowRight", "lower"), ("ArrowRight", "render"), ("ArrowLeft", "lower")):
        opened.keyboard.press(key)
        expect(widget(opened).locator(".card-of.now")).to_have_attribute("data-stage", expected)
    widget(opened).locator(".list.of-instructions").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "Enter"):
        opened.keyboard.press(key)
    wait_for(opened, "instruction 1 of k0_softmax")
    opened.keyboard.press("ArrowDown")
    opened.keyboard.press(" ")
    wait_for(opened, "instruction 2 of k0_softmax")
    opened.keyboard.press("Alt+ArrowLeft")
    wait_for(opened, "instruction 1 of k0_softmax")
    assert lab.ask_python(opened, "print(w.selection.what)") == "instruction 1 of k0_softmax"
    opened.keyboard.press("Alt+ArrowRight")
    wait_for(opened, "instruction 2 of k0_softmax")
    opened.keyboard.press("Escape")
    widget(opened).locator(".what:has-text('Press anything')").wait_for()
    for key in ("a", "b", "x", "d", "d"):  # shortcuts of the notebook, which insert, cut and delete cells
        opened.keyboard.press(key)
    for key in ("Home", "ArrowDown", "Enter"):
        opened.keyboard.press(key)
    wait_for(opened, "instruction 0 of k0_softmax")
    assert len(opened.evaluate(lab.CELLS)) == before


@pytest.mark.test_all
def test_the_timeline_takes_part(opened: Page):
    bars = widget(opened).locator(".tl-plot canvas[role='img']")
    bars.focus()
    opened.keyboard.press("ArrowRight")
    widget(opened).locator(".what b:has-text('span')").wait_for()
    chosen = what(opened)
    assert lab.ask_python(opened, "print(other.selection.what)") == chosen
    expect(widget(opened).locator(".tl-told")).to_have_text(re.compile(f"^{re.escape(chosen)}"))


@pytest.mark.test_all
def test_mistakes_are_said_and_what_is_right_is_checked(opened: Page):
    field = widget(opened).locator(".bar input")
    field.fill("aten.sofmax")
    field.press("Enter")
    notice = widget(opened).locator(".notice")
    notice.locator("text=did you mean 'aten.softmax'").wait_for()
    field.fill("aten.softmax.int")
    field.press("Enter")
    wait_for(opened, "op aten.softmax.int")
    notice.wait_for(state="hidden")
    widget(opened).locator(".card-of[data-stage='schedule'] .badge").click()
    widget(opened).locator(".badge.good:text-is('✓ right')").wait_for()
    lab.wait_for_python(opened, "print(j.overview.checks[0][0])", "True")


@pytest.mark.test_all
@pytest.mark.sweep(pairs=False)
@pytest.mark.parametrize("width", [800, 1280, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_it_looks_right_in_both_themes_and_all_widths(opened: Page, dark: bool, width: int):
    press_span(opened, 5)
    lab.show(opened, dark=dark, width=width)
    lab.answered(opened)
    SHOTS.mkdir(exist_ok=True)
    widget(opened).screenshot(path=SHOTS / f"stepper-{'dark' if dark else 'light'}-{width}.png")
    wrong = [f"contrast: {each}" for each in looks.low_contrast(opened)]
    wrong += [f"axe: {each}" for each in looks.against_axe(opened)]
    outer = widget(opened).bounding_box()
    for panel in widget(opened).locator(".panel").all():
        inner = panel.bounding_box()
        assert outer and inner
        if inner["x"] < outer["x"] or inner["x"] + inner["width"] > outer["x"] + outer["width"] + 1:
            wrong.append(f"{panel.get_attribute('class')} is wider than the lab")
    for name in LISTS:
        if not widget(opened).locator(f".list.of-{name} .row[aria-selected='true']").count():
            wrong.append(f"nothing is marked in {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.test_all
def test_a_kernel_that_is_gone_is_said_and_a_reader_without_one_sees_the_journey(
    server: lab.Server, page: Page, folder: Path
):
    import nbformat

    lab.write(folder / "gone.ipynb", CODES[:2])
    went_well, _ = run_all(page, server, "gone.ipynb")
    assert went_well
    row(page, "spans", 2).click()
    wait_for(page, "span 2")
    expect(widget(page).get_by_text("cycles at stake").first).to_be_visible()  # it comes late, and moves what is below
    expect(page.locator(".wb-twin")).to_be_hidden()
    widget(page).locator("[data-look=knobs]").click()
    expect(widget(page).locator(".wb-knobs .kn-map, .wb-knobs summary:has-text('Map')")).to_be_visible()
    page.evaluate("async () => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.locator(".wb-lab .notice:has-text('The kernel that made this widget is gone')").wait_for()
    assert what(page) == "span 2"
    assert (
        not widget(page).locator(":is(.kn-top, .wb-knobs details) :is(button, input, select, textarea):enabled").count()
    )
    page.evaluate("async () => jupyterapp.commands.execute('docmanager:save')")
    lab.shut_down(page)
    kept = nbformat.read(folder / "gone.ipynb", as_version=4)
    assert "widgets" not in kept.metadata
    page.goto(server.url("/doc/tree/gone.ipynb?reset"))
    twin = page.locator(".wb-twin")
    expect(twin).to_be_visible()
    expect(twin).to_contain_text("cycles")
    assert "Error displaying widget" not in page.locator(".jp-Notebook").inner_text()


_INTERRUPTED = """async () => {
    const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const asked = kernel.requestExecute({code: "import time; print('begun', flush=True); time.sleep(60)"});
    await new Promise(done => { asked.onIOPub = message => message.header.msg_type === 'stream' && done(); });
    await kernel.interrupt();
    return (await asked.done).content.status;
}"""


@pytest.mark.test_all
def test_cells_that_are_run_again_and_a_kernel_that_is_interrupted_leave_every_lab_alive(tabs: Tabs, folder: Path):
    with tabs.opened(folder / "again.ipynb", CODES) as made:
        page = made.page
        row(page, "spans", 0).wait_for()
        widget(page).evaluate("lab => { lab.dataset.before = true; }")
        for cell in (0, 1):  # another journey under the same name, and its lab in the place of the first one
            page.evaluate(f"() => {{ jupyterapp.shell.currentWidget.content.activeCellIndex = {cell}; }}")
            page.evaluate("async () => jupyterapp.commands.execute('notebook:run-cell')")
        wait_until_python_says(page, "print(w.selection)", "None")
        expect(page.locator(".wb-lab[data-before]")).to_have_count(0)
        expect(page.locator(".wb-lab")).to_have_count(2)
        row(page, "spans", 3).click()
        wait_for(page, "span 3")
        assert what_is_said(page, 1) == "Press anything: what it became and came from is marked everywhere."
        row(page, "spans", 4, 1).click()  # the lab of the journey that was there before
        wait_for(page, "span 4", 1)
        assert lab.ask_python(page, "print(w.selection.what, '|', other.selection.what)") == "span 3 | span 4"
        assert page.evaluate(_INTERRUPTED) == "error"
        row(page, "spans", 5).click()
        wait_for(page, "span 5")
        assert made.errors == []
