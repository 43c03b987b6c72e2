"""Labs that are opened and closed leave next to nothing in the page; the full figures are those of
`benchmarks/lab_closing.py`, of which this is a tenth."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from benchmarks.lab_closing import MODEL, MOST, OPEN, measured
from tests.browser import lab

FRONTS = ("ours",)  # what a page keeps of an ES module is the browser's


@pytest.mark.test_all
def test_a_lab_that_is_closed_leaves_nothing_in_the_page(server: lab.Server, browser: BrowserContext, folder: Path):
    times = 14
    with lab.opened(browser, server, folder / "closing.ipynb", [MODEL.replace("64, 64", "32, 32"), OPEN]) as opened:
        first, last = measured(opened.page, times)
        modules = opened.page.evaluate("() => globalThis['aten-workbench modules'].size")
    assert modules == 1, "the module is imported once for all of them"
    assert opened.errors == []
    for name in ("heap", "nodes", "listeners"):  # of a few times the browser's own caches are a larger part
        assert (last[name] - first[name]) / (times - 6) < 4 * MOST[name], (name, first, last)
