"""The lab after its kernel has died: what was open stays, what is opened then says why it is empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect

import workbench as wb
from tests.jupyter.live import widget_page
from workbench.jupyter.widgets.stepper_widget import Stepper

VIEWS = ("findings", "memory", "array", "pipeline", "passes", "knobs")
SAID = "The kernel is gone: run the cell again, then open this view."


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return wb.trace(lambda a, b: a @ b, torch.randn(20, 30), torch.randn(30, 12), machine="edge-8x8")


@pytest.fixture
def lab(journey: wb.Journey, chromium_browser: Browser) -> Iterator[Page]:
    widget = journey.widget()
    assert isinstance(widget, Stepper)
    with widget_page(chromium_browser, widget, ".list.of-spans .row") as page:
        page.wait_for_selector(".tl-tools")
        yield page


def view(page: Page, name: str) -> Locator:
    return page.locator(f".look.of-{name}")


@pytest.mark.test_all
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_that_is_opened_without_a_kernel_says_so(lab: Page, name: str):
    lab.evaluate("die()")
    lab.locator(f"[data-look={name}]").click()
    expect(view(lab, name)).to_have_text(SAID)
    lab.locator(f"[data-look={name}]").click()
    lab.locator(f"[data-look={name}]").click()  # closed, and open again
    expect(view(lab, name)).to_have_text(SAID)


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_that_was_being_opened_when_the_kernel_went_says_so(lab: Page, name: str):
    lab.evaluate("name => { document.querySelector(`[data-look=${name}]`).click(); die(); }", name)
    expect(view(lab, name)).to_have_text(SAID)


@pytest.mark.test_all
def test_a_view_that_got_its_first_answer_and_no_other_says_so(lab: Page):
    """The kernel goes when the array has its list of matmuls and asks for the first of them."""
    lab.evaluate(
        """() => {
            const send = model.send;
            model.send = (content, ...rest) => content.ask === "array.walk" ? die() : send(content, ...rest);
            document.querySelector("[data-look=array]").click();
        }"""
    )
    expect(view(lab, "array")).to_have_text(SAID)


@pytest.mark.test_all
def test_a_view_that_has_what_it_shows_stays(lab: Page):
    lab.locator("[data-look=array]").click()
    title = view(lab, "array").locator("b").first
    expect(title).to_contain_text("MATMUL of")
    lab.evaluate("die()")
    lab.get_by_role("button", name="the next tile").click()
    expect(title).to_contain_text("MATMUL of")
