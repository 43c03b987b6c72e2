"""The timeline as a person meets it: clicked, dragged and typed into in JupyterLab, and asked about from Python.

Pictures of it are left in `screenshots/`, which is not committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import lab, looks
from tests.browser.tabs import Tabs

SHOTS = lab.ROOT / "screenshots"

pytestmark = pytest.mark.sweep(one_in=2)  # each test in one JupyterLab of the two

CODES = (
    "import torch, workbench as wb\nj = wb.trace(torch.softmax, torch.randn(512, 512), 1)\nrun = j.simulated",
    "w = run.widget()\nw",
    "k = j.with_(machine=j.machine.with_(vector_lanes=64))\nboth = run.widget(beside=k.simulated)\nboth",
)


@pytest.fixture(scope="module")
def notebook(tabs: Tabs, folder: Path) -> Iterator[lab.Opened]:
    """A timeline, and two above each other."""
    with tabs.opened(folder / "timeline.ipynb", CODES) as made:
        widget(made.page).locator(".tl-fold, .tl-label").first.wait_for()
        yield made


@pytest.fixture
def opened(notebook: lab.Opened) -> Iterator[Page]:
    """The timelines with nothing selected, and nothing in the browser's console by the end."""
    lab.show(notebook.page, dark=False, width=1280)
    lab.ask_python(notebook.page, "w.spans = []")
    yield notebook.page
    assert notebook.errors == []


def widget(page: Page, number: int = 0) -> Locator:
    return page.locator(".wb-lab").nth(number)


def bars(page: Page, number: int = 0) -> Locator:
    found = widget(page, number).locator(".tl-plot canvas[role='img']").first
    found.scroll_into_view_if_needed()
    return found


def told(page: Page) -> Locator:
    return widget(page).locator(".tl-told").first


def tells(page: Page, text: str) -> None:
    """The timeline comes to say this."""
    expect(told(page)).to_contain_text(text, use_inner_text=True)


def test_what_is_clicked_is_selected_in_python_and_the_other_way_round(opened: Page):
    bars(opened).focus()
    for _ in range(3):
        opened.keyboard.press("ArrowRight")
    widget(opened).locator(".tl-told .tl-title:has-text('span')").wait_for()
    row = int(told(opened).inner_text().removeprefix("span ").partition(":")[0])
    lab.wait_for_python(opened, "print(w.spans)", f"[{row}]")
    widget(opened).locator(".tl-told dt:text-is('slack')").wait_for()
    last = int(lab.ask_python(opened, "w.spans = [len(run.events) - 1]; print(w.spans[0])"))
    widget(opened).locator(f".tl-told b:has-text('span {last}:')").wait_for()
    slack = lab.ask_python(opened, f"print(run.events.slack[{last}])")
    widget(opened).locator(".tl-told dt:text-is('slack')").wait_for()
    tells(opened, "none" if slack == "0" else slack)
    opened.keyboard.press("Escape")


@pytest.mark.test_all
def test_idle_time_is_clicked_and_told_with_its_findings(opened: Page):
    ask = (
        "v = run.gantt(); i = v.idle_time; n = int((i.end - i.start).argmax()); lane = v.lanes[int(i.lane[n])].name;"
        "row = run.gap(lane, int(i.start[n])).iloc[0]; print(lane, (row.begin + row.end) // 2, row.cause, sep='|')"
    )
    unit, middle, cause = lab.ask_python(opened, ask).split("|")
    reason = lab.ask_python(opened, "print(row.reason)")
    label = widget(opened).locator(f".tl-label:has-text('{unit} ')").first
    bars(opened)
    own, plot = label.bounding_box(), bars(opened).bounding_box()
    assert own and plot
    share = int(middle) / int(lab.ask_python(opened, "print(run.cycles)"))
    opened.mouse.click(plot["x"] + share * plot["width"], own["y"] + own["height"] / 2)
    widget(opened).locator(f".tl-told b:has-text('{cause.replace('_', ' ')}')").wait_for()
    tells(opened, reason[1:])
    widget(opened).locator(".tl-told .finding, .tl-told p.soft").first.wait_for()


@pytest.mark.test_all
def test_two_runs_show_the_same_time_and_the_page_scrolls_unless_ctrl_is_held(opened: Page):
    expect(widget(opened, 1).locator(".wb-timeline")).to_have_count(2)
    box = bars(opened, 1).bounding_box()
    assert box
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    opened.keyboard.down("Control")
    opened.mouse.wheel(0, -200)
    opened.keyboard.up("Control")
    opened.wait_for_function(
        "([one, other]) => one.style.width === other.style.width && one.style.width !== '100%'",
        arg=widget(opened, 1).locator(".tl-thumb").element_handles(),
    )
    lab.ask_python(opened, "both.show(0, run.cycles // 2)")
    opened.wait_for_function("document.querySelectorAll('.wb-lab')[1].querySelector('.tl-thumb').style.left === '0%'")


@pytest.mark.test_all
def test_keys_are_the_timelines_and_not_the_notebooks(opened: Page):
    before = len(opened.evaluate(lab.CELLS))
    bars(opened).focus()
    for key in ("a", "b", "x", "d", "d", "w", "s", "0"):
        opened.keyboard.press(key)
    thumb = widget(opened).locator(".tl-thumb")
    opened.keyboard.press("w")
    expect(thumb).not_to_have_attribute("style", re.compile(r"width: 100%"))
    opened.keyboard.press("0")
    expect(thumb).to_have_attribute("style", re.compile(r"width: 100%"))
    assert len(opened.evaluate(lab.CELLS)) == before


@pytest.mark.test_all
@pytest.mark.sweep(pairs=False)
@pytest.mark.parametrize("width", [800, 1280, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_it_looks_right_in_both_themes_and_all_widths(opened: Page, dark: bool, width: int):
    lab.ask_python(opened, "w.spans = [5]")
    widget(opened).locator(".tl-told dt:text-is('slack')").wait_for()
    lab.show(opened, dark=dark, width=width)
    SHOTS.mkdir(exist_ok=True)
    widget(opened).screenshot(path=SHOTS / f"timeline-{'dark' if dark else 'light'}-{width}.png")
    wrong = [f"contrast: {each}" for each in looks.low_contrast(opened)]
    wrong += [f"axe: {each}" for each in looks.against_axe(opened)]
    outer = widget(opened).bounding_box()
    for part in widget(opened).locator(".tl-tools, .tl-grid, .tl-legend, .tl-told, .tl-more").all():
        inner = part.bounding_box()
        assert outer and inner
        if inner["x"] < outer["x"] or inner["x"] + inner["width"] > outer["x"] + outer["width"] + 1:
            wrong.append(f"{part.get_attribute('class')} is wider than the timeline")
    assert not wrong, "\n".join(wrong)
