"""Measures the lab's timeline with a million spans, in Chromium without a window on a page of its own.

    python benchmarks/lab_frames.py [--spans N] [--json]

The run is a simulated program (`million.py`). What is measured:

1. `pack`: seconds in which Python makes the columns, and their bytes.
2. `first_paint`: seconds from the columns being in the page to the frame that shows them: less than 0.5.
3. `fps`: frames a second while the view pans and zooms, a step each frame, and the longest frame: at least 55. Beside
   it `cpu_ms`, the milliseconds of the page's own thread that a frame takes, which tell more on a busy machine.
4. `heap`: bytes that the page holds with the timeline open: of JavaScript's heap, and of buffers, in which the columns
   lie.
5. `left`: what 100 times opening and closing leaves of both, beside one time: nothing that grows.

The exit status is 1 when a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

from million import program

from simulator import Launched, load_machine, simulate
from tests.browser import chromium
from tests.jupyter.served import page_files, served
from workbench.explaining.views.timelines.columns import Columns, timeline_columns
from workbench.ir import Launch, Launches

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

MOST_FIRST_PAINT, LEAST_FPS = 0.5, 55.0
MOST_GROWTH = 1e6
"""Bytes that 99 more openings may leave: less than a hundredth of one timeline's columns."""
CYCLES, FRAMES = 100, 180

_OPEN = """async () => {
    const began = performance.now();
    window.timeline = createTimeline(host, opened, {});
    await new Promise(requestAnimationFrame);  // its size is known
    await new Promise(requestAnimationFrame);  // it is drawn
    await new Promise(done => setTimeout(done));
    return (performance.now() - began) / 1000;
}"""

_MOVE = """async ([frames, kind]) => {
    const whole = opened.header.makespan, times = [];
    let last = 0;
    for (let frame = 0; frame <= frames; frame++) {
        const now = await new Promise(requestAnimationFrame);
        if (last) times.push(now - last);
        last = now;
        const part = kind === 'pan' ? 0.3 : Math.exp(-Math.abs(frame / frames * 2 - 1) * 9);
        const at = kind === 'pan' ? (whole - whole * part) * frame / frames : whole * 0.4 * (1 - part);
        timeline.show(at, at + whole * part);
    }
    return times;
}"""

_CLOSE_AND_OPEN = """async count => {
    for (let each = 0; each < count; each++) {
        timeline.destroy();
        window.timeline = createTimeline(host, opened, {});
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
    }
}"""


def columns(spans: int) -> tuple[Columns, dict[str, float]]:
    """The columns of a program so long, and what they took."""
    trace = simulate([Launched("long", program(spans), (0, 1 << 40))], load_machine("tpu-v3"))
    launches = Launches((Launch("long", "long", ("x", "out"), (0, 1 << 40), (), ("node",)),), 0, ())
    began = time.perf_counter()
    made = timeline_columns(trace, launches)
    seconds = time.perf_counter() - began
    return made, {"spans": len(trace), "pack_seconds": seconds, "column_bytes": len(made.data)}


def held(session: CDPSession) -> tuple[float, float]:
    """Bytes of JavaScript's heap and of buffers, of what is still reachable."""
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    return usage["usedSize"], usage["backingStorageSize"]


def thread_seconds(session: CDPSession) -> float:
    """Processor time of the page's thread so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "TaskDuration")


def measured(page: Page) -> dict[str, Any]:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate("async () => { window.opened = await block('timeline'); }")
    empty = held(session)
    found: dict[str, Any] = {"first_paint": page.evaluate(_OPEN)}
    for kind in ("pan", "zoom"):
        before = thread_seconds(session)
        times = page.evaluate(_MOVE, [FRAMES, kind])
        found[f"{kind}_cpu_ms"] = (thread_seconds(session) - before) / len(times) * 1e3
        found[f"{kind}_fps"], found[f"{kind}_longest_ms"] = len(times) / sum(times) * 1e3, max(times)
    opened = held(session)
    found["heap_bytes"], found["buffer_bytes"] = opened
    found["own_heap_bytes"], found["own_buffer_bytes"] = opened[0] - empty[0], opened[1] - empty[1]
    page.evaluate(_CLOSE_AND_OPEN, 1)
    once = held(session)
    page.evaluate(_CLOSE_AND_OPEN, CYCLES - 1)
    often = held(session)
    found["left_heap_bytes"], found["left_buffer_bytes"] = often[0] - once[0], often[1] - once[1]
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    made, found = columns(options.spans)
    with chromium.running() as browser, served(page_files({"timeline": made})) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        page.wait_for_function("window.loaded")
        found |= measured(page)
    print(json.dumps(found, indent=1) if options.json else "\n".join(f"{k:<20}{v:>16,.3f}" for k, v in found.items()))
    kept = found["first_paint"] < MOST_FIRST_PAINT and min(found["pan_fps"], found["zoom_fps"]) >= LEAST_FPS
    kept &= max(found["left_heap_bytes"], found["left_buffer_bytes"]) <= MOST_GROWTH
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
