"""A text is shown as a text: in pages, widgets and the outputs of a notebook nothing of a file or a program runs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page

import workbench as wb
from tests.browser.lab import patient
from tests.crafted.judge import originals
from tests.crafted.scripted import (
    EVERY,
    RAN,
    SCRIPTS,
    Way,
    dangers,
    fields,
    html_of,
    live_program,
    shown_html,
    with_scripts,
)
from tests.jupyter.live import live
from workbench.jupyter.widgets.widget_base import LabWidget

PROGRAMS = ["perceptron", "host"]
WHOLE = range(200)
"""Seeds of pages and widgets of crafted files; a dozen are part of `make test`."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    return [path.read_bytes() for path in originals(tmp_path_factory.mktemp("whole"), PROGRAMS)]


@pytest.fixture(scope="module")
def open_fields(files: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> list[list[Way]]:
    """The text fields of each file that can hold a script together: with any other of them the file is refused."""
    path = tmp_path_factory.mktemp("fields") / "crafted.journey"
    found: list[list[Way]] = []
    for data in files:
        found.append([])
        for way in fields(data):
            if way != _NAMES_A_FILE and _opens(path, with_scripts(data, [*found[-1], way], EVERY)):
                found[-1].append(way)
    return found


_NAMES_A_FILE = ("trace.npz", "machine", "figures", "dram_timing")
"""A figure that is looked up when it is asked for: no text that is shown."""


def _opens(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    try:
        wb.load(path)
    except wb.WorkbenchError:
        return False
    return True


def _page_is_still(page: Page) -> None:
    """Opens all that opens, points at what tells something, and sees that no script ran."""
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.evaluate(
        "document.querySelectorAll('[title], svg *').forEach("
        "each => each.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})))"
    )
    page.wait_for_timeout(50)  # a picture that is not there says so later
    assert page.evaluate(f"typeof {RAN}") == "undefined"
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, [onerror], [onload], [href^=javascript]').length") == 0
    )


def _shown_in(page: Page, text: str) -> bool:
    return page.evaluate("text => document.documentElement.textContent.includes(text)", text)


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore")
def test_every_text_field_of_a_file_is_shown_as_text(
    files: list[bytes], open_fields: list[list[Way]], tmp_path: Path
) -> None:
    """All fields at once, read as a browser reads them; the browser itself takes a seeded part below."""
    path = tmp_path / "crafted.journey"
    for data, known in zip(files, open_fields, strict=True):
        assert len(known) >= 40
        path.write_bytes(with_scripts(data, known, EVERY))
        journey = wb.load(path)
        assert {name: found for name, made in shown_html(journey) if (found := dangers(made))} == {}
        journey.to_html(tmp_path / "page.html")
        assert dangers((tmp_path / "page.html").read_text()) == []
        journey.to_html(tmp_path / "lab.html", interactive=True)
        assert dangers((tmp_path / "lab.html").read_text(), scripts=2) == []


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=17)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", WHOLE)
def test_no_script_of_a_file_runs_in_a_page_or_widget(
    seed: int, files: list[bytes], open_fields: list[list[Way]], tmp_path: Path, chromium_browser: Browser
) -> None:
    draw = random.Random(seed)
    number = draw.randrange(len(files))
    chosen = draw.sample(open_fields[number], draw.choice([1, 3, len(open_fields[number])]))
    path = tmp_path / "crafted.journey"
    if not _opens(path, with_scripts(files[number], chosen, draw.choice([EVERY, *SCRIPTS]))):
        path.write_bytes(with_scripts(files[number], chosen[:1], EVERY))
    journey = wb.load(path)
    page = patient(chromium_browser.new_page())
    _look(journey, draw.choice(["page", "lab", "lab", "widget", "scratchpad", "timeline", "outputs"]), page, tmp_path)
    page.close()


def _look(journey: wb.Journey, way: str, page: Page, folder: Path) -> None:
    """One way to show a journey."""
    if way in ("page", "lab"):
        journey.to_html(folder / "page.html", interactive=way == "lab")
        page.goto((folder / "page.html").as_uri())
        if way == "lab":
            page.wait_for_selector(".wb-timeline canvas")
            _press(page)
        _page_is_still(page)
        return
    if way == "outputs":
        page.set_content("".join(made for _, made in shown_html(journey)))
        _page_is_still(page)
        return
    made: Any = {
        "widget": journey.widget,
        "scratchpad": journey.simulated.scratchpad.widget,
        "timeline": journey.simulated.widget,
    }[way]()
    assert isinstance(made, LabWidget)
    assert dangers(made._twin()) == []
    with live(made) as address:
        page.goto(address)
        page.wait_for_function("window.loaded")
        if way == "widget":
            page.wait_for_selector(".tl-plot canvas")
            _press(page)
        _page_is_still(page)


def _press(page: Page) -> None:
    """Selects a row of each list, and opens each view below."""
    for each in page.locator(".list").all():
        if (row := each.locator(".row:not(.plain)").first).count():
            row.click()
    for tab in page.locator(".looks button").all():
        tab.click()
        page.wait_for_timeout(20)


@pytest.mark.test_all(but=1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.sweep(one_in=4)
@pytest.mark.parametrize("script", [EVERY, *SCRIPTS])
def test_no_script_of_a_program_runs(script: str, tmp_path: Path, chromium_browser: Browser) -> None:
    """The names of a class, a module, an argument and a file, and a line of code."""
    model, inputs, more = live_program(script)
    journey = wb.trace(model, *inputs, kwargs=more, machine="edge-8x8")
    assert {name: found for name, made in shown_html(journey) if (found := dangers(made))} == {}
    page = patient(chromium_browser.new_page())
    _look(journey, "page", page, tmp_path)
    assert _shown_in(page, type(model).__name__) or _shown_in(page, script)  # lists in the lab shorten long names
    for way in ("lab", "widget"):
        _look(journey, way, page, tmp_path)
    page.close()


def test_the_name_of_a_lambda_is_seen(tmp_path: Path, chromium_browser: Browser) -> None:
    journey = wb.trace(lambda x: torch.relu(x), torch.randn(4, 4), machine="edge-8x8")
    journey.to_html(tmp_path / "page.html")
    page = patient(chromium_browser.new_page())
    page.goto((tmp_path / "page.html").as_uri())
    assert "<lambda>: 1 ATen call" in page.locator("#captured ~ p").first.inner_text()
    page.close()


def test_the_name_of_a_machine_is_text() -> None:
    machine = wb.machine("edge-8x8").with_(name=f"mine{EVERY}")
    journey = wb.trace(lambda x: torch.relu(x), torch.randn(4, 4), machine=machine)
    assert {name: found for name, made in shown_html(journey) if (found := dangers(made))} == {}
    assert dangers(html_of(machine)) == []


HALF = "half \ud800 of a letter"


def test_a_name_that_is_no_unicode_text_is_shown(tmp_path: Path) -> None:
    model = torch.nn.Module()
    model.add_module(HALF, torch.nn.Linear(4, 4))
    model.forward = lambda x: model.get_submodule(HALF)(x)  # type: ignore[method-assign]
    journey = wb.trace(model, torch.randn(2, 4), machine="edge-8x8")
    journey.to_html(tmp_path / "page.html")
    journey.to_html(tmp_path / "lab.html", interactive=True)
    assert "half \\ud800 of a letter" in (tmp_path / "page.html").read_text()
