"""Tests that a control's name holds the words seen on it: people who speak to the browser say those.

WCAG 2.5.3, label in name, of every control of every widget, and of the HTML of views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page, expect

import workbench as wb
from tests.jupyter.live import widget_page
from tests.jupyter.quiet_page import quiet_page
from workbench.jupyter.widgets.widget_base import LabWidget

_CONTROLS = ", ".join(
    (
        *("button", "a[href]", "summary", "input", "select", "textarea"),
        *(f"[role={role}]" for role in ("button", "link", "option", "gridcell", "tab", "checkbox", "menuitem", "row")),
    )
)
_UNLIKE = """controls => {
    const words = text => (text.toLowerCase().match(/[\\p{L}\\p{N}]+/gu) ?? []).join(" ");
    return [...document.querySelectorAll(controls)]
        .filter(each => each.hasAttribute("aria-label") && each.checkVisibility())
        .flatMap(each => {
            const field = each.matches("input, select, textarea");
            const seen = field ? [...each.labels ?? []].map(label => label.innerText).join(" ") : each.innerText;
            const name = each.getAttribute("aria-label");
            const fits = !words(seen) || ` ${words(name)} `.includes(` ${words(seen)} `);
            return fits ? [] : [`${seen}: is called ${name}`];
        });
}"""


@cache
def journey() -> wb.Journey:
    """Two kernels with findings, one with a matmul; its numbers are checked."""
    made = wb.trace(lambda a, b: torch.softmax(a @ b, 1), torch.randn(64, 64), torch.randn(64, 256))
    assert made.check()
    return made


def unlike(page: Page) -> list[str]:
    """Controls whose name lacks the words on them."""
    return page.evaluate(_UNLIKE, _CONTROLS)


def whole_lab(page: Page) -> Iterator[str]:
    """Each view of the lab that can be opened, one after another."""
    page.locator(".list.of-spans .row").nth(2).click()
    expect(page.locator(".tl-legend button").first).to_be_visible()
    expect(page.locator(".badge", has_text="right")).to_have_count(1)
    yield "lists and timeline"
    ready = {
        "Findings": ".fi-card button",
        "Scratchpad and tiles": ".mem-steps button",
        "Array": ".ex-controls button",
        "Pipeline": ".of-pipeline canvas",
        "Passes": ".ex-row button",
        "Knobs": ".kn-history button",
    }
    tabs = page.locator(".looks button")
    expect(tabs).to_have_text(list(ready))
    for name, shown in ready.items():
        tabs.get_by_text(name, exact=True).click()
        page.locator(shown).first.wait_for()
        yield name
    page.get_by_text("Map of mappings").click()
    page.get_by_role("button", name="Fill the map").click()
    page.locator(".kn-cell:not(:empty)").first.wait_for()
    yield "map"


def timeline(page: Page) -> Iterator[str]:
    """All of it, and a span with what it waits for."""
    page.locator(".tl-plot canvas").last.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.locator(".tl-title").first.wait_for()
    yield "timeline"


def comparison(page: Page) -> Iterator[str]:
    page.locator(".tl-tools button").first.wait_for()
    yield "comparison"


WIDGETS: dict[str, tuple[Callable[[], LabWidget], Callable[[Page], Iterator[str]]]] = {
    "lab": (lambda: journey().widget(), whole_lab),
    "timeline": (lambda: journey().simulated.widget(), timeline),
    "comparison": (lambda: wb.compare(journey(), journey().with_(machine="tpu-v4")).widget(), comparison),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", WIDGETS)
def test_a_control_is_called_what_is_seen_on_it(name: str, chromium_browser: Browser):
    make, steps = WIDGETS[name]
    with widget_page(chromium_browser, make(), height=1800) as page:
        assert {step: found for step in steps(page) if (found := unlike(page))} == {}


@pytest.mark.test_all
def test_so_is_what_can_be_pressed_in_a_recorded_page_and_in_views(chromium_browser: Browser, tmp_path: Path):
    journey().to_html(tmp_path / "lab.html", interactive=True)
    with quiet_page(chromium_browser, height=1800) as page:
        page.goto((tmp_path / "lab.html").as_uri())
        page.wait_for_selector(".wb-timeline canvas")
        page.locator(".looks button:text-is('Findings')").click()
        page.locator(".fi-card").first.wait_for()
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert unlike(page) == []
