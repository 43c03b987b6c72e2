"""The schedule editor and the comparison in JupyterLab: driven there, and asked about from Python.

Pictures of them are left in `screenshots/`, which is not committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import lab, looks
from tests.browser.tabs import Tabs

SHOTS = lab.ROOT / "screenshots"

pytestmark = pytest.mark.sweep(one_in=2)  # each test in one JupyterLab of the two

CODES = (
    "import torch, torch.nn.functional as F, workbench as wb\n"
    "j = wb.trace(lambda x, w: F.gelu(x @ w).softmax(0), torch.randn(128, 256), torch.randn(256, 512))",
    "w = j.knobs('k0').widget()\nw",
    "k = j.with_(machine=j.machine.with_(dma_queues=2))\nboth = wb.compare(j, k).widget()\nboth",
)


@pytest.fixture(scope="module")
def notebook(tabs: Tabs, folder: Path) -> Iterator[lab.Opened]:
    """A schedule editor and a comparison."""
    with tabs.opened(folder / "knobs.ipynb", CODES) as made:
        drawn(made.page, 0)
        made.page.locator(".cmp-times canvas").first.wait_for()
        yield made


@pytest.fixture
def opened(notebook: lab.Opened) -> Iterator[Page]:
    """Both, and nothing in the browser's console by the end."""
    yield notebook.page
    assert notebook.errors == []


def drawn(page: Page, step: int) -> None:
    page.locator(f'.kn-pictures[data-step="{step}"]').wait_for()


def knob(page: Page, name: str, part: str = "input[type=text]") -> Locator:
    return page.locator(f'[data-knob="{name}"] {part}')


@pytest.mark.test_all
def test_it_is_turned_here_and_in_python(opened: Page):
    slider = knob(opened, "tile.m", "input[type=range]")
    slider.focus()
    slider.press("ArrowLeft")
    drawn(opened, 1)
    assert lab.ask_python(opened, "print(w.step.call == j.knobs('k0').call('tile.m', 64))") == "True"
    cycles = lab.ask_python(opened, "print(f'{w.journey.simulated.cycles:,}')")
    expect(opened.locator(".kn-times .tl-run").first).to_contain_text(f"now: {cycles} cycles")
    lab.ask_python(opened, "w.experiment.turn('buffers', 1, kernel='k0')")
    drawn(opened, 2)
    expect(knob(opened, "buffers")).to_have_value("1")
    knob(opened, "tile.n").fill("9999")
    knob(opened, "tile.n").press("Enter")
    knob(opened, "tile.n", ".kn-why").wait_for()
    lab.wait_for_python(opened, "print(w.step.number, len(w.experiment.history))", "2 4")


@pytest.mark.test_all
def test_a_row_of_the_comparison_is_marked_here_and_in_python(opened: Page):
    opened.locator(".cmp-lines tbody button:enabled").first.click()
    opened.locator(".cmp-lines tr.s").wait_for()
    row = opened.locator(".cmp-lines tr.s").get_attribute("data-row")
    assert row is not None
    lab.wait_for_python(opened, "print(both.row)", row)
    lab.ask_python(opened, "both.row = -1")
    opened.locator(".cmp-lines tr.s").wait_for(state="detached")


@pytest.fixture(scope="module")
def mapped(notebook: lab.Opened) -> Page:
    """The page with the map filled."""
    page = notebook.page
    page.locator(".kn-part summary", has_text="Map of mappings").click()
    page.get_by_text("Fill the map").click()
    page.wait_for_function("document.querySelector('.kn-cell') && !document.querySelector('.kn-cell.unknown')")
    return page


@pytest.mark.test_all
@pytest.mark.sweep(pairs=False)
@pytest.mark.parametrize("width", [800, 1280, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_both_look_well_in_both_themes_at_three_widths(opened: Page, mapped: Page, dark: bool, width: int):
    assert opened is mapped
    SHOTS.mkdir(exist_ok=True)
    lab.show(opened, dark=dark, width=width)
    for number, name in enumerate(("editor", "comparison")):
        shot = SHOTS / f"knobs-{'dark' if dark else 'light'}-{width}-{name}.png"
        opened.locator(".wb-lab").nth(number).screenshot(path=shot)
    wrong = [*looks.against_axe(opened), *looks.low_contrast(opened)]
    assert not wrong, "\n".join(wrong)
