"""Notebooks as a reader meets them: run in JupyterLab in a browser, in both themes, on a narrow and on a wide screen.

Pictures of all of them are left in `screenshots/`, which is not committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser import gallery, lab, looks
from tests.browser.tabs import open_notebook, run_all

if TYPE_CHECKING:
    import nbformat
    from playwright.sync_api import Page

NOTEBOOKS = lab.ROOT / "notebooks"
SHOTS = lab.ROOT / "screenshots"
FRONTS = ("ours",)  # what the notebooks show without widgets is the same HTML in any JupyterLab


def of_the_course(name: str) -> nbformat.NotebookNode:
    """A notebook of ours that has never been run, so that every output seen is a new one."""
    import nbformat

    made = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return made


def run(server: lab.Server, page: Page, folder: Path, name: str, made: Any) -> tuple[bool, list[dict[str, Any]]]:
    import nbformat

    nbformat.write(made, folder / f"{name}.ipynb")
    return run_all(page, server, f"{name}.ipynb")


def assert_looks_right(page: Page, name: str, shown: Sequence[tuple[bool, int]]) -> None:
    """In these themes and widths; everything that is wrong is told at once."""
    wrong: list[str] = []
    SHOTS.mkdir(exist_ok=True)
    for dark, width in shown:
        lab.show(page, dark=dark, width=width)
        where = f"{name}-{'dark' if dark else 'light'}-{width}"
        picture = page.screenshot(path=SHOTS / f"{where}.png")
        twice = [picture[:80] for picture, count in Counter(looks.pictures(page)).items() if count > 1]
        wrong += [f"{where}: {each}" for each in looks.out_of_boxes(page)]
        wrong += [f"{where}: twice: {each}" for each in twice]
        wrong += [f"{where}: blank: {each}" for each in looks.blank(page, picture)]
        wrong += [f"{where}: contrast: {each}" for each in looks.low_contrast(page)]
        wrong += [f"{where}: axe: {each}" for each in looks.against_axe(page)]
        wrong += [f"{where}: too high: {each}" for each in looks.too_high(page)]
    assert page.locator(looks.STDERR).all_text_contents() == [], "all is drawn by now"
    assert not wrong, "\n".join(wrong)


COURSE = ("00_start_here", "01_add_an_op_foobar")


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("name", COURSE)
def test_the_course(name: str, server: lab.Server, page: Page, folder: Path, whole_sweep: bool):
    import nbformat

    kept = [cell for cell in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells if cell.cell_type == "code"]
    went_well, cells = run(server, page, folder, name, of_the_course(name))
    assert [each for cell in cells for each in cell["outputs"] if each["output_type"] == "error"] == []
    assert went_well
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(kept) + 1))
    shown = [bool(cell["outputs"]) for cell in cells]
    assert shown == [bool(cell.outputs) for cell in kept], "cells show something where the committed file says so"
    expect(page.locator(".jp-toast, .Toastify__toast"), "nothing lies over the page").to_have_count(0)
    assert_looks_right(page, name, looks.THEMES_AND_WIDTHS if whole_sweep else looks.some_looks(COURSE.index(name)))


_OVERLAPS = """() => [...document.querySelectorAll('.wb-lab .badge')].flatMap(badge => {
    const text = document.createRange(), button = badge.getBoundingClientRect();
    text.selectNodeContents(badge.closest('.card-of').querySelector('b'));
    return [...text.getClientRects()]
        .filter(line => line.right > button.left && line.left < button.right && line.top < button.bottom)
        .map(() => `${badge.textContent} lies over ${text}`);
})"""
"""Badges that lie over the figure of their stage, which style sheets of other widgets of the page could make them."""


@pytest.mark.test_all
@pytest.mark.sweep
def test_the_tour_of_the_lab(server: lab.Server, page: Page, folder: Path, whole_sweep: bool):
    """All of it runs, and every widget of it lives and says nothing of an error."""
    went_well, cells = run(server, page, folder, "02_the_lab", of_the_course("02_the_lab"))
    assert went_well, [each for cell in cells for each in cell["outputs"] if each["output_type"] == "error"]
    widgets = [each for cell in cells for each in cell["outputs"] if "widget-view" in str(each.get("data", {}).keys())]
    page.wait_for_function(f"() => document.querySelectorAll('.wb-lab').length === {len(widgets)}")
    assert len(widgets) == 4
    lab.answered(page)
    wrong: list[str] = []
    SHOTS.mkdir(exist_ok=True)
    for dark, width in looks.THEMES_AND_WIDTHS if whole_sweep else looks.some_looks(1):
        lab.show(page, dark=dark, width=width)
        page.screenshot(path=SHOTS / f"02_the_lab-{'dark' if dark else 'light'}-{width}.png")
        found = looks.against_axe(page) + looks.low_contrast(page) + page.evaluate(_OVERLAPS)
        wrong += [f"{'dark' if dark else 'light'}-{width}: {each}" for each in found]
    assert not wrong, "\n".join(wrong)
    expect(page.locator(".wb-lab .notice:visible")).to_have_count(0)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)  # each takes a minute
@pytest.mark.parametrize("name", gallery.MODELS)
def test_the_gallery(name: str, server: lab.Server, page: Page, folder: Path, whole_sweep: bool):
    """Each model of a part in one look, in turns; whole, all models in all looks, so that each view is seen in all.

    The first shows some views that no other does, and is seen in both themes and both widths.
    """
    file = name.replace(" ", "_").lower()
    went_well, cells = run(server, page, folder, file, gallery.notebook(name))
    assert went_well, [each for cell in cells for each in cell["outputs"] if each["output_type"] == "error"]
    assert all(cell["outputs"] for cell in cells[2:]), "every view shows something"
    told = [each["data"]["text/plain"] for cell in cells for each in cell["outputs"] if "data" in each]
    assert not [text for text in told if "Axes(" in str(text)]
    number = gallery.MODELS.index(name)
    some = looks.THEMES_AND_WIDTHS[number % 4 :: 2 if number == 0 else 4]
    assert_looks_right(page, file, looks.THEMES_AND_WIDTHS if whole_sweep else some)


def test_a_slow_cell_shows_a_line_while_it_runs_and_leaves_nothing(server: lab.Server, page: Page, folder: Path):
    slow = "with progress.waiting('schedule', delay=0.0):\n    time.sleep(3)"
    codes = ("import time, workbench, workbench.ground.environment.progress as progress", slow)
    seen = """() => new Promise(done => {
        const seen = [], look = () => {
            const text = document.querySelector('.jp-OutputArea-output')?.textContent ?? '';
            if (text && !seen.includes(text)) seen.push(text);
            globalThis.isOver ? done(seen) : setTimeout(look, 30);
        };
        look();
    })"""
    lab.write(folder / "slow.ipynb", codes)
    open_notebook(page, server, "slow.ipynb")
    page.evaluate("() => { globalThis.isOver = false; }")
    both = f"async () => {{ const seen = ({seen})(); const well = await ({lab.RUN_ALL})(); globalThis.isOver = true;"
    well, lines = page.evaluate(both + " return [well, await seen]; }")
    assert well and any(line.startswith("schedule") for line in lines)
    expect(page.locator(looks.OUTPUTS)).to_have_count(0)
    assert [cell["outputs"] for cell in page.evaluate(lab.CELLS)] == [[], []]


def test_a_cell_that_fails_is_seen(server: lab.Server, page: Page, folder: Path):
    import nbformat

    cell = nbformat.v4.new_code_cell("import workbench as wb\nwb.machine('tpu-v33')")
    went_well, cells = run(server, page, folder, "fails", lab.notebook(cell))
    ((failed,),) = [each["outputs"] for each in cells]
    assert not went_well
    assert failed["ename"] == "MachineError" and "did you mean 'tpu-v3'" in failed["evalue"]
