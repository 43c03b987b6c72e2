"""Checks that the lab gives its memory back: it is opened and closed over and over in JupyterLab in Chromium.

    python benchmarks/lab_closing.py [TIMES] [--json]

Each time (100) the lab of before is closed, with all stages of ResNet-18 made, and another one opened; a row is pressed
and one of the views below the timeline opened, in turn. Told are, after a tenth of the times and at the end, garbage
collected: the page's JavaScript heap, its nodes and listeners, and the resident memory of the kernel. JupyterLab itself
keeps 41 kB in the page for each run of a cell that shows an `ipywidgets.IntSlider`. The exit status is 1 when a closed
lab leaves more than 100 kB in the page or in Python, or a node for each of its rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from playwright.sync_api import CDPSession, Page

from tests.browser import chromium, lab

MODEL = """import gc, psutil, torch, workbench as wb
from workbench.models.resnet import resnet18
j = wb.trace(resnet18().eval(), torch.randn(1, 3, 64, 64))
w = None"""
OPEN = "w and w.close()\nw = j.widget()\nw"
RESIDENT = "gc.collect()\nprint(psutil.Process().memory_info().rss)"
MOST = {"heap": 100_000, "nodes": 100, "listeners": 100, "resident": 100_000}
"""The most that a closed lab may leave."""

_OPEN_AND_PRESS = """async turn => {
    for (const old of document.querySelectorAll('.wb-lab')) old.classList.add('old');
    jupyterapp.shell.currentWidget.content.activeCellIndex = 1;
    await jupyterapp.commands.execute('notebook:run-cell');
    const row = '.wb-lab:not(.old) .list.of-spans .row';
    while (!document.querySelector(row)) await new Promise(done => setTimeout(done, 10));
    document.querySelector(row).click();
    const views = document.querySelectorAll('.wb-lab:not(.old) .looks button');
    views[turn % views.length].click();
    await new Promise(done => setTimeout(done, 300));
    return views.length;
}"""


def held(page: Page, session: CDPSession) -> dict[str, int]:
    """The memory that the page and its kernel hold, garbage collected."""
    for _ in range(3):  # what a finished collection frees may hold more
        session.send("HeapProfiler.collectGarbage")
        page.wait_for_timeout(300)
    counts = session.send("Memory.getDOMCounters")
    return {
        "heap": int(session.send("Runtime.getHeapUsage")["usedSize"]),
        "nodes": counts["nodes"],
        "listeners": counts["jsEventListeners"],
        "resident": int(lab.ask_python(page, RESIDENT)),
    }


def measured(page: Page, times: int) -> list[dict[str, int]]:
    session = page.context.new_cdp_session(page)
    found = list[dict[str, int]]()
    for turn in range(times):
        assert page.evaluate(_OPEN_AND_PRESS, turn) == 6, "every view is opened in turn"
        if turn + 1 in (max(times // 10, 6), times):
            found.append(held(page, session))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", nargs="?", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if chromium.executable() is None:
        raise SystemExit(chromium.MISSING)
    if options.times < 12:
        raise SystemExit("at least 12 times: every view is opened once before anything is measured")
    with (
        tempfile.TemporaryDirectory() as scratch,
        tempfile.TemporaryDirectory() as folder,
        lab.server(Path(folder), Path(scratch)) as server,
        lab.browser() as browser,
        lab.opened(browser, server, Path(folder) / "closing.ipynb", [MODEL, OPEN]) as opened,
    ):
        first, last = measured(opened.page, options.times)
        errors = opened.errors
    since = options.times - max(options.times // 10, 6)
    each = {name: (last[name] - first[name]) / since for name in first}
    if options.json:
        print(json.dumps({"first": first, "last": last, "each": each, "errors": errors}, indent=1))
    else:
        for name in first:
            print(f"{name:<10} {first[name]:>13,} then {last[name]:>13,}: {each[name]:>10,.1f} a time")
        print(f"{len(errors)} errors in the console", *errors, sep="\n")
    return int(bool(errors) or any(each[name] > most for name, most in MOST.items()))


if __name__ == "__main__":
    sys.exit(main())
