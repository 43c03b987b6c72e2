"""`j` at the end of a cell: one screen, small, computed from what is there, and true."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

import workbench as wb
from tests.views.test_stage_html import assert_self_contained
from workbench.ground.errors import EmptyTable
from workbench.models.resnet import resnet50
from workbench.stages.journey_request import GraphCall
from workbench.verbs import of_graph


def ffn() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval(), torch.randn(32, 64))


def test_it_computes_no_stage_and_says_how_to_ask():
    j = ffn()
    before = j.seconds
    shown = j._repr_mimebundle_()
    assert j.seconds == before and set(before) == {"capture", "lower"}
    assert shown["text/plain"] == repr(j) and repr(j).startswith("Journey('Sequential' on tpu-v3")
    for ask in ("j.rendered", "j.scheduled", "j.simulated", "j.check()"):
        assert ask in shown["text/html"], ask
    assert j.overview.why is None and j.overview.spent is None
    assert "not there yet: j.simulated" in j.overview.text()
    assert j.overview.table.cycles.isna().all()
    with pytest.warns(EmptyTable, match=r"j\.simulated"):
        assert len(j.overview.time) == 0


@pytest.mark.test_all
def test_it_prints_as_the_text_of_the_card():
    j = ffn()
    assert j.simulated.cycles
    shown = j.overview
    assert str(shown) == repr(shown) == shown.text() and " object at " not in str(shown)
    assert shown._repr_mimebundle_()["text/plain"] == shown.text()
    for said in ("Sequential on tpu-v3", f"{j.simulated.cycles:,} cycles", "where the time went"):
        assert said in str(shown), said


def test_not_even_the_capture_of_a_graph_that_dynamo_made():
    j = of_graph(GraphCall(symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))), (torch.randn(2, 4),), {})
    assert "j.captured" in j.html() and repr(j) == "Journey('a graph of torch.compile' on tpu-v3; done: nothing yet)"
    assert j.seconds == {}
    with pytest.warns(EmptyTable, match=r"j\.captured"):
        assert len(j.overview.table) == 0
    assert j.captured.record.nodes and "2 ATen calls" in j.overview.text()


@pytest.mark.test_all
def test_resnet50_is_small_and_adds_up():
    torch.manual_seed(0)
    j = wb.trace(resnet50().eval(), torch.randn(1, 3, 64, 64))
    assert j.simulated.cycles
    before = j.seconds
    html = j.html()
    assert len(html.encode()) < 200_000 and j.seconds == before
    assert_self_contained(html)
    overview = j.overview
    assert [stage.figures[0] for stage in overview.stages] == [
        "175 ATen calls",
        f"{len(j.lowered.kernels)} kernels",
        f"{sum(kernel.mlir.strip().count(chr(10)) + 1 for kernel in j.rendered.kernels):,} lines of MLIR",
        f"{len(j.scheduled.kernels)} programs",
        f"{j.simulated.cycles:,} cycles",
    ]
    table = overview.table
    calls = table[table.name != ""]
    assert calls.name.tolist() == [node.name for node in j.captured.record.nodes]
    launching = table.cycles.iloc[-1]
    assert calls.cycles.sum() + launching == overview.time.cycles.sum() == j.simulated.cycles
    assert table.share.iloc[0] == pytest.approx(1 - launching / j.simulated.cycles)
    assert "0.conv2d" in set(overview.time.title) and html.count('class="finding"') == len(overview.why.cards)


def test_what_was_checked_is_said_and_nothing_is_checked_unasked():
    j = ffn()
    assert j.overview.checks == () and "Not checked" in j.html()
    assert j.check() and j.check(stage="captured")
    assert [ok for ok, _ in j.overview.checks] == [True, True]
    assert "ok at stage scheduled" in j.html() and "ok at stage captured" in j.overview.text()
    assert j.with_(machine="edge-8x8").overview.checks == ()


def test_a_check_that_failed_is_not_good():
    j = ffn()
    assert not j.check(rtol=0, atol=0)
    ((ok, said),) = j.overview.checks
    assert not ok and said.startswith("FAILED at stage scheduled") and "var(--bad)" in j.overview.inside_html()


def test_cards_say_what_is_known_of_a_remedy_by_now():
    j = wb.trace(torch.softmax, torch.randn(512, 512), 1)
    overhead = j.machine.launch_overhead_cycles
    saved = overhead // 2
    assert j.simulated.cycles > overhead

    def launches() -> str:
        (card,) = [card for card in j.overview.why.cards if card.rule == "launches"]
        assert card.title == "" and card.cycles == overhead and card.whole == j.simulated.cycles
        return card.gain

    assert launches() == "j.findings predicts what it saves"
    found = j.findings
    assert launches() == f"predicted: saves {saved} cycles, {saved / j.simulated.cycles:.1%}"
    assert f"predicted: saves {saved} cycles" in found._repr_html_()
    tried = found.tried()
    assert tried.gain.notna().any()
    assert launches() == f"measured: saves {saved} cycles, {saved / j.simulated.cycles:.1%}"


def test_findings_are_cards_and_a_table():
    j = wb.trace(lambda a, b: a @ b, torch.randn(256, 256), torch.randn(256, 256))
    found = j.findings
    html = found._repr_html_()
    assert_self_contained(html)
    assert html.count('class="finding"') == len(found)
    open_part = html.partition("<details")[0]
    for row in found.itertuples():
        assert (row.reason in unescape(str(html))) and (
            row.cycles == 0 or f"{row.cycles:,} cycles at stake" in open_part
        )
    assert "<table" in found.head(1)._repr_html_()


def test_a_loaded_journey_shows_the_same(tmp_path: Path):
    j = ffn()
    assert j.simulated.cycles
    j.save(tmp_path / "j")
    loaded = wb.load(tmp_path / "j").overview
    assert loaded.table.equals(j.overview.table) and loaded.time.equals(j.overview.time)
    assert loaded.why == j.overview.why and loaded.why.binding.startswith("bound by ")
    assert "a file has no function" in loaded.text()
    assert [stage.figures for stage in loaded.stages] == [stage.figures for stage in j.overview.stages]


def test_a_long_run_is_shown_without_looking_for_findings(monkeypatch: pytest.MonkeyPatch):
    j = ffn()
    assert j.simulated.cycles
    monkeypatch.setattr("workbench.journey.MOST_SPANS", 3)
    assert j.overview.why is None and "j.findings says why" in j.html() and "j.findings says why" in j.overview.text()
    assert "Where the time went" in j.html()


def test_titles_stand_where_kernels_are_listed():
    j = ffn()
    titles = ["0.linear + gelu", "2.linear"]
    assert [kernel.title for kernel in j.lowered.kernels] == titles
    for table in (
        j.lowered.kernel_table,
        j.rendered.table,
        j.scheduled.table,
        j.simulated.table,
        j.simulated.by_kernel,
    ):
        assert table.title.tolist() == titles
    for stage in (j.lowered, j.rendered, j.scheduled, j.simulated):
        assert all(title in stage.html() for title in titles)


def test_the_page_begins_with_the_overview_and_predicts(tmp_path: Path):
    j = wb.trace(torch.softmax, torch.randn(512, 512), 1)
    j.to_html(tmp_path / "page.html")
    saved = j.machine.launch_overhead_cycles // 2
    first = (tmp_path / "page.html").read_text("utf-8").partition('<h2 id="captured">')[0]
    assert "Where the time went" in first and f"predicted: saves {saved} cycles" in first
    assert "Not checked" in first and "j.check()" not in first
