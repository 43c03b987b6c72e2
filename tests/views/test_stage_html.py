"""Tests the stages' HTML in a notebook: whole, self-contained, and in agreement with the records."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import workbench as wb
from tests.programs import PROGRAMS
from workbench.explaining.views.graphs.layered_layout import layered
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
from workbench.ground.basics.highlight import mlir_line
from workbench.ground.basics.markup import SHEET, page
from workbench.ground.basics.svg_painter import svg_of

STAGES = ("captured", "lowered", "rendered", "scheduled", "simulated")
_VOID = {"meta", "br", "img", "hr", "link", "wbr"}


class Tree(HTMLParser):
    """Checks that every tag closes, and collects what would be fetched or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.fetched: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.fetched += [f"{name}={value}" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset")]
        self.fetched += [name for name, _ in attrs if name.startswith("on")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def assert_self_contained(text: str) -> None:
    """No request can leave a page with this in it."""
    tree = Tree(text)
    assert tree.fetched == [] and not tree.tags & {"script", "link", "img", "iframe", "object", "embed", "base"}
    assert not re.search(r"https?://|//[\w-]+\.\w|url\(|@import", text.replace("<!doctype html>", ""))


def svgs(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


@pytest.fixture(scope="module", params=["softmax_ragged", "ffn_residual", "mlp"])
def journey(request: pytest.FixtureRequest) -> wb.Journey:
    return PROGRAMS[request.param].traced()


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_shows_itself_without_anything_from_outside(journey: wb.Journey, stage: str):
    handle = getattr(journey, stage)
    bundle = handle._repr_mimebundle_()
    assert bundle == {"text/plain": repr(handle), "text/html": handle.html()}
    assert_self_contained(bundle["text/html"])
    for line in SHEET.whole().split("}"):
        names = line.partition("{")[0]
        assert not names.strip() or ".wb" in names, names


def test_what_the_browser_draws_is_light_or_dark_as_the_rest_is():
    rules = [rule.partition("{")[0::2] for rule in SHEET.whole().split("}")]
    schemes = {names: found[1] for names, body in rules if (found := re.search(r"color-scheme:([\w ]+)", body))}
    assert schemes == {
        ".wb": "light dark",
        'body[data-jp-theme-light="true"] .wb': "light",
        'body[data-jp-theme-light="false"] .wb': "dark",
    }
    assert ":root{color-scheme:light dark}" in page("a page", "")


def test_every_colour_that_is_used_is_one_of_the_sheet(journey: wb.Journey):
    text = journey.simulated.html()
    used = {name for name in re.findall(r"var\((--[\w-]+)", text) if not name.startswith("--jp-")}
    assert used == set(re.findall(r"(--[\w-]+):", text)) <= set(re.findall(r"(--[\w-]+):", SHEET.whole()))


def test_graphs_show_every_node_and_every_kernel(journey: wb.Journey):
    for stage, table in (("captured", journey.captured.table), ("lowered", journey.lowered.table)):
        (graph,) = svgs(getattr(journey, stage).html())
        drawn = {group.get("data-name") for group in graph.iter("g")}
        assert set(table["node"]) <= drawn
    assert {kernel.name for kernel in journey.lowered.record.kernels} <= drawn
    refused = sum(not fusion.fused for fusion in journey.lowered.record.fusions)
    assert (journey.lowered.html().count("stroke-dasharray") > 0) == (refused > 0)


def test_code_has_the_text_line_by_line_with_its_origins(journey: wb.Journey):
    for kernel in journey.rendered.kernels:
        rows = re.findall(
            r'<div class="l">.*?data-n="(\d+)".*?data-g="(.*?)" title="(.*?)">.*?<span>(.*?)</span></div>',
            kernel.html(),
        )
        lines = kernel.mlir.strip().splitlines()
        assert [int(number) for number, *_ in rows] == list(range(1, len(lines) + 1))
        for (number, _, title, _), line in zip(rows, lines, strict=True):
            assert title == ", ".join(kernel.lines.get(int(number), ())), line


def test_passes_show_what_they_changed(journey: wb.Journey):
    kernel = journey.scheduled.kernels[0]
    shown = journey.scheduled.html()
    for step in kernel.passes:
        assert step.name in shown
    assert shown.count('class="l plus"') == sum(
        step.diff.added for each in journey.scheduled.kernels for step in each.passes
    )
    assert "changed nothing: " in shown


def test_the_gantt_has_a_bar_a_span_as_long_as_it_takes(journey: wb.Journey):
    view = journey.simulated.gantt()
    picture = svg_of(gantt_picture(view))
    bars = re.findall(r"<title>span (\d+): (\w+) ([\d,]+) to ([\d,]+),", picture)
    events = journey.simulated.events
    assert sorted(int(row) for row, *_ in bars) == list(range(len(events)))
    for row, kind, start, end in bars:
        span = events.loc[int(row)]
        assert (span["kind"], span["start"], span["end"]) == (kind, *(int(n.replace(",", "")) for n in (start, end)))
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="17" style="fill:var\(--k-', picture)]
    assert max(widths) <= 860 and f"{journey.simulated.cycles:,} cycles" in picture


class Deep(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(torch.relu(layer(x)) * 0.5)
        return x


@pytest.mark.test_all
def test_a_large_graph_is_summarised_by_module():
    journey = wb.trace(Deep(20), torch.randn(4, 8))
    assert len(journey.captured.table) == 80
    for stage in ("captured", "lowered"):
        (graph,) = svgs(getattr(journey, stage).html())
        assert len([group for group in graph.iter("g") if group.get("data-name")]) <= 62


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 14), st.data())
def test_boxes_never_overlap_and_arrows_point_down(count: int, data: st.DataObject):
    names = [f"n{number}" for number in range(count)]
    sizes = {name: (data.draw(st.integers(10, 90)), data.draw(st.integers(10, 60))) for name in names}
    pairs = list(itertools.combinations(names, 2))
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    made = layered(sizes, edges)
    for first, second in itertools.combinations(made.boxes.values(), 2):
        apart = first.x + first.width <= second.x + 1e-6 or second.x + second.width <= first.x + 1e-6
        assert apart or first.bottom <= second.y or second.bottom <= first.y
    for source, target in edges:
        assert made.boxes[source].bottom < made.boxes[target].y
        ys = [y for _, y in made.bends[source, target]]
        assert ys == sorted(ys)
    assert all(box.x >= -1e-6 and box.x + box.width <= made.width + 1e-6 for box in made.boxes.values())


def test_words_of_mlir_are_told_apart_and_escaped():
    line = mlir_line('%0 = arith.addf %a, %b {x = "<b>"} : f32 // done')
    assert '<span class="v">%0</span>' in line and '<span class="o">arith.addf</span>' in line
    assert "&lt;b&gt;" in line and '<span class="y">f32</span>' in line and '<span class="m">// done</span>' in line
    assert re.sub(r"<[^>]+>", "", mlir_line("%1 = memref.alloc() : memref<2x3xf32, 1>")) == (
        "%1 = memref.alloc() : memref&lt;2x3xf32, 1&gt;"
    )
