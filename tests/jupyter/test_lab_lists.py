"""The lab's lists while they are out of sight: what is selected then is in sight when they are back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, Page, expect
from torch import nn

import workbench as wb
from tests.browser.lab import becomes
from tests.jupyter.live import widget_page
from tests.jupyter.timelines import NORMS_APART
from workbench.jupyter.widgets.stepper_widget import Stepper

_LONG = ("rendered", "scheduled", "instructions", "spans")
_IN_SIGHT = """names => names.map(name => {
    const box = document.querySelector(`.list.of-${name}`), { top, bottom } = box.getBoundingClientRect();
    return [...box.querySelectorAll('.row.s')].some(row => {
        const middle = row.getBoundingClientRect().top + 10;
        return middle > top && middle < bottom;
    });
})"""


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(96, 128), nn.GELU(), nn.Linear(128, 96), nn.Softmax(1))
    return wb.trace(model, torch.randn(64, 96), machine="edge-8x8", fusion=NORMS_APART)


@pytest.fixture
def lab(journey: wb.Journey, chromium_browser: Browser) -> Iterator[tuple[Page, Stepper]]:
    journey.selection.select(None)
    widget = journey.widget()
    assert isinstance(widget, Stepper)
    with widget_page(chromium_browser, widget, ".list.of-spans .row") as page:
        yield page, widget


def seen(page: Page) -> list[bool]:
    return page.evaluate(_IN_SIGHT, list(_LONG))


@pytest.mark.test_all
def test_what_was_selected_while_one_stage_stood_alone_is_in_sight_afterwards(lab: tuple[Page, Stepper]):
    page, widget = lab
    page.get_by_role("button", name="show Capture alone").click()
    widget.selection = "k2"
    page.locator(".what", has_text="k2").wait_for()
    page.get_by_role("button", name="show all stages").first.click()
    becomes(lambda: seen(page), [True] * len(_LONG))


@pytest.mark.test_all
@pytest.mark.parametrize("way", ["hidden", "taken out"])
def test_a_lab_that_was_out_of_sight_is_as_it_was(lab: tuple[Page, Stepper], way: str):
    page, widget = lab
    widget.selection = "k2"
    becomes(lambda: seen(page), [True] * len(_LONG))
    tops = "() => [...document.querySelectorAll('.list')].map(each => each.scrollTop)"
    before = page.evaluate(tops)
    gone = "host.style.display = 'none'" if way == "hidden" else "host.replaceChildren()"
    back = "host.style.display = ''" if way == "hidden" else "host.append(...kept)"
    page.evaluate(
        "async () => {const host = document.querySelector('#host'), kept = [...host.children];"
        f"{gone}; await new Promise(done => setTimeout(done, 200)); {back};}}"
    )
    becomes(lambda: page.evaluate(tops), before)
    becomes(lambda: seen(page), [True] * len(_LONG))
    widget.selection = "k0"
    becomes(lambda: seen(page), [True] * len(_LONG))


@pytest.mark.test_all
def test_what_is_selected_while_the_lab_is_hidden_is_in_sight_when_it_is_shown(lab: tuple[Page, Stepper]):
    page, widget = lab
    page.evaluate("document.querySelector('#host').style.display = 'none'")
    widget.selection = "k2"
    page.wait_for_function("document.querySelector('.what').textContent.includes('k2')")
    page.wait_for_timeout(200)
    page.evaluate("document.querySelector('#host').style.display = ''")
    becomes(lambda: seen(page), [True] * len(_LONG))


@pytest.mark.test_all
def test_the_field_is_cleared_when_something_else_is_selected(lab: tuple[Page, Stepper]):
    """But not what somebody is typing."""
    page, widget = lab
    field, what = page.get_by_label("select what j.select takes"), page.locator(".what b")
    field.fill("span 5")
    field.press("Enter")
    expect(what).to_have_text("span 5")
    expect(field).to_have_value("span 5")
    page.locator(".row.of-calls").first.click()
    expect(what).not_to_have_text("span 5")
    expect(field).to_have_value("")
    field.fill("span 7")
    field.press("Enter")
    expect(what).to_have_text("span 7")
    widget.selection = "k0"  # while the field has the focus, but nobody types
    expect(field).to_have_value("")
    field.fill("k")
    widget.selection = 3
    expect(what).to_have_text("span 3")
    expect(field).to_have_value("k")


@pytest.mark.test_all
def test_unit_cycles_say_what_they_are(lab: tuple[Page, Stepper]):
    page, widget = lab
    widget.selection = "k0"
    told = page.locator(".what [title]")
    expect(told).to_have_text(re.compile(r"^[\d,]+ unit cycles$"))
    expect(told).to_have_attribute("title", re.compile("counted each"))


def test_counts_of_lists_have_the_colour_of_text(lab: tuple[Page, Stepper]):
    """The colour of remarks is too faint on the ground of the heads."""
    colours = "all => [...new Set(all.map(each => getComputedStyle(each).color))]"
    ink = lab[0].locator(".panel .name").evaluate_all(colours)
    assert lab[0].locator(".panel .count").evaluate_all(colours) == ink
