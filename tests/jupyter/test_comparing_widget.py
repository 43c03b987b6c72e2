"""The comparison as a widget: by its messages, and in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from torch import nn

import workbench as wb
from tests.browser.lab import becomes
from tests.jupyter.browserless import Front
from tests.jupyter.live import widget_page
from workbench.explaining.views.timelines.columns import Columns, timeline_columns
from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.comparison_widget import ComparisonWidget

NAMES = ("fused", "alone", "small")


@pytest.fixture(scope="module")
def journeys() -> tuple[wb.Journey, ...]:
    torch.manual_seed(0)
    j = wb.trace(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)), torch.randn(64, 64))
    return j, j.with_(fusion="none"), j.with_(mapping={"k0_linear_gelu": {"tile": {"m": 16}}})


@pytest.fixture
def both(journeys: tuple[wb.Journey, ...]) -> wb.Comparison:
    return wb.compare(*journeys, names=NAMES)


@pytest.fixture
def opened(both: wb.Comparison) -> Iterator[tuple[ComparisonWidget, Front]]:
    widget = both.widget()
    assert isinstance(widget, ComparisonWidget)
    yield widget, Front(widget)
    widget.close()


def test_its_tables_are_those_of_the_comparison(both: wb.Comparison, opened: tuple[ComparisonWidget, Front]):
    found = opened[1].answer("open")
    nodes = both.nodes
    assert [line["what"] for line in found["lines"]] == nodes["what"].tolist()
    for at, name in enumerate(NAMES):
        assert [line["cycles"][at] for line in found["lines"]] == nodes[f"cycles {name}"].tolist()
        assert [line["bytes"][at] for line in found["lines"]] == nodes[f"bytes {name}"].tolist()
    assert [row[2] for row in found["journeys"]["rows"]] == both.ratios.cycles.tolist()
    assert [row[1] for row in found["stages"]["rows"]] == both.stages.figure.tolist()
    assert len(found["changes"]["rows"]) == len(both.changes)


def test_what_changed_is_what_the_journeys_were_made_with(both: wb.Comparison, journeys: tuple[wb.Journey, ...]):
    changes = both.changes.set_index(["what", "of"])
    assert changes.loc[("fusion", "option"), "alone"] == "'none'" and changes.loc[("fusion", "option"), "fused"] is None
    j, _, small = journeys
    assert small.options == {"mapping": {"k0_linear_gelu": {"tile": {"m": 16}}}} and j.options == {}
    tiled = changes.loc["tile.m"].iloc[0]
    mappings = {kernel.kernel: kernel.mapping for kernel in j.scheduled.record.kernels}
    assert (tiled["fused"], tiled["small"]) == (mappings["k0_linear_gelu"].tile["m"], 16)
    assert len(changes.loc["kernels"]) == 2  # both products are split in `alone`
    faster = j.with_(machine=j.machine.with_(vector_lanes=64))
    other = wb.compare(j, faster).changes
    assert other[other.what == "vector_lanes"].iloc[0, 2:].tolist() == [j.machine.vector.lanes, 64]
    assert wb.compare(j, j).changes.empty


def test_a_files_journey_tells_its_options(journeys: tuple[wb.Journey, ...], tmp_path: Path):
    journeys[2].save(tmp_path / "a.journey")
    both = wb.compare(journeys[0], wb.load(tmp_path / "a.journey"))
    assert "mapping" in both.changes.what.tolist()


def test_spans_of_a_row_are_those_of_its_kernels(
    both: wb.Comparison, journeys: tuple[wb.Journey, ...], opened: tuple[ComparisonWidget, Front]
):
    _, front = opened
    nodes = both.nodes
    for row in range(len(nodes)):
        answer = front.ask("spans", row=row)
        buffers = next(buffers for content, buffers in front.sent if content is answer)
        assert [np.frombuffer(each, "<u4").tolist() for each in buffers] == both.spans(row)
        for name, journey, spans in zip(NAMES, journeys, both.spans(row), strict=True):
            events = journey.simulated.events
            kernels = nodes[f"kernels {name}"][row].split(", ")
            assert spans == events.index[events.kernel.isin(kernels)].tolist()
            for span in spans[:3]:
                assert front.answer("line", run=NAMES.index(name), span=span)["row"] == row
    assert "rows are 0 to" in front.ask("spans", row=99)["error"]
    with pytest.raises(BadOption, match=r"spans\(-1\): expected a row of \.nodes"):
        both.spans(-1)


def test_timelines_and_findings_are_pythons(both: wb.Comparison, opened: tuple[ComparisonWidget, Front]):
    _, front = opened
    for at, run in enumerate(both.record.runs):
        answer = front.ask("columns", run=at, what="timeline")
        buffers = next(buffers for content, buffers in front.sent if content is answer)
        expected = timeline_columns(run.trace, run.scheduled.launches)
        assert Columns(answer["answer"]["header"], bytes(buffers[0])).data == expected.data
    found = front.answer("findings")
    moved = both.findings[both.findings.change != "stays"]
    assert [each["rule"] for each in found["moved"]] == moved.rule.tolist()
    assert found["stay"] == len(both.findings) - len(moved)


def test_rows_and_journeys_that_there_are_not(journeys: tuple[wb.Journey, ...], opened: tuple[ComparisonWidget, Front]):
    with pytest.raises(BadOption, match="row = 44"):
        opened[0].row = 44
    with pytest.raises(BadOption, match="2 to 4 journeys, and these are 5"):
        wb.compare(*[journeys[0]] * 5).widget()
    assert "aligned timelines" in opened[0].static_html() and "fused" in repr(opened[0])


@pytest.fixture
def page(opened: tuple[ComparisonWidget, Front], chromium_browser: Browser) -> Iterator[Page]:
    with widget_page(chromium_browser, opened[0], ".cmp-times canvas") as made:
        made.wait_for_selector(".cmp-findings :is(.came, .went)")
        yield made


MARKED = "() => [...document.querySelectorAll('.cmp-lines tr.s')].map(row => Number(row.dataset.row))"


@pytest.mark.test_all
def test_a_row_is_marked_in_all_timelines_and_the_table_is_sorted(
    both: wb.Comparison, opened: tuple[ComparisonWidget, Front], page: Page
):
    nodes = both.nodes
    row = next(place for place, what in enumerate(nodes.what) if "gelu" in what)
    expect(page.locator(".cmp-times canvas[role=img]")).to_have_count(3)
    page.locator(f'tr[data-row="{row}"] button').click()
    page.wait_for_function(f"({MARKED})().join() === '{row}'")
    becomes(lambda: opened[0].row, row)
    opened[0].row = -1
    page.wait_for_function(f"({MARKED})().length === 0")
    opened[0].row = row + 1
    page.wait_for_function(f"({MARKED})().join() === '{row + 1}'")
    for column, rising in (("cycles alone", False), ("cycles alone", True), ("what", True)):
        page.get_by_role("button", name=column, exact=True).click()
        head = page.locator("th[aria-sort]", has=page.get_by_role("button", name=column, exact=True))
        expect(head).to_have_attribute("aria-sort", "ascending" if rising else "descending")
        order = page.locator(".cmp-lines tbody tr").evaluate_all("rows => rows.map(row => Number(row.dataset.row))")
        told = nodes[column].iloc[order].tolist()
        assert told == sorted(told, reverse=not rising)
        expect(page.locator("th[aria-sort]")).to_have_count(1)


@pytest.mark.test_all
def test_timelines_are_locked_and_axe_finds_nothing(page: Page):
    page.locator(".cmp-times canvas[role=img]").nth(1).press("w")
    thumb = "[...document.querySelectorAll('.tl-thumb')].map(each => each.getAttribute('style'))"
    page.wait_for_function(f"new Set({thumb}).size === 1 && parseFloat({thumb}[0].split('width:')[1]) < 60")
    described: Any = page
    for light in ("true", "false"):
        described.evaluate("light => document.body.dataset.jpThemeLight = light", light)
        found = Axe().run(described, context="main .wb", options={"resultTypes": ["violations"]}).response["violations"]
        assert [f"{rule['id']}: {rule['nodes'][0]['html'][:120]}" for rule in found] == []


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("width", [800, 1280, 1920])
def test_what_they_were_made_with_can_be_read_at_every_width(chromium_browser: Browser, width: int):
    """Long names of kernels wrap; nothing is cut at the right, and few rows are not scrolled."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8))
    j = wb.trace(network, torch.randn(2, 3, 12, 12), machine="edge-8x8")
    widget = wb.compare(j, j.with_(fusion="none"), names=("as it is", "without fusion")).widget()
    assert isinstance(widget, ComparisonWidget)
    with widget_page(chromium_browser, widget, ".cmp-pair table", width=width) as made:
        boxes = made.locator(".cmp-pair .scroll")
        assert boxes.evaluate_all("all => all.map(each => each.scrollWidth - each.clientWidth)") == [0, 0]
        higher = made.locator(".cmp-pair .scroll").first.evaluate("each => [each.scrollHeight, each.clientHeight]")
        assert min(higher[0], 400) <= higher[1]
