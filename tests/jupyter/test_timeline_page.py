"""The timeline in a browser: what it draws, what is under the pointer, what it says and whom it tells."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import workbench as wb
from benchmarks.million import program
from simulator import Launched, Trace, load_machine, simulate
from simulator.analysis.slack import dependences
from simulator.tileprogram.program import Opcode
from tests.browser.lab import becomes, settle
from tests.jupyter.quiet_page import quiet_page
from tests.jupyter.served import page_files, served
from tests.jupyter.timelines import shared, softmax, two_cores
from workbench.explaining.views.timelines.columns import critical_columns, dependence_columns, timeline_columns
from workbench.explaining.views.timelines.gantt import NOTHING, Gantt
from workbench.explaining.views.timelines.timeline import gantt_of, on_critical_path
from workbench.explaining.views.timelines.timeline_questions import gap
from workbench.ground.basics.colours import DARK, LIGHT
from workbench.ground.errors import BadOption
from workbench.ir import Launch, Launches

RUNS = {"softmax": softmax, "two cores": two_cores, "shared": shared}


class Shown:
    """A page with the timeline of a run."""

    def __init__(self, page: Page, journey: wb.Journey) -> None:
        self.page, self.run = page, journey.simulated
        self.trace, self.view = self.run.trace, self.run.gantt()

    def js(self, text: str, *given: Any) -> Any:
        return self.page.evaluate(
            f"given => {{ const [t, g] = [window.shown.timeline, given]; return {text}; }}", given
        )

    def settle(self) -> None:
        """Until what was asked of frames is drawn."""
        settle(self.page)

    def heard(self, what: str) -> list[list[Any]]:
        return [each[1:] for each in self.page.evaluate("heard") if each[0] == what]

    def hears(self, what: str, *given: Any) -> None:
        """The latest that was told of a kind comes to be this."""
        becomes(lambda: self.heard(what)[-1:], [list(given)])

    def picked(self, count: int) -> int:
        """The span that was selected last, when so many have been."""
        becomes(lambda: len(self.heard("select")), count)
        return self.heard("select")[-1][0][0]

    def tells(self, *texts: str) -> None:
        """Below the lanes all of this comes to be said."""
        for text in texts:
            expect(self.page.locator(".tl-told")).to_contain_text(text, use_inner_text=True)

    def centre(self, row: int) -> tuple[float, float]:
        """Position of a span's work on the page."""
        x, y = self.js("(() => { const d = t.data, s = d.spanOf(g[0]), r = t.rows.find(r => r.lanes?.some(l => "
                       "l.number === d.laneOf(s))); return [((d.work[s] + d.end[s]) / 2 - t.window.begin) * t.scale, "
                       "r.top + r.bar / 2]; })()", row)  # fmt: skip
        box = self.page.locator(".tl-plot").bounding_box()
        assert box
        return box["x"] + x, box["y"] + y

    def click(self, row: int) -> None:
        self.page.mouse.click(*self.centre(row))

    def pixels(self) -> np.ndarray:
        return _pixels(self.page)

    def rows(self) -> list[dict[str, Any]]:
        return self.js("t.rows.map(r => ({kind: r.kind, top: r.top, bar: r.bar, lane: r.lanes?.[0].number}))")


def _pixels(page: Page) -> np.ndarray:
    """The lanes' canvas, as numbers."""
    text = page.evaluate("shown.timeline.canvases.lanes.toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text.partition(",")[2]))).convert("RGB")).astype(int)


@functools.cache
def files_of(name: str) -> dict[str, bytes]:
    run = RUNS[name]().simulated
    return page_files(
        {
            "timeline": timeline_columns(run.trace, run.scheduled.launches),
            "dependences": dependence_columns(run.trace),
            "critical": critical_columns(run.trace),
        }
    )


@pytest.fixture(params=RUNS)
def shown(request: pytest.FixtureRequest, chromium_browser: Browser) -> Iterator[Shown]:
    journey = RUNS[request.param]()
    with served(files_of(request.param)) as address, quiet_page(chromium_browser, height=1100) as page:
        made = Shown(page, journey)
        page.goto(address)
        page.wait_for_function("window.loaded")
        page.evaluate("async () => { window.opened = await block('timeline');"
                      "window.shown = createTimeline(host, opened, callbacks); }")  # fmt: skip
        page.wait_for_function("shown.timeline.width > 0")
        made.settle()
        yield made


@contextlib.contextmanager
def timeline_alone(browser: Browser, trace: Trace, launches: Launches) -> Iterator[Page]:
    """A small page with a timeline that nothing is told of."""
    files = page_files({"timeline": timeline_columns(trace, launches)})
    with served(files) as address, quiet_page(browser, width=900, height=700) as page:
        page.goto(address)
        page.wait_for_function("window.loaded")
        page.evaluate("async () => { window.shown = createTimeline(host, await block('timeline'), {}); }")
        page.wait_for_function("shown.timeline.width > 0")
        yield page


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_areas_gaps_and_searches_are_as_python_says(shown: Shown):
    draw, trace, view = random.Random(3), shown.trace, shown.view
    whole = trace.makespan
    for _ in range(25):
        begin, end = sorted(draw.sample(range(whole + 1), 2))
        lanes = draw.sample(range(len(view.lanes)), min(3, len(view.lanes)))
        expected = shown.run.area(begin, end, units=[view.lanes[lane].name for lane in lanes])
        for row, wanted in zip(shown.js("t.data.area(...g)", begin, end, lanes), expected.itertuples(), strict=True):
            assert (row["spans"], row["busy"], row["cycles"]) == (wanted.spans, wanted.busy_cycles, wanted.cycles)
            assert row["bytes"] == pytest.approx(wanted.bytes) and row["rate"] == pytest.approx(wanted.bytes_per_cycle)
    for _ in range(60):
        lane, cycle = draw.randrange(len(view.lanes)), draw.randrange(whole)
        found = shown.js("t.data.gap(...g)", lane, cycle)
        try:
            wanted = gap(trace, view.lanes[lane].name, cycle, shown.run.scheduled.launches)
        except BadOption:
            assert found is None
            continue
        assert (found["begin"], found["end"], found["cause"]) == (wanted.begin, wanted.end, wanted.cause)
        assert found["reason"] == wanted.reason
    typed = ["kind:vector"[:letters] for letters in range(1, 12)]
    for text in (
        "",
        "load",
        *typed,
        "kernel",
        "node",
        "unit",
        "k0 unit:dma0",
        "kernel:k3_",
        "node:softmax store",
        "nothing at all",
    ):
        marks = shown.js("(f => [...t.data.row].filter((_, s) => f.marks[s]))(t.data.search(g[0]))", text)
        assert sorted(marks) == shown.run.search(text).index.tolist(), text
    assert "no field knid:" in shown.js("t.data.search('knid:load').error")


@pytest.mark.test_all(but=1)
def test_a_span_says_its_own_kernel_and_the_equal_one_whose_program_it_runs(shown: Shown):
    launches = shown.run.scheduled.launches.launches
    for launch, each in enumerate(launches):
        span = shown.run.trace.rows_of(launch).start
        told = each.name if each.name == each.kernel else f"{each.name}, which runs the program of {each.kernel}"
        shown.js("t.pick(t.data.spanOf(g[0]), 'click')", span)
        expect(shown.page.locator(".tl-told dd").first).to_have_text(told)
    assert (shown.run.record is shared().simulated.record) == any(each.name != each.kernel for each in launches)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_shares_of_time_are_as_python_says(shown: Shown):
    """At every zoom, also where most columns hold no whole span."""
    view, draw = shown.view, random.Random(4)
    for _ in range(20):
        begin, end = sorted(draw.sample(range(view.makespan + 1), 2))
        lane, columns = draw.randrange(len(view.lanes)), draw.choice([7, 100, 500])
        edges = np.linspace(begin, end, columns + 1)
        for ours, theirs in (("busy", view.busy), ("held", _held_and_busy(view)), ("idle", view.idle)):
            found = shown.js(f"(s => [s.groups, [...s.shares(g[1], g[2], g[3], s.places(g[1], g[2], g[3]), 0, g[3])]])"
                             f"(t.data.{ours}[g[0]])", lane, begin, end, columns)  # fmt: skip
            shares = np.array(found[1]).reshape(found[0], columns)
            assert np.allclose(shares.sum(0), theirs(lane, edges).sum(0), atol=1e-5), ours


def _held_and_busy(view: Gantt) -> Any:
    return lambda lane, edges: view.busy(lane, edges) + view.held(lane, edges)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_every_span_is_under_the_pointer_where_it_is_drawn(shown: Shown):
    wide = [row for row in range(len(shown.trace)) if shown.trace.busy_cycles[row] * shown.js("t.scale") > 3]
    assert wide
    for row in random.Random(5).sample(wide, min(6, len(wide))):
        shown.click(row)
        shown.hears("select", [row], "click")
        span = shown.run.events.iloc[row]
        slack = "none: the run waits for it" if span.slack == 0 else f"could start {span.slack:,} cycle"
        shown.tells(f"span {row}: {span.kind} on {span.unit}", span.kernel, slack)


@pytest.mark.sweep(one_in=3)
def test_bars_have_the_colours_of_their_kinds_in_both_themes(shown: Shown):
    for theme, style in (("true", LIGHT), ("false", DARK)):
        shown.page.evaluate("theme => { document.body.dataset.jpThemeLight = theme; }", theme)
        becomes(lambda: _colours_missed(shown, style.kinds), [])  # noqa: B023
        assert shown.pixels().shape[1] == shown.js("t.width")


def _colours_missed(shown: Shown, kinds: Mapping[str, str]) -> list[tuple[str, int]]:
    """Colours of kinds that have a bar wide enough to see and are not to be seen, and the lanes that lack them."""
    view, image, scale, missed = shown.view, shown.pixels(), shown.js("t.scale"), list[tuple[str, int]]()
    for row in shown.rows():
        if row["kind"] != "lane":
            continue
        lane, part = image[row["top"] : row["top"] + row["bar"]], view.of_lane(row["lane"])
        long = (view.end[part] - view.work_start[part]) * scale > 6
        for kind in np.unique(view.kind[part][long]):
            colour = kinds[view.kinds[kind]]
            wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
            if not (abs(lane - wanted).sum(2) < 6).any():
                missed.append((colour, row["lane"]))
    return missed


@pytest.mark.test_all
def test_a_crowded_lane_is_as_high_as_the_share_of_time(chromium_browser: Browser):
    """Spans narrower than pixels: the amount of ink is the time that they take."""
    trace = simulate([Launched("long", program(24_000), (0, 1 << 30))], load_machine("tpu-v3"))
    launches = Launches((Launch("long", "long", ("x", "out"), (0, 1 << 30), (), ("node",)),), 0, ())
    with timeline_alone(chromium_browser, trace, launches) as page:
        page.evaluate("() => { shown.show(0, shown.timeline.whole); }")
        settle(page)
        image = _pixels(page)
        view = gantt_of(trace)
        for row in page.evaluate("shown.timeline.rows"):
            lane = row["lanes"][0]["number"]
            box = image[row["top"] : row["top"] + row["bar"]]
            ink = (abs(box - box[0]).sum(2) > 24).mean()  # the upper edge of no lane is ever reached
            busy = view.lanes[lane].busy
            assert ink == pytest.approx(busy, abs=1.5 / row["bar"]), row


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_idle_time_is_explained_where_it_is_clicked(shown: Shown):
    idle = shown.view.idle_time
    longest = int(np.argmax(np.where(shown.view.start.max() > idle.start, idle.end - idle.start, 0)))
    lane, middle = int(idle.lane[longest]), int(idle.start[longest] + idle.end[longest]) // 2
    unit = shown.view.lanes[lane].name
    row = next(each for each in shown.rows() if each["lane"] == lane)
    box = shown.page.locator(".tl-plot").bounding_box()
    assert box
    shown.page.mouse.click(box["x"] + middle * shown.js("t.scale"), box["y"] + row["top"] + row["bar"] / 2)
    wanted = gap(shown.trace, unit, middle)
    shown.tells(wanted.reason[1:], f"{wanted.begin:,} to {wanted.end:,}")
    becomes(lambda: [each[0] for each in shown.heard("gap")], [unit])
    ((_, asked),) = shown.heard("gap")
    assert abs(asked - middle) <= 1 / shown.js("t.scale") + 1
    shown.page.get_by_text("the span that waited").click()
    shown.hears("select", [wanted.next_span], "link")


@pytest.mark.test_all
@pytest.mark.sweep(one_in=3)
def test_a_drag_with_shift_measures_between_borders_of_spans(shown: Shown):
    row = int(np.argmax(shown.trace.end - shown.trace.start))
    (x, y), half = shown.centre(row), shown.js("t.scale") * int(shown.trace.busy_cycles[row]) / 2
    shown.page.keyboard.down("Shift")
    shown.page.mouse.move(x + half - 3, y)
    shown.page.mouse.down()
    shown.page.mouse.move(x, y, steps=3)
    shown.page.mouse.move(x - half + 3, y, steps=3)
    shown.page.mouse.up()
    shown.page.keyboard.up("Shift")
    becomes(lambda: len(shown.heard("area")), 1)
    ((begin, end, units),) = shown.heard("area")
    assert units == [shown.trace.unit_names[shown.trace.unit[row]]]
    assert end == shown.trace.end[row] and begin in {
        shown.trace.start[row],
        shown.trace.end[row] - shown.trace.busy_cycles[row],
    }
    found = shown.run.area(begin, end, units=units).iloc[0]
    shown.tells(f"{found.spans}", f"{found.busy_cycles:,} cycles")


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
def test_arrows_are_the_dependences_with_their_room(shown: Shown):
    found = dependences(shown.trace)
    row = int(np.bincount(found.later).argmax())
    shown.page.evaluate("row => shown.select([row])", row)
    shown.page.wait_for_function("shown.timeline.seen.arrows.length > 0")
    arrows = shown.js("t.seen.arrows.map(a => [t.data.row[a.from], t.data.row[a.to], a.room])")
    edges = zip(found.earlier.tolist(), found.later.tolist(), found.room.tolist(), strict=True)
    assert sorted(map(tuple, arrows)) == sorted(edge for edge in edges if row in edge[:2])
    shown.page.wait_for_function(
        "() => { const c = shown.timeline.canvases.over; "
        "return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean); }"
    )
    assert shown.heard("select") == []


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_the_critical_path_and_a_search_leave_the_rest_faint(shown: Shown):
    shown.page.locator("button[title^='show the critical path']").click()
    shown.page.wait_for_function("shown.timeline.filters.critical")
    clear = "[...t.data.row].filter((_, s) => t.data.shown[s] !== t.data.other)"
    becomes(lambda: sorted(shown.js(clear)), list(on_critical_path(shown.trace)))
    shown.page.fill("input[type=search]", "kind:vector")
    both = sorted(set(on_critical_path(shown.trace)) & set(shown.run.search("kind:vector").index))
    becomes(lambda: sorted(shown.js(clear)), both)
    shown.page.keyboard.press("Enter")
    assert shown.run.events.kind[shown.picked(1)] == "VECTOR"
    shown.page.keyboard.press("Escape")


_LENGTH = "shown.timeline.window.end - shown.timeline.window.begin"
"""Cycles in view."""


@pytest.mark.test_all
@pytest.mark.sweep(one_in=3)
def test_keys_go_from_span_to_span_and_through_time(shown: Shown):
    shown.page.locator(".tl-plot canvas").last.focus()
    keys = shown.page.keyboard
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    first = shown.picked(2)
    lane = shown.trace.unit[first]
    order = sorted(np.flatnonzero(shown.trace.unit == lane), key=lambda row: shown.trace.start[row])
    assert first == order[min(1, len(order) - 1)]
    keys.press("ArrowDown")
    row = shown.picked(3)
    assert shown.trace.unit[row] > lane
    keys.press("f")
    shown.page.wait_for_function(f"{_LENGTH} < {shown.trace.makespan}")
    assert shown.js("t.window.begin") <= shown.trace.start[row] and shown.js("t.window.end") >= shown.trace.end[row]
    before = shown.page.evaluate(_LENGTH)
    keys.press("s")
    shown.page.wait_for_function(f"{_LENGTH} > {before}")
    keys.press("0")
    becomes(lambda: shown.js("t.window"), {"begin": 0, "end": shown.trace.makespan})
    keys.press("Escape")
    shown.hears("select", [], "click")


@pytest.mark.test_all
@pytest.mark.sweep(one_in=3)
def test_the_wheel_zooms_with_ctrl_at_the_pointer_and_else_scrolls_the_page(shown: Shown):
    row = int(np.argmax(shown.trace.end - shown.trace.start))
    x, y = map(round, shown.centre(row))  # a browser tells whole pixels
    shown.page.mouse.move(x, y)
    shown.page.evaluate("() => { window.wheels = 0; addEventListener('wheel', () => wheels++); }")
    shown.page.mouse.wheel(0, -100)
    shown.page.wait_for_function("wheels > 0")
    shown.settle()
    assert shown.js("t.window") == {"begin": 0, "end": shown.trace.makespan}
    moment = shown.js("t.momentAt(g[0] - t.canvases.over.getBoundingClientRect().left)", x)
    shown.page.keyboard.down("Control")
    shown.page.mouse.wheel(0, -100)
    shown.page.wait_for_function(f"{_LENGTH} < {shown.trace.makespan}")
    shown.page.keyboard.up("Control")
    assert shown.js("t.momentAt(g[0] - t.canvases.over.getBoundingClientRect().left)", x) == pytest.approx(moment)
    begin = shown.js("t.window.begin")
    shown.page.mouse.down()
    shown.page.mouse.move(x - 40, y, steps=4)
    shown.page.mouse.up()
    becomes(lambda: shown.js("t.window.begin"), pytest.approx(begin + 40 / shown.js("t.scale")))
    assert not shown.heard("select")


@pytest.mark.sweep(one_in=3)
def test_two_fingers_zoom_and_one_drags(shown: Shown):
    box = shown.page.locator(".tl-plot canvas[role='img']").first.bounding_box()
    assert box
    fingers = shown.page.context.new_cdp_session(shown.page)
    fingers.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    middle, y = box["x"] + box["width"] / 2, box["y"] + 20

    def touch(kind: str, *places: float) -> None:
        points = [{"x": x, "y": y, "id": number} for number, x in enumerate(places)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", middle - 50, middle + 50)
    for apart in (60, 80, 100):
        touch("touchMove", middle - apart, middle + apart)
    touch("touchEnd")
    becomes(lambda: shown.page.evaluate(_LENGTH), pytest.approx(shown.trace.makespan / 2, rel=0.05))
    shown.settle()
    window = shown.js("t.window")
    touch("touchStart", middle)
    for further in (20, 40):
        touch("touchMove", middle - further)
    touch("touchEnd")
    shown.page.wait_for_function(f"shown.timeline.window.begin > {window['begin']}")
    moved = shown.js("t.window")
    assert moved["end"] - moved["begin"] == pytest.approx(window["end"] - window["begin"])
    fingers.detach()


def _write_down_texts(page: Page) -> None:
    """Collects the texts of all canvases from now on in `texts`."""
    page.evaluate(
        """() => {
            const write = CanvasRenderingContext2D.prototype.fillText;
            window.texts = [];
            CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
                texts.push(text);
                return write.call(this, text, ...place);
            };
        }"""
    )


def _around(shown: Shown, row: int) -> list[int]:
    length = int(shown.trace.end[row] - shown.trace.start[row])
    return [int(shown.trace.start[row]) - length // 4, int(shown.trace.end[row]) + length // 4]


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_every_time_says_its_unit(shown: Shown):
    shown.page.evaluate("shown.select([0])")
    shown.page.locator("details.tl-table summary").click()
    for unit, other in (("cycles", "ns"), ("ns", "cycles")):
        shown.page.select_option("select", unit)
        heads = shown.page.locator(".tl-table th")
        wanted = {f"start, {unit}", f"end, {unit}", unit}
        becomes(lambda: wanted - set(heads.all_inner_texts()), set())  # noqa: B023
        shown.tells(f"{unit} ")
        assert f" {other}" not in shown.page.locator(".tl-told").inner_text().replace("rows", "")
        expect(shown.page.locator(".tl-side").last).to_have_text(unit)
    _write_down_texts(shown.page)
    row = int(np.argmax(shown.trace.busy_cycles * (shown.trace.kind != Opcode.BARRIER)))
    kind, cycles = shown.run.events.kind[row], int(shown.trace.busy_cycles[row])
    for unit, number in (("ns", shown.trace.machine.microseconds(cycles) * 1e3), ("cycles", cycles)):
        shown.page.select_option("select", unit)
        shown.page.evaluate("([begin, end]) => { texts.length = 0; shown.show(begin, end); }", _around(shown, row))
        shown.page.wait_for_function("text => texts.includes(text)", arg=f"{kind} {number:,.1f}".removesuffix(".0"))
    shown.page.select_option("select", "ns")
    nanoseconds = f"{shown.trace.machine.microseconds(int(shown.trace.start[0])) * 1e3:,.1f}".removesuffix(".0")
    shown.tells(nanoseconds)


@pytest.mark.test_all
def test_a_core_and_the_memory_fold_into_one_row(shown: Shown):
    folds = shown.page.locator(".tl-fold")
    count = 3 if shown.trace.machine.core.count == 2 else 0
    expect(folds).to_have_count(count)
    if count:
        before = len(shown.rows())
        folds.first.click()
        own = sum(lane.name.startswith("core0.") for lane in shown.view.lanes)
        becomes(lambda: len(shown.rows()), before - own + 1)
        row = int(np.flatnonzero(shown.trace.core == 0)[0])
        shown.page.evaluate("row => shown.select([row])", row)
        becomes(lambda: len(shown.rows()), before)
        folds.last.click()
        channels = len(shown.trace.channel_bytes)
        becomes(lambda: sum(each["kind"] == "channel" for each in shown.rows()), channels)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=3)
def test_axe_finds_nothing_whatever_is_told(shown: Shown):
    """Nothing is picked, a span, idle time, an area; the table and the keys are open."""
    for summary in shown.page.locator("summary").all():
        summary.click()
    expect(shown.page.locator(".tl-table th")).not_to_have_count(0)
    expect(shown.page.locator(".tl-keys dt").first).to_be_visible()
    longest = int(np.argmax(shown.view.idle_time.end - shown.view.idle_time.start))
    lane, cycle = int(shown.view.idle_time.lane[longest]), int(shown.view.idle_time.start[longest])
    told = (
        "shown.select([])",
        "shown.select([1])",
        f"shown.timeline.pickGap(shown.timeline.data.gap({lane}, {cycle}), {cycle})",
        "shown.timeline.measure(0, shown.timeline.whole, [0, 1], false, true)",
    )
    for dark in (False, True):
        shown.page.evaluate("dark => { document.body.dataset.jpThemeLight = !dark; }", dark)
        for each in told:
            shown.page.evaluate(f"() => {{ {each}; }}")
            shown.settle()
            found = (
                Axe().run(shown.page, context="#host", options={"resultTypes": ["violations"]}).response["violations"]
            )
            assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found] == [], each


@pytest.mark.test_all
@pytest.mark.sweep(one_in=3)
def test_two_timelines_show_the_same_time(shown: Shown):
    shown.page.evaluate(
        """() => {
            shown.destroy();
            window.both = createTimelines(host, [opened, opened], ["a", "b"], [{}, {}]);
            window.shown = both[0];
        }"""
    )
    shown.page.wait_for_function("both.every(each => each.timeline.width > 0)")
    shown.page.locator(".tl-tools").first.get_by_label("zoom in").click()
    shown.page.wait_for_function(f"{_LENGTH} < {shown.trace.makespan}")
    one, other = shown.page.evaluate("both.map(each => each.timeline.window)")
    assert one == other
    shown.page.locator("select").first.select_option("ns")
    expect(shown.page.locator("select").last).to_have_value("ns")
    shown.page.evaluate("both.forEach(each => each.destroy())")


@pytest.mark.test_all
def test_a_run_of_nothing_says_so(chromium_browser: Browser):
    run = wb.trace(lambda x: x.t(), torch.randn(2, 3)).simulated
    with timeline_alone(chromium_browser, run.trace, run.scheduled.launches) as page:
        page.locator(".tl-plot canvas").last.focus()
        for key in ("ArrowRight", "ArrowDown", "w", "g", "f", "n", "c", "Escape"):
            page.keyboard.press(key)
        expect(page.locator(".tl-told")).to_contain_text(NOTHING)


@pytest.mark.sweep(one_in=3)
def test_nothing_is_left_of_a_timeline_that_was_closed(shown: Shown):
    gone = shown.page.evaluate(
        """async () => {
            const weak = new WeakRef(shown.timeline.data), made = shown.timeline;
            shown.destroy();
            window.shown = null;
            return [host.childElementCount, made.data, made.canvases.lanes.width];
        }"""
    )
    assert gone == [0, None, 0]
    shown.page.keyboard.press("ArrowRight")
    shown.page.set_viewport_size({"width": 900, "height": 700})
    shown.page.wait_for_function("innerWidth === 900")
    shown.settle()
    assert shown.heard("select") == []


@pytest.mark.sweep(one_in=3)
def test_what_the_search_suggests_is_not_cut_in_a_narrow_widget(shown: Shown):
    """632 pixels are left of a window of 800, and 608 within the lab: there all tools stand in one row."""
    shown.page.set_viewport_size({"width": 632, "height": 900})
    shown.settle()
    room = shown.page.locator(".tl-tools input").evaluate(
        """field => {
            const style = getComputedStyle(field), pen = document.createElement("canvas").getContext("2d");
            pen.font = `${style.fontSize} ${style.fontFamily}`;
            const inside = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
            return inside - pen.measureText(field.placeholder).width;
        }"""
    )
    assert room > 16  # and the cross that clears the field
    shown.page.set_viewport_size({"width": 608, "height": 900})
    shown.settle()
    middles = shown.page.locator(".tl-tools").evaluate(
        """tools => [...tools.children].filter(each => each.offsetHeight)
            .map(each => each.offsetTop + each.offsetHeight / 2)"""
    )
    assert max(middles) - min(middles) < 4
