"""Scratchpad and tiles in a browser, with Python behind them: what a cycle shows is what `j.simulated.at` says, whoever
moves the clock, and what is pressed is selected."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

import workbench as wb
from tests.browser.lab import becomes, settle
from tests.jupyter.live import widget_page
from tests.jupyter.timelines import by_host, two_cores
from workbench.jupyter.widgets.widget_base import LabWidget


def product() -> wb.Journey:
    """2 x 3 tiles of the result, each over two steps."""
    mapping = {"*": {"tile": {"m": 32, "n": 32, "k": 64}}}
    return wb.trace(
        lambda x, w: torch.relu(x @ w), torch.randn(64, 128), torch.randn(128, 96), machine="edge-8x8", mapping=mapping
    )


class Shown:
    """A page with a widget of a journey."""

    def __init__(self, page: Page, journey: wb.Journey, widget: LabWidget) -> None:
        self.page, self.journey, self.widget = page, journey, widget

    def open(self) -> None:
        self.page.wait_for_function("document.querySelector('.mem-said')?.textContent")
        self.page.locator(".mem-table summary").click()
        self.page.locator(".mem-table table").first.wait_for()

    def wait_for(self, cycle: int) -> None:
        """Until the page shows a cycle."""
        becomes(self.page.locator(".mem-said").text_content, self.at(cycle).record.summary())

    def at(self, cycle: int) -> Any:
        return self.journey.simulated.at(cycle)

    @property
    def cycle(self) -> int:
        return int(self.page.locator(".mem-cycle").input_value())

    def rows(self, table: str) -> list[list[str]]:
        cells = "(t => [...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent)))"
        return self.page.locator(f'table[aria-label="{table}"]').evaluate(cells)

    def settle(self) -> None:
        settle(self.page)


@pytest.fixture(scope="module")
def journeys() -> dict[str, wb.Journey]:
    return {}


def opened(name: str, journeys: dict[str, wb.Journey]) -> wb.Journey:
    made = {"product": product, "two cores": two_cores, "a step on the host": by_host}[name]
    return journeys.setdefault(name, journeys.get(name) or made())


@pytest.fixture(params=["product", "two cores", "a step on the host"])
def alone(
    request: pytest.FixtureRequest, chromium_browser: Browser, journeys: dict[str, wb.Journey]
) -> Iterator[Shown]:
    """The widget of its own."""
    journey = opened(request.param, journeys)
    journey.selection.select(None)
    yield from _shown(chromium_browser, journey, journey.simulated.scratchpad.widget())


@pytest.fixture
def lab(chromium_browser: Browser, journeys: dict[str, wb.Journey]) -> Iterator[Shown]:
    """The lab with the view open."""
    journey = opened("product", journeys)
    journey.selection.select(None)
    yield from _shown(chromium_browser, journey, journey.widget())


def _shown(chromium_browser: Browser, journey: wb.Journey, widget: object) -> Iterator[Shown]:
    assert isinstance(widget, LabWidget)
    with widget_page(chromium_browser, widget, height=1100) as page:
        made = Shown(page, journey, widget)
        page.wait_for_function("window.loaded")
        if page.locator(".stepper").count():
            page.wait_for_selector(".tl-plot canvas")
            page.get_by_role("button", name="Scratchpad and tiles").click()
        made.open()
        yield made
        expect(page.locator(".notice")).to_be_hidden()


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_every_cycle_is_as_python_says(alone: Shown):
    run = alone.journey.simulated
    edges = [edge for times in run.replays.times for edge in times]
    for cycle in (*random.Random(2).sample(range(run.cycles), 12), 0, run.cycles, *edges):
        alone.widget.cycle = cycle
        alone.wait_for(cycle)
        moment = alone.at(cycle).record
        slots = [dict(zip(moment.slots().columns, row, strict=True)) for row in moment.slots().rows]
        names = [[f"{row['buffer']}[{row['slot']}]", str(row["core"]), row["state"]] for row in slots]
        users = [[row["tensor"] or "", row["written_by"], row["read_by"]] for row in slots]
        expected = [[*name, *used] for name, used in zip(names, users, strict=True)]
        becomes(lambda: [row[:6] for row in alone.rows("slots of the scratchpad")], expected)
        tiles = [dict(zip(moment.tiles().columns, row, strict=True)) for row in moment.tiles().rows]
        for tensor, access, visited, moved, _ in alone.rows("tensors"):
            mine = [row for row in tiles if (row["tensor"], row["access"]) == (tensor, access)]
            assert visited == f"{sum(row['moved'] > 0 for row in mine)} of {len(mine)}"
            assert moved == f"{sum(row['moved'] for row in mine)} of {sum(row['moves'] for row in mine)}"


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_the_slider_goes_from_change_to_change_and_python_hears_where_it_stops(alone: Shown):
    replay = alone.journey.simulated.replays.of(0)
    changes = replay.changes.tolist()
    slider = alone.page.locator(".mem-slider")
    alone.widget.cycle = replay.begin
    alone.wait_for(replay.begin)
    slider.focus()
    for wanted in changes[1:4]:
        alone.page.keyboard.press("ArrowRight")
        alone.wait_for(wanted)
    alone.page.keyboard.press("ArrowLeft")
    alone.wait_for(changes[2])
    alone.page.keyboard.press("Shift+ArrowRight")
    alone.wait_for(changes[2] + 1)
    alone.page.keyboard.press("ArrowLeft")
    alone.wait_for(changes[2])
    alone.page.keyboard.press("End")
    alone.wait_for(replay.end if replay.end in changes else changes[-1])
    alone.page.wait_for_function("cycle => model.get('cycle') === cycle", arg=replay.end)
    becomes(lambda: alone.widget.cycle, replay.end)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=3)
def test_moving_within_a_launch_asks_nothing(alone: Shown):
    before = alone.page.evaluate("window.sent")
    begin, end = alone.journey.simulated.replays.times[0]
    slider = alone.page.locator(".mem-slider")
    for part in range(12):
        slider.evaluate(
            "(s, to) => { s.value = to; s.dispatchEvent(new Event('input')); }", begin + (end - 1 - begin) * part // 11
        )
        alone.settle()
    alone.wait_for(end - 1)
    assert alone.page.evaluate("window.sent") == before


_WRITE_DOWN_NAMES = """() => {
    const button = document.querySelector('.mem-steps button[aria-label="play"]');
    const write = () => names.push(button.getAttribute('aria-label'));
    window.names = [];
    new MutationObserver(write).observe(button, {attributeFilter: ['aria-label']});
}"""
"""Writes the button's names from now on into `names`: it may be "pause" for a single frame."""


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_it_plays_to_the_end_of_the_launch_and_stops(alone: Shown):
    begin, end = alone.journey.simulated.replays.times[-1]
    alone.page.select_option('select[aria-label="how fast it plays"]', "8")
    alone.widget.cycle = begin + (end - begin) * 9 // 10
    alone.wait_for(alone.widget.cycle)
    play = alone.page.get_by_role("button", name="play")
    alone.page.evaluate(_WRITE_DOWN_NAMES)
    play.click()
    alone.wait_for(end)
    becomes(lambda: alone.page.evaluate("names"), ["pause", "play"])
    alone.page.select_option('select[aria-label="how fast it plays"]', "60")  # it is stopped long before the end
    play.click()
    alone.page.wait_for_function("end => Number(document.querySelector('.mem-cycle').value) < end", arg=end)
    alone.page.get_by_role("button", name="pause").click()
    play.wait_for()
    alone.settle()
    stopped = alone.cycle
    becomes(lambda: alone.widget.cycle, stopped)
    alone.settle()
    assert alone.cycle == stopped


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_a_slot_and_a_tile_are_selected_as_select_does(alone: Shown):
    journey, page = alone.journey, alone.page
    replay = journey.simulated.replays.of(0)
    alone.widget.cycle = (replay.begin + replay.end) // 2
    alone.wait_for(alone.widget.cycle)
    page.locator('table[aria-label="slots of the scratchpad"] button').first.click()
    buffer = wb.BufferAt(replay.kernel, replay.slots[0].number)
    becomes(lambda: journey.selection.selection, journey.select(buffer))
    for grid in range(len(replay.grids)):
        canvas = page.locator(".mem-grid canvas").nth(grid)
        canvas.click(position={"x": 9, "y": 9})
        first = next(place for place in replay.places if place.grid == grid and (place.top, place.left) == (0, 0))
        box = [touch.box for touch in replay.tiling.touches if touch.tensor == replay.grids[grid].tensor]
        becomes(lambda: f"a box of {replay.grids[grid].tensor}" in journey.selection.selection.what, True)  # noqa: B023
        row = int(journey.selection.selection.what.split()[1])
        touch = replay.tiling.touches[row]
        assert touch.box in box and first.tile is not None
        assert journey.selection.selection == journey.select(wb.TileAt(replay.kernel, row))


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
def test_what_is_selected_elsewhere_is_marked_here(alone: Shown):
    replay = alone.journey.simulated.replays.of(0)
    alone.widget.cycle = replay.begin
    alone.wait_for(replay.begin)
    alone.settle()
    map_of = "document.querySelector('.mem-map canvas').toDataURL()"
    plain = alone.page.evaluate(map_of)
    alone.journey.selection.select(0)
    alone.page.wait_for_function(f"plain => {map_of} !== plain", arg=plain)
    alone.journey.selection.select(None)
    alone.page.wait_for_function(f"plain => {map_of} === plain", arg=plain)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=3)
def test_axe_finds_nothing_in_either_theme(alone: Shown):
    alone.page.locator(".mem-slider").focus()
    for light in ("true", "false"):
        alone.page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
        alone.settle()
        options = {"resultTypes": ["violations"]}
        found = Axe().run(alone.page, context="#host", options=options).response["violations"]
        assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found] == []


@pytest.mark.test_all
@pytest.mark.sweep(one_in=3)
def test_nothing_moves_after_the_end(alone: Shown):
    alone.page.get_by_role("button", name="play").click()
    alone.page.evaluate("window.end()")
    expect(alone.page.locator("#host > *")).to_have_count(0)
    sent = alone.page.evaluate("window.sent")
    alone.widget.cycle = 1
    alone.page.wait_for_function("model.get('cycle') === 1")
    alone.settle()
    assert alone.page.evaluate("window.sent") == sent
    alone.page.evaluate("document.getElementById('host').append(Object.assign(document.createElement('p'), "
                        "{className: 'notice', hidden: true}))")  # fmt: skip


@pytest.mark.test_all
def test_the_timelines_cursor_moves_it_and_it_moves_the_timelines_cursor(lab: Shown):
    page, cycles = lab.page, lab.journey.simulated.cycles
    over = page.locator(".tl-plot canvas").last
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 12)
    page.wait_for_function("whole => Math.abs(document.querySelector('.mem-cycle').value - whole / 4) < whole / 100",
                           arg=cycles)  # fmt: skip
    lab.wait_for(lab.cycle)
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] - 40)
    lab.settle()
    before, pointed = over.evaluate("canvas => canvas.toDataURL()"), lab.cycle
    slider = page.locator(".mem-slider")
    slider.focus()
    slider.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('.mem-cycle').value > before", arg=pointed)
    lab.wait_for(lab.cycle)
    assert lab.cycle in lab.journey.simulated.replays.of(0).changes
    page.wait_for_function(
        "before => [...document.querySelectorAll('.tl-plot canvas')].at(-1).toDataURL() !== before", arg=before
    )


@pytest.mark.test_all
def test_a_tile_pressed_in_the_lab_is_marked_in_its_lists(lab: Shown):
    page = lab.page
    slots = "document.querySelector('.mem-map canvas').toDataURL()"
    lab.settle()
    plain = page.evaluate(slots)
    page.locator(".mem-grid canvas").first.click(position={"x": 9, "y": 9})
    becomes(lambda: "a box of x" in getattr(lab.journey.selection.selection, "what", ""), True)
    expect(page.locator(".what")).to_contain_text("a box of x")
    page.wait_for_function(f"plain => {slots} !== plain", arg=plain)
    marked = page.evaluate(slots)
    page.locator(".of-timeline .row").first.click()
    page.wait_for_function(f"marked => {slots} !== marked", arg=marked)


@pytest.mark.test_all
def test_a_view_that_is_hidden_stops_and_is_marked_when_it_is_shown_again(lab: Shown):
    page, tab = lab.page, lab.page.get_by_role("button", name="Scratchpad and tiles")
    slots = "document.querySelector('.mem-map canvas').toDataURL()"
    page.get_by_role("button", name="play").click()
    page.wait_for_function("Number(document.querySelector('.mem-cycle').value) > 0")
    tab.click()
    page.locator('.mem-steps button[aria-label="play"]').wait_for(state="attached")
    lab.settle()
    plain = page.evaluate(slots)
    page.locator(".of-timeline .row").first.click()
    becomes(lambda: lab.journey.selection.selection is not None, True)
    page.locator(".of-timeline .row.s").first.wait_for()
    lab.settle()
    assert page.evaluate(slots) == plain
    tab.click()
    page.wait_for_function(f"plain => {slots} !== plain", arg=plain)


@pytest.mark.test_all
def test_in_the_lab_it_opens_where_what_is_selected_begins(chromium_browser: Browser, journeys: dict[str, wb.Journey]):
    journey = opened("product", journeys)
    events = journey.simulated.events
    last = int(events.start.argmax())
    journey.selection.select(last)
    for shown in _shown(chromium_browser, journey, journey.widget()):
        shown.wait_for(int(events.start[last]))


@pytest.mark.test_all
def test_a_run_without_kernels_says_so_and_has_no_clock(chromium_browser: Browser):
    widget = wb.trace(lambda x: x.view(64), torch.randn(8, 8)).widget()
    assert isinstance(widget, LabWidget)
    with widget_page(chromium_browser, widget, height=1100) as page:
        page.get_by_role("button", name="Scratchpad and tiles").click()
        expect(page.locator(".of-memory")).to_have_text("No kernel ran, so the scratchpad was empty.")
