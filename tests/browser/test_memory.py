"""Scratchpad and tiles as a person meets them: stepped, dragged, played and pressed in JupyterLab, and asked about from
Python.

Pictures are left in `screenshots/`, which is not committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from tests.browser import lab, looks
from tests.browser.tabs import Tabs

SHOTS = lab.ROOT / "screenshots"

pytestmark = pytest.mark.sweep(one_in=2)  # each test in one JupyterLab of the two

CODES = (
    "import torch, workbench as wb\n"
    "mapping = {'*': {'tile': {'m': 32, 'n': 32, 'k': 64}}}\n"
    "j = wb.trace(lambda x, w: torch.relu(x @ w), torch.randn(64, 256), torch.randn(256, 96), machine='edge-8x8',\n"
    "             mapping=mapping)",
    "w = j.simulated.scratchpad.widget()\nw",
)


@pytest.fixture(scope="module")
def notebook(tabs: Tabs, folder: Path) -> Iterator[lab.Opened]:
    with tabs.opened(folder / "memory.ipynb", CODES) as made:
        made.page.locator(".mem-grid canvas").first.wait_for()
        yield made


@pytest.fixture
def opened(notebook: lab.Opened) -> Iterator[Page]:
    """The widget at its first cycle with nothing selected, and nothing in the browser's console by the end."""
    lab.show(notebook.page, dark=False, width=1280)
    lab.ask_python(notebook.page, "w.cycle = 0; j.selection.select(None)")
    wait_for(notebook.page, 0)
    yield notebook.page
    assert notebook.errors == []


def wait_for(page: Page, cycle: int) -> None:
    """Until the widget says what Python says of a cycle."""
    said = lab.ask_python(page, f"print(j.simulated.at({cycle}).record.summary())")
    page.wait_for_function("said => document.querySelector('.mem-said').textContent === said", arg=said)


def map_of(page: Page) -> Locator:
    found = page.locator(".mem-map canvas")
    found.scroll_into_view_if_needed()
    return found


@pytest.mark.test_all
def test_keys_go_from_change_to_change_and_python_hears_where_it_rests(opened: Page):
    changes = lab.ask_python(opened, "print(*j.simulated.replays.of(0).changes[:4])").split()
    opened.locator(".mem-slider").focus()
    for _ in range(3):
        opened.keyboard.press("ArrowRight")
    wait_for(opened, int(changes[3]))
    lab.wait_for_python(opened, "print(w.cycle)", changes[3])
    map_of(opened).focus()
    opened.keyboard.press("ArrowLeft")
    wait_for(opened, int(changes[2]))
    lab.ask_python(opened, "w.cycle = 5000")
    wait_for(opened, 5000)


@pytest.mark.test_all
def test_time_is_dragged_in_the_scratchpads_picture(opened: Page):
    box = map_of(opened).bounding_box()
    assert box
    opened.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40)
    opened.mouse.down()
    opened.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=5)
    opened.mouse.up()
    lab.settle(opened)
    cycle = int(opened.locator(".mem-cycle").input_value())
    assert cycle > int(lab.ask_python(opened, "print(j.simulated.cycles // 3)"))
    wait_for(opened, cycle)
    lab.wait_for_python(opened, "print(w.cycle)", str(cycle))


@pytest.mark.test_all
def test_it_plays_and_stops(opened: Page):
    opened.get_by_label("how fast it plays").select_option("60")  # it is stopped long before the end
    opened.get_by_role("button", name="play").click()
    opened.wait_for_function("Number(document.querySelector('.mem-cycle').value) > 0")
    opened.get_by_role("button", name="pause").click()
    opened.get_by_role("button", name="play").wait_for()
    lab.settle(opened)
    cycle = opened.locator(".mem-cycle").input_value()
    lab.wait_for_python(opened, "print(w.cycle)", cycle)


@pytest.mark.test_all
def test_a_slot_and_a_tile_are_selected_in_python(opened: Page):
    lab.ask_python(opened, "w.cycle = 5000")
    wait_for(opened, 5000)
    map_of(opened).click(position={"x": 60, "y": 12})
    lab.wait_for_python(opened, "print(j.selection.selection.what)", "buffer buf3 of k0_matmul_relu")
    opened.locator(".mem-grid canvas").first.click(position={"x": 10, "y": 10})
    lab.wait_for_python(opened, "print(j.selection.selection.what.partition(', ')[2])", "a box of x")


@pytest.mark.test_all
@pytest.mark.sweep(pairs=False)
@pytest.mark.parametrize("width", [800, 1280, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_legible_in_both_themes_and_all_widths(opened: Page, dark: bool, width: int):
    lab.show(opened, dark=dark, width=width)
    lab.ask_python(opened, "w.cycle = 5000")
    wait_for(opened, 5000)
    assert looks.against_axe(opened) == []
    assert looks.low_contrast(opened) == []
    assert looks.out_of_boxes(opened) == []
    SHOTS.mkdir(exist_ok=True)
    opened.locator(".wb-lab").screenshot(path=SHOTS / f"memory-{'dark' if dark else 'light'}-{width}.png")
