"""The views that explain, in JupyterLab: below the lab's timeline, following its selection and changing it.

Pictures of them are left in `screenshots/`, which is not committed.
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
    "import torch, workbench as wb\n"
    "j = wb.trace(lambda a, b: torch.relu(a @ b), torch.randn(512, 512), torch.randn(512, 1024))",
    "w = j.widget()\nw",
    "j.simulated.array().widget()",
    "j.simulated.pipeline(0).widget()",
    "j.scheduled.kernels[0].passes.widget()",
)


@pytest.fixture(scope="module")
def notebook(tabs: Tabs, folder: Path) -> Iterator[lab.Opened]:
    """A lab, and each view as a widget of its own."""
    with tabs.opened(folder / "explaining.ipynb", CODES) as made:
        made.page.locator(".list.of-spans .row").first.wait_for()
        made.page.locator(".wb-passes .ex-diff .l").first.wait_for()
        yield made


@pytest.fixture
def opened(notebook: lab.Opened) -> Iterator[Page]:
    yield notebook.page
    assert notebook.errors == []


def view(page: Page, title: str) -> Locator:
    """A view of the lab, opened."""
    button = page.locator(".wb-lab .looks button", has_text=title)
    if button.get_attribute("aria-pressed") == "false":
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
    return page.locator(f".look.of-{title.lower()}")


@pytest.mark.test_all
def test_views_of_the_lab_follow_the_selection_and_change_it(opened: Page):
    rows = "j.simulated.events.index[j.simulated.events.kind == 'MATMUL']"
    last = lab.ask_python(opened, f"w.selection = int({rows}[-1])\nprint({rows}[-1])")
    view(opened, "Array").locator(f".ex-top b:has-text('span {last}:')").wait_for()
    looks_at = view(opened, "Pipeline")
    looks_at.locator(f".ex-told b:has-text('span {last} ')").wait_for()
    looks_at.locator("canvas").focus()
    opened.keyboard.press("Home")
    opened.keyboard.press("ArrowUp")
    looks_at.locator(f".ex-told b:not(:has-text('span {last} '))").wait_for()
    told = looks_at.locator(".ex-told b").inner_text()
    lab.wait_for_python(opened, "print(w.selection.what)", told.partition(" (")[0])
    passes = view(opened, "Passes")
    whole_text = passes.locator("button:has-text('whole text after')")
    whole_text.click()
    expect(whole_text).to_have_attribute("aria-pressed", "true")
    name = passes.locator(".ex-row[data-pass] .ex-name").last
    name.click()
    expect(passes.locator(".ex-pass b")).to_contain_text(name.inner_text())
    passes.locator(".ex-diff .code[aria-label='the whole text']").wait_for()
    passes.locator(".ex-diff .l.k[data-scheduled]").last.click()
    lab.wait_for_python(opened, "print(w.selection.what.split()[0])", "line")
    passes.locator(".ex-diff .l.s").first.wait_for()


@pytest.mark.test_all
@pytest.mark.sweep(pairs=False)
@pytest.mark.parametrize("width", [800, 1280, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_views_are_legible_in_both_themes_and_all_widths_and_no_reader_is_left_out(
    opened: Page, dark: bool, width: int
):
    SHOTS.mkdir(exist_ok=True)
    wrong = list[str]()
    wide = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.className)"
    look = f"{'dark' if dark else 'light'}-{width}"
    lab.show(opened, dark=dark, width=width)
    for title in ("Array", "Pipeline", "Passes"):
        view(opened, title)
        lab.laid_out(opened)
        where = f"explaining-{title.lower()}-{look}"
        opened.locator(".wb-lab").first.screenshot(path=SHOTS / f"{where}.png")
        found = opened.locator(".wb-array, .wb-pipeline, .wb-passes").evaluate_all(wide)
        wrong += [f"{where}: {each} is wider than its place" for each in found]
    wrong += [f"{look}: contrast: {each}" for each in looks.low_contrast(opened)]
    wrong += [f"{look}: axe: {each}" for each in looks.against_axe(opened)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.test_all
def test_an_array_plays_in_a_notebook_and_keys_stay_in_it(opened: Page):
    cells = len(opened.evaluate(lab.CELLS))
    array = opened.locator(".wb-lab .wb-array").last
    slider = array.locator("input[type=range]")
    expect(slider).to_have_attribute("max", re.compile("[1-9]"))
    slider.focus()
    before = int(slider.input_value())
    opened.keyboard.press("ArrowRight")
    expect(slider).to_have_value(str(before + 1))
    for key in ("x", "a", "d", "d", "ArrowRight"):
        opened.keyboard.press(key)
    expect(slider).to_have_value(str(before + 2))
    assert len(opened.evaluate(lab.CELLS)) == cells
    array.locator("select").select_option("10000")
    array.locator("button:has-text('play')").click()
    array.locator("button[aria-pressed=true]:has-text('stop')").wait_for(state="detached")
    expect(slider).to_have_value(slider.get_attribute("max") or "")
