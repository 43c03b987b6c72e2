"""The findings below the lab's timeline: those of `j.findings`, and trying one measures what `.tried()` does."""

from __future__ import annotations

import contextlib
import html
import re
import threading
from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, Page, expect

import workbench as wb
from tests.browser.lab import PATIENCE_SECONDS, becomes
from tests.jupyter.browserless import Front
from tests.jupyter.live import live, widget_page
from tests.jupyter.quiet_page import quiet_page
from tests.jupyter.timelines import NORMS_APART
from workbench.explaining.findings.findings_answer import Findings
from workbench.ground.basics.cards import Card
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.stepper_widget import Stepper


@pytest.fixture
def journey() -> wb.Journey:
    """A product and what it does not fuse with: findings of each kernel and of the whole, none of them tried yet."""
    return wb.trace(
        lambda a, b: torch.softmax(a @ b, 1), torch.randn(64, 64), torch.randn(64, 1024), fusion=NORMS_APART
    )


def opened(journey: wb.Journey) -> Front:
    widget = journey.widget()
    assert isinstance(widget, Stepper)
    return Front(widget)


def test_cards_are_the_rows_of_findings(journey: wb.Journey):
    front, found = opened(journey), journey.findings
    cards = front.answer("findings.open")["cards"]
    assert len(cards) == len(found) > 2
    for card, (_, row) in zip(cards, found.iterrows(), strict=True):
        assert card["kernel"] == row.kernel and tuple(card["spans"]) == row.spans
        assert row.rule in card["html"] and card["tries"] == bool(row.remedy)
    assert len({card["html"] for card in cards}) == len(cards)


def test_code_of_a_card_breaks_after_commas_dots_and_brackets_and_not_in_names_and_numbers():
    call = "j.with_(machine=j.machine.with_(launch_overhead_cycles=0.5), mapping={'k0': {'order': ('m','n')}})"
    (code,) = re.findall("<code>(.*)</code>", Card("r", "", "", "", "", 0, 1, call=call).html())
    parts = [html.unescape(part) for part in code.split("<wbr>")]
    assert "".join(parts) == call
    assert parts[:6] == ["j.", "with_(", "machine=j.", "machine.", "with_(", "launch_overhead_cycles=0.5), mapping={"]


def test_a_remedy_is_measured_as_tried_does(journey: wb.Journey):
    front, found = opened(journey), journey.findings
    row = next(number for number, remedy in enumerate(found.remedy) if remedy)
    card = front.answer("findings.measure", row=row)["card"]
    gain = found.tried().gain[row]
    assert f"measured: saves {gain:,} cycles" in card["html"] and not card["tries"]
    assert found.measured(row).measured == gain
    without = next(number for number, remedy in enumerate(found.remedy) if not remedy)
    assert "has no remedy to try" in front.ask("findings.measure", row=without)["error"]
    with pytest.raises(BadOption, match=r"measured\(99\): expected a row of the findings, 0 to "):
        found.measured(99)


def test_a_span_and_the_idle_time_after_the_last_one_come_with_the_findings_of_their_kernel(journey: wb.Journey):
    front, found, events = opened(journey), journey.findings, journey.simulated.events
    for row in range(0, len(events), max(1, len(events) // 7)):
        told = [each["reason"] for each in front.answer("about", run=0, span=row)["findings"]]
        shown = [reason for reason, spans in zip(found.reason, found.spans, strict=True) if row in spans]
        assert told == (shown or list(found.reason[found.kernel == events.kernel[row]]))
    last = events[events.kernel == events.kernel.iloc[-1]]
    unit = last.unit[last.end == last.end.min()].iloc[0]
    cycle = int(last.end[last.unit == unit].max()) + 1
    assert journey.simulated.gap(unit, cycle).cause[0] == "finished"
    assert front.answer("gap", run=0, unit=unit, cycle=cycle)["findings"]
    assert "there is no span 99999" in front.ask("about", run=0, span=99999)["error"]


@pytest.mark.test_all
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_why_it_is_slow_is_asked_beside_the_cycles_on_the_first_screen(
    journey: wb.Journey, chromium_browser: Browser, scheme: str
):
    with live(journey.widget()) as address, quiet_page(chromium_browser, height=800, color_scheme=scheme) as page:
        page.goto(address)
        why = page.get_by_role("button", name="why?")
        expect(why).to_be_in_viewport(ratio=1)
        figure = page.locator("[data-stage=timeline] b")
        expect(figure).to_contain_text("cycles")
        boxes = [each.bounding_box() for each in (why, figure)]
        assert boxes[0] and boxes[1] and boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] + 2
        page.locator(".wb-timeline canvas").first.wait_for()
        for _ in range(2):  # a second press goes there again, and does not close it
            page.evaluate("scrollTo(0, 0)")
            why.click()
            expect(page.locator(".fi-card").first).to_be_in_viewport(ratio=1)
            expect(page.locator("[data-look=findings]")).to_have_attribute("aria-pressed", "true")
            expect(page.locator(".look.of-findings")).to_be_focused()


@pytest.mark.test_all
def test_two_remedies_are_tried_at_once_and_each_says_so(
    journey: wb.Journey, chromium_browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    goes, measured = threading.Event(), Findings.measured
    rows = [number for number, remedy in enumerate(journey.findings.remedy) if remedy][:2]

    def held(found: Findings, row: int) -> Card:
        if row == rows[1]:
            goes.wait(PATIENCE_SECONDS)
        return measured(found, row)

    monkeypatch.setattr(Findings, "measured", held)
    with opened_page(journey, chromium_browser) as page:
        for row in reversed(rows):
            page.locator(".fi-card").nth(row).get_by_role("button", name="try it").click()
        page.locator(".fi-card").nth(rows[0]).locator("b:has-text('measured: saves')").wait_for()
        other = page.locator(".fi-card").nth(rows[1]).get_by_role("button", name="trying")
        expect(other).to_have_text("trying…")
        expect(other).to_be_disabled()
        goes.set()
        page.locator(".fi-card").nth(rows[1]).locator("b:has-text('measured: saves')").wait_for()


@contextlib.contextmanager
def opened_page(journey: wb.Journey, chromium: Browser) -> Iterator[Page]:
    """The lab with its findings open."""
    with widget_page(chromium, journey.widget(), height=1800) as page:
        page.locator(".looks button:text-is('Findings')").click()
        page.locator(".fi-card").first.wait_for()
        yield page


@pytest.fixture
def page_of(journey: wb.Journey, chromium_browser: Browser) -> Iterator[Page]:
    with opened_page(journey, chromium_browser) as page:
        yield page


@pytest.mark.test_all
def test_a_card_selects_its_kernel_and_tries_its_remedy(journey: wb.Journey, page_of: Page):
    page, found = page_of, journey.findings
    cards = page.locator(".fi-card")
    expect(cards).to_have_count(len(found))
    row = next(number for number, kernel in enumerate(found.kernel) if kernel)
    page.locator(".fi-card").nth(row).locator("button:text-is('show')").click()
    page.locator(f".what b:text-is('kernel {found.kernel[row]}')").wait_for()
    becomes(lambda: journey.selection.selection, journey.select(found.kernel[row]))
    page.locator(".fi-only input").check()
    chosen = set(journey.select(found.kernel[row]).spans)
    meant = sum(bool(chosen & set(spans)) for spans in found.spans)
    assert meant < len(found)
    expect(cards).to_have_count(meant)
    page.locator(".fi-only input").uncheck()
    expect(cards).to_have_count(len(found))
    page.locator(".fi-card button:text-is('try it')").first.click()
    page.locator(".fi-card b:has-text('measured: saves')").first.wait_for()


@pytest.mark.test_all
def test_what_needs_python_is_off_when_the_kernel_is_gone(page_of: Page):
    checks, tries = page_of.locator(".strip .badge"), page_of.locator(".fi-card .fi-acts button:text-is('try it')")
    expect(checks.first).to_be_enabled()
    expect(tries.first).to_be_enabled()
    page_of.evaluate("() => { model.send = () => { throw new Error('closed'); }; }")
    checks.first.click()
    page_of.locator(".notice:has-text('what is shown below stays as it was')").wait_for()
    for each in (*checks.all(), *tries.all()):
        expect(each).to_be_disabled()
    expect(page_of.locator(".why")).to_be_enabled()  # its findings are there


@pytest.mark.test_all
def test_findings_that_were_not_opened_are_off_when_the_kernel_is_gone(journey: wb.Journey, chromium_browser: Browser):
    widget = journey.widget()
    assert isinstance(widget, Stepper)
    with widget_page(chromium_browser, widget, height=720) as page:
        expect(page.locator(".why")).to_be_enabled()
        page.evaluate("() => { model.send = () => { throw new Error('closed'); }; }")
        page.locator(".strip .badge").first.dispatch_event("click")  # a notice may lie over it already
        expect(page.locator(".why")).to_be_disabled()
