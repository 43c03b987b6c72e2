"""The array, the pipeline and the passes in a browser: what they draw and say is what Python says."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Route, expect

import workbench as wb
from simulator.analysis.array_steps import array_walk
from tests.browser.lab import becomes, settle
from tests.jupyter.looked_at import Seen, looked_at
from tests.jupyter.test_explaining_widgets import product, softmax
from tests.jupyter.timelines import two_cores
from workbench.explaining.views.timelines.arrays import doing_at, last_begun, matmuls
from workbench.jupyter.widgets.explaining_widgets import EXPLAINING_SHEETS, ArrayLook, PassesLook, PipelineLook


@pytest.fixture
def array(chromium_browser: Browser) -> Iterator[Seen]:
    look = ArrayLook(lambda: product().simulated)
    with looked_at(chromium_browser, look, "createArray", EXPLAINING_SHEETS, "window.look?.walk") as seen:
        yield seen


@pytest.fixture
def pipeline(chromium_browser: Browser) -> Iterator[Seen]:
    look = PipelineLook(lambda: product().simulated)
    with looked_at(chromium_browser, look, "createPipeline", EXPLAINING_SHEETS, "window.look?.state.view") as seen:
        yield seen


@pytest.fixture
def passes(chromium_browser: Browser) -> Iterator[Seen]:
    kernel = softmax().scheduled.kernels[0]
    rows = range(len(softmax().simulated.events))
    look = PassesLook(lambda: [kernel.passes.trace], lambda: {kernel.name: [rows]})
    ready = "document.querySelector('.ex-diff .l')"
    with looked_at(chromium_browser, look, "createPasses", EXPLAINING_SHEETS, ready) as seen:
        yield seen


def tells(seen: Seen, text: str) -> None:
    """The view comes to say this."""
    expect(seen.page.locator(".ex-told")).to_contain_text(text, use_inner_text=True)


@pytest.mark.test_all
def test_every_cycle_of_an_array_is_as_python_says(array: Seen):
    trace = product().simulated.trace
    walk = array_walk(trace, array.js("look.walk.header.span"))
    assert walk is not None
    draw, length = random.Random(1), walk.last - walk.first
    for cycle in [0, length, *draw.sample(range(length), 25)]:
        own, count = cycle + walk.first, walk.at_work(cycle + walk.first)
        assert array.js("look.walk.atWork(g[0])", cycle) == count
        assert array.js("look.walk.doing(g[0])", cycle) == doing_at(walk, own)
        assert array.js("look.walk.ofRun(g[0])", cycle) == walk.cycle(own)
        states = array.js("[...elementStates(look.walk, g[0])]", cycle)
        assert sum(state >= 2 for state in states) == count
        assert array.js("look.walk.lastBegun(look.walk.enters, g[0])", cycle) == last_begun(walk.tiles.enters, own)
        assert array.js("look.walk.lastBegun(look.walk.moves_in, g[0])", cycle) == last_begun(walk.tiles.moves_in, own)
    array.js("look.go(g[0])", length // 2)
    tells(array, f"{walk.at_work(length // 2 + walk.first):,} of {64:,} elements multiply")
    array.js("look.go(g[0])", length)
    tells(array, f"tile {len(walk.tiles) - 1} ({len(walk.tiles)} of {len(walk.tiles)}): ")


@pytest.mark.test_all
def test_sums_that_stay_are_held_when_they_are_complete_and_not_before(chromium_browser: Browser):
    """Element by element, on an array that makes tiles of sums one after another."""
    machine = wb.machine("edge-8x8", dataflow="output_stationary", accumulator_residence="scratchpad")
    run = wb.trace(lambda a, b: a @ b, torch.randn(20, 30), torch.randn(30, 12), machine=machine).simulated
    look = ArrayLook(lambda: run)
    with looked_at(chromium_browser, look, "createArray", EXPLAINING_SHEETS, "window.look?.walk") as seen:
        walk = array_walk(run.trace, seen.js("look.walk.header.span"))
        assert walk is not None and not walk.holds and len(walk.tiles) > 1
        tiles, i, j = walk.tiles, *np.indices((8, 8))
        for own in range(walk.first, walk.last, 7):
            expected = np.zeros((8, 8), int)
            for tile in np.flatnonzero(tiles.enters <= own):
                inside = (i < tiles.rows[tile]) & (j < tiles.columns[tile])
                entry = own - tiles.enters[tile] - i - j
                if own < tiles.out[tile]:
                    expected[inside & (entry >= tiles.streams[tile])] = 1
            for tile in np.flatnonzero(tiles.enters <= own):
                inside = (i < tiles.rows[tile]) & (j < tiles.columns[tile])
                entry = own - tiles.enters[tile] - i - j
                expected[inside & (entry >= 0) & (entry < tiles.streams[tile])] = 2
            found = np.array(seen.js("[...elementStates(look.walk, g[0])]", own - walk.first)).reshape(8, 8)
            assert (np.minimum(found, 2) == expected).all(), own


@pytest.mark.test_all
def test_an_array_is_scrubbed_stepped_and_played(array: Seen):
    array.page.locator("input[type=range]").focus()
    array.js("look.go(10)")
    array.page.keyboard.press("ArrowRight")
    array.page.wait_for_function("look.at === 11")
    array.page.get_by_role("button", name="the next tile").click()
    array.page.wait_for_function("look.at === look.walk.enters[1]")
    array.page.get_by_role("button", name="drain").click()
    array.page.wait_for_function("look.at === look.walk.enters.at(-1) + look.walk.streams.at(-1)")
    expect(array.page.locator("tr.now").last).to_have_text(re.compile("^drain"))
    array.page.get_by_role("button", name="play and stop").click()
    array.page.wait_for_function("look.at === look.walk.header.length")  # it stops by itself at the end
    expect(array.page.get_by_role("button", name="play and stop")).to_have_attribute("aria-pressed", "false")


@pytest.mark.test_all
def test_an_array_follows_the_selection_and_its_neighbours_are_a_press_away(array: Seen):
    trace = product().simulated.trace
    rows = matmuls(trace)
    array.choose(rows[3])
    array.page.wait_for_function(f"look.walk.header.span === {rows[3]}")
    after = next(row for row in rows[4:] if trace.unit[row] == trace.unit[rows[3]])
    array.page.get_by_role("button", name="the next matmul on this array").click()
    array.page.wait_for_function(f"look.walk.header.span === {after}")
    store = int(np.flatnonzero(trace.start > trace.start[rows[5]])[0])
    array.choose(store)
    expected = store if store in rows else [row for row in rows if trace.start[row] <= trace.start[store]][-1]
    array.page.wait_for_function(f"look.walk.header.span === {expected}")


@pytest.mark.test_all
def test_a_person_who_scrubs_an_array_ends_its_playing(array: Seen):
    play = array.page.get_by_role("button", name="play and stop")
    array.page.get_by_label("cycles a second").select_option("1")
    play.click()
    expect(play).to_have_attribute("aria-pressed", "true")
    array.page.get_by_label("cycle of the array").press("Home")
    expect(play).to_have_attribute("aria-pressed", "false")
    array.page.wait_for_function("look.at === 0")


class Held:
    """Numbers that are on their way to a page, and come when they are let go."""

    def __init__(self, seen: Seen) -> None:
        self._page, self._routes, self._holds = seen.page, list[Route](), True
        self._page.route("**/*.bin", self._take)

    def _take(self, route: Route) -> None:
        if self._holds:
            self._routes.append(route)
        else:
            route.continue_()

    def wait(self, count: int) -> None:
        becomes(lambda: self._page.evaluate("0") or len(self._routes), count)

    def let_go(self) -> None:
        """All that is held comes, and nothing is held any more."""
        self._holds = False
        for route in self._routes:
            with self._page.expect_response(route.request.url):
                route.continue_()
        settle(self._page)


def test_an_array_that_comes_late_is_not_shown_in_place_of_the_selected_one(array: Seen):
    now = array.js("look.walk.header.span")
    other = next(row for row in matmuls(product().simulated.trace) if row != now)
    held = Held(array)
    array.choose(other)
    held.wait(1)
    array.choose(now)
    held.let_go()
    assert array.js("look.walk.header.span") == now


@pytest.mark.test_all
def test_a_pipeline_that_comes_late_is_not_shown_in_place_of_the_selected_one(chromium_browser: Browser):
    run = two_cores().simulated
    rows = [int(np.flatnonzero(run.trace.launch == launch)[0]) for launch in (0, 1)]
    look = PipelineLook(lambda: run)
    with looked_at(chromium_browser, look, "createPipeline", EXPLAINING_SHEETS, "window.look?.state.view") as seen:
        assert seen.js("look.state.view.header.launch") == 0
        held = Held(seen)
        seen.choose(rows[1])
        held.wait(1)
        seen.choose(rows[0])
        held.let_go()
        becomes(lambda: seen.js("look.state.view.header.launch"), 0)
        expect(seen.page.locator(".ex-top b")).to_contain_text(run.scheduled.launches.launches[0].name)


@pytest.mark.test_all
def test_a_text_of_another_kernel_that_comes_late_is_not_taken_for_one_of_this(chromium_browser: Browser):
    first, second = two_cores().scheduled.kernels[:2]
    look = PassesLook(lambda: [kernel.passes.trace for kernel in (first, second)], None)
    text = [number for number, each in enumerate(first.passes) if each.changes][2]  # that before the third change
    ready = "document.querySelector('.ex-diff .l')"
    with looked_at(chromium_browser, look, "createPasses", EXPLAINING_SHEETS, ready) as seen:
        page = seen.page
        page.evaluate("() => { window.held = new Promise((go) => (window.letGo = go)); }")
        page.locator(f".ex-row[data-pass='{text}']").click()
        becomes(lambda: seen.js("heard.at(-1)[0]"), "diff")
        page.evaluate("() => { delete window.held; }")
        page.get_by_label("kernel", exact=True).select_option(second.name)
        expect(page.locator(".ex-row[aria-current=true]")).not_to_have_attribute("data-pass", str(text))
        page.evaluate("() => window.letGo()")
        page.locator(".ex-quiet button").first.click()
        page.get_by_role("button", name="whole text after").click()
        page.locator(f".ex-row[data-pass='{text - 1}'] .ex-name").click()
        page.wait_for_function(f"document.querySelector('.ex-pass b').textContent.startsWith('{text} of')")
        expect(page.locator(".ex-diff")).to_contain_text(f"@{second.name}(")


@pytest.mark.test_all
def test_a_bar_of_a_pipeline_says_what_the_spans_say(pipeline: Seen):
    view = product().simulated.pipeline(0)
    spans = view.spans
    pipeline.page.locator("canvas").focus()
    for press in range(len(spans)):
        pipeline.page.keyboard.press("ArrowRight")
        row = spans.iloc[press]
        facts = [f"span {row.span} ({row.kind} on {row.unit})", row.reason]
        facts += [f"{row.begin:,} to {row.end:,}", f"{row.waited:,} cycles after"]
        if row.stage in ("load", "store"):
            facts.append(f"{row.hidden:,} of {row.cycles:,} cycles")
        for fact in facts:
            tells(pipeline, fact)
        if press > 30:
            break
    becomes(lambda: pipeline.js("picked"), list(spans.span[: press + 1]))


@pytest.mark.test_all
def test_a_press_on_a_bar_selects_it_and_a_selection_frames_its_bar(pipeline: Seen):
    for index in (0, 2):
        box = pipeline.js("look.state.boxes[g[0]]", index)
        at = {"x": box["left"] + box["wide"] / 2, "y": box["top"] + box["high"] / 2}
        before = len(pipeline.js("picked"))
        pipeline.page.locator("canvas").click(position=at)
        becomes(lambda: len(pipeline.js("picked")), before + 1)
        over = "b.left <= g[0] && g[0] <= b.left + b.wide && b.top <= g[1] && g[1] <= b.top + b.high"
        spans = "map(b => look.state.view.span[b.place])"
        covered = pipeline.js(f"look.state.boxes.filter(b => {over}).{spans}", at["x"], at["y"])
        assert pipeline.js("picked.at(-1)") in covered
    last = int(product().simulated.pipeline(0).spans.span.iloc[-1])
    pipeline.choose(last)
    becomes(lambda: pipeline.js("look.state.view.span[look.state.active]"), last)
    assert pipeline.js("picked").count(last) == 0  # who follows tells nobody
    by_slots = pipeline.page.get_by_role("button", name="by slots")
    by_slots.click()
    expect(by_slots).to_have_attribute("aria-pressed", "true")
    pipeline.settle()
    tops = pipeline.js("look.state.boxes.map(b => Math.floor(b.top / 32))")
    assert set(tops) <= set(range(len(pipeline.js("look.state.view.header.slots"))))
    pipeline.page.get_by_label("rows: iterations of").select_option("i0")
    pipeline.page.wait_for_function("look.state.view.header.loops.length === 1")


@pytest.mark.test_all
def test_passes_are_listed_folded_found_and_pinned(passes: Seen):
    kernel, page = softmax().scheduled.kernels[0], passes.page
    changing = [each.name for each in kernel.passes if each.changes]
    names = page.locator(".ex-row[data-pass] .ex-name")
    becomes(names.all_inner_texts, changing)
    quiet = [each.name for each in kernel.passes if not each.changes]
    assert all(any(name in text for text in page.locator(".ex-quiet").all_inner_texts()) for name in quiet)
    page.locator(".ex-quiet button").first.click()
    becomes(names.all_inner_texts, [each.name for each in kernel.passes])
    page.get_by_label("search passes").fill("bufferize")
    found = [each for each in kernel.passes if "bufferize" in f"{each.name} {each.pipeline} {each.source}".lower()]
    becomes(names.all_inner_texts, [each.name for each in found])
    page.get_by_label("search passes").fill("")
    becomes(names.all_inner_texts, [each.name for each in kernel.passes])
    page.get_by_label("pin the text of the rendered kernel").click()
    page.get_by_label(f"pin the text of {kernel.passes[-1].name}").click()
    page.wait_for_function("document.querySelector('.ex-pass b').textContent.includes(' and ')")
    diff = kernel.passes.between(0, len(kernel.passes)).diff
    assert diff is not None
    expect(page.locator(".ex-diff .l.plus")).to_have_count(diff.added)
    expect(page.locator(".ex-diff .l.minus")).to_have_count(diff.removed)
    numbers_of = "l => [l.className, ...[...l.querySelectorAll('.n')].map(n => n.dataset.n)]"
    lines = passes.js(f"[...document.querySelectorAll('.ex-diff .l')].map({numbers_of})")
    for place in (1, 2):  # those before in a column, those after in the next, each in order
        numbers = [int(line[place]) for line in lines if line[place].isdigit()]
        assert numbers == sorted(set(numbers)) and numbers
    assert all(not line[2 if "minus" in line[0] else 1] for line in lines if {"plus", "minus"} & {*line[0].split()})
    page.get_by_role("button", name="side by side").click()
    page.wait_for_function("document.querySelector('.ex-diff.both')")
    left, right = (page.locator(".ex-diff .code").nth(side).locator(".l").count() for side in (0, 1))
    assert left == right


@pytest.mark.test_all
def test_lines_between_passes_are_lines_of_the_lab(passes: Seen):
    kernel, page = softmax().scheduled.kernels[0], passes.page
    for number, each in enumerate(kernel.passes):
        if not each.changes:
            continue
        page.locator(f".ex-row[data-pass='{number}']").click()
        page.get_by_role("button", name="whole text after").click()
        page.wait_for_function(f"document.querySelector('.ex-pass b').textContent.startsWith('{number + 1} of')")
        page.wait_for_function(
            f"document.querySelectorAll('.ex-diff .l').length === {len(kernel.passes.lines(number + 1))}"
        )
        for name in ("rendered", "scheduled"):
            lines = kernel.passes.lines(number + 1)
            wanted = {int(row.line): int(line) for _, row in lines.iterrows() if (line := row[f"{name}_line"])}
            found = passes.js(
                "[...document.querySelectorAll('.ex-diff .l')].map((l, n) => [n + 1, l.dataset[g[0]]])", name
            )
            assert {line: int(row) for line, row in found if row} == wanted  # one kernel: its title is row 0
    page.locator(".ex-diff .l.k").last.click()
    page.wait_for_function("pickedFrom.length === 1")
    row, name = passes.page.evaluate("() => pickedFrom.at(-1)")
    assert name == "scheduled" and row in wanted.values()
    passes.page.evaluate("row => { rows = { scheduled: [row] }; look.selected(); }", row)
    expect(passes.page.locator(".ex-diff .l.s")).not_to_have_count(0)


@pytest.mark.test_all
@pytest.mark.parametrize("name", ["array", "pipeline", "passes"])
def test_readers_with_aids_find_no_fault_and_it_lets_go_of_all(name: str, request: pytest.FixtureRequest):
    seen: Seen = request.getfixturevalue(name)
    for theme in ("true", "false"):
        seen.page.evaluate("theme => { document.body.dataset.jpThemeLight = theme; }", theme)
        seen.settle()
        found = Axe().run(seen.page, context="#host").response["violations"]
        assert [each["id"] for each in found] == []
    seen.page.set_viewport_size({"width": 760, "height": 900})
    seen.page.wait_for_function("innerWidth === 760 && document.documentElement.scrollWidth <= 760")
    seen.page.evaluate("() => life.abort()")


@pytest.mark.test_all
def test_a_run_without_a_matmul_says_so(chromium_browser: Browser):
    look = ArrayLook(lambda: softmax().simulated)
    ready = "document.querySelector('.wb-array p')?.textContent.includes('it has no matmul')"
    with looked_at(chromium_browser, look, "createArray", EXPLAINING_SHEETS, ready) as seen:
        seen.choose(0)
        expect(seen.page.locator("canvas").first).to_be_hidden()
