"""Journeys out of Python: the page, the Perfetto trace, and journeys side by side."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.programs import PROGRAMS
from tests.views.test_stage_html import Tree, svgs
from workbench.explaining.views.graphs.graph_pictures import lowered_picture
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.ground.basics.svg_painter import svg_of
from workbench.ground.errors import BadOption


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return PROGRAMS["mlp"].traced()


def test_the_page_is_whole_and_asks_nothing_of_the_network(journey: wb.Journey, tmp_path: Path):
    journey.to_html(tmp_path / "mlp.html")
    text = (tmp_path / "mlp.html").read_text("utf-8")
    tree = Tree(text)
    assert all(found.startswith("href=#") for found in tree.fetched) and len(tree.fetched) == 5
    assert not tree.tags & {"script", "link", "img", "iframe", "object", "embed", "base"}
    for word in ("http:", "https:", "url(", "@import", "//cdn"):
        assert word not in text, word
    for key in ("captured", "lowered", "rendered", "scheduled", "simulated"):
        assert f'id="{key}"' in text
    assert len(svgs(text)) == 3 and f"{journey.simulated.cycles:,}" in text
    assert "return self.fc2(torch.relu(self.fc1(x)))" in text


@pytest.mark.test_all
def test_a_loaded_journey_makes_the_same_page_and_trace(journey: wb.Journey, tmp_path: Path):
    journey.save(tmp_path / "j")
    loaded = wb.load(tmp_path / "j")
    for made, name in ((journey, "a"), (loaded, "b")):
        made.to_html(tmp_path / f"{name}.html")
        made.to_perfetto(tmp_path / f"{name}.json")
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()


def test_the_perfetto_trace_has_a_track_a_unit_in_real_time_with_cycles_beside(journey: wb.Journey, tmp_path: Path):
    journey.to_perfetto(tmp_path / "mlp.json")
    made = json.loads((tmp_path / "mlp.json").read_text())
    assert set(made) == {"traceEvents", "displayTimeUnit", "otherData"} and made["displayTimeUnit"] == "ns"
    assert "microseconds of simulated time" in made["otherData"]["time_unit"]
    tracks = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in made["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    spans = [event for event in made["traceEvents"] if event["ph"] == "X" and event["cat"] != "launch"]
    events, clock = journey.simulated.events, journey.machine.clock_mhz
    assert len(spans) == len(events)
    for event in spans:
        row = events.loc[event["args"]["row"]]
        assert tracks[event["pid"], event["tid"]] == row["unit"] and event["name"] == row["kind"]
        assert (event["args"]["start_cycle"], event["args"]["end_cycle"]) == (row["start"], row["end"])
        assert event["ts"] == pytest.approx(row["start"] / clock, abs=6e-4)
        assert event["ts"] + event["dur"] == pytest.approx(row["end"] / clock, abs=6e-4)
        assert event["args"]["origins"] == ", ".join(row["origins"])
    for track in {(event["pid"], event["tid"]) for event in spans}:
        mine = sorted((e["ts"], e["dur"]) for e in spans if (e["pid"], e["tid"]) == track)
        assert all(a + d <= b + 1e-9 for (a, d), (b, _) in pairwise(mine))
    launches = [event for event in made["traceEvents"] if event.get("cat") == "launch"]
    assert [event["name"] for event in launches] == list(journey.simulated.record.kernels)


def test_journeys_side_by_side_on_other_machines_and_mappings(journey: wb.Journey):
    small, slow = journey.with_(machine="edge-8x8"), journey.with_(mapping={"*": {"buffers": 1}})
    both = wb.compare(journey, small)
    table = both.table.set_index(["part", "what"])
    assert list(table.columns) == ["tpu-v3", "edge-8x8"]
    assert table.loc[("figure", "cycles")].tolist() == [journey.simulated.cycles, small.simulated.cycles]
    assert table.loc[("figure", "dram_read_bytes"), "tpu-v3"] == journey.simulated.stats["dram_read_bytes"]
    for kernel, cycles in journey.simulated.kernel_cycles().items():
        assert table.loc[("kernel cycles", kernel), "tpu-v3"] == cycles
    stalls = journey.simulated.stalls
    busy = stalls[stalls["busy"] > 0]
    assert table.loc[("idle", "data"), "tpu-v3"] == busy["data"].sum()
    ratios = wb.compare(journey, slow, names=("two slots", "one slot")).ratios
    assert ratios["journey"].tolist() == ["two slots", "one slot"]
    assert ratios["cycles_ratio"].tolist() == [1.0, slow.simulated.cycles / journey.simulated.cycles]
    assert both.table.attrs == {} and repr(both).startswith(f"Comparison(tpu-v3 {journey.simulated.cycles:,} cycles")


def test_what_launches_take_is_told_beside_the_kernels(journey: wb.Journey):
    simulated = journey.simulated
    inside, whole = int(simulated.by_kernel["cycles"].sum()), simulated.cycles
    launches = simulated.waterfall.set_index("what").loc["launch", "cycles"]
    assert inside + launches == whole and launches > 0
    told = f"kernels {inside:,} + launches {launches:,} = {whole:,} cycles"
    assert f"\n{told}\n" in simulated.text() and told in simulated.html()


@pytest.mark.test_all
def test_machines_with_other_figures_are_told_apart(journey: wb.Journey, tmp_path: Path):
    alone = [journey.with_(machine=wb.machine("tpu-v3", vector_lanes=lanes)) for lanes in (64, 32)]
    both = wb.compare(journey, *alone)
    assert both.record.names == ("tpu-v3", "tpu-v3 (vector_lanes=64)", "tpu-v3 (vector_lanes=32)")
    assert both.table.set_index(["part", "what"]).loc[("machine", "vector_lanes")].tolist() == [128, 64, 32]
    assert ">tpu-v3 (vector_lanes=64)</th>" in both.html() and "time ratio" in both.html()
    many = {"queue_depth": 4, "issue_window": 8, "dma_queues": 2}
    several = [journey.with_(machine=wb.machine("tpu-v3", vector_lanes=lanes, **many)) for lanes in (64, 32)]
    assert wb.compare(*several).record.names == ("tpu-v3 (vector_lanes=64)", "tpu-v3 (vector_lanes=32)")
    assert wb.compare(*several).ratios["machine"].tolist() == ["tpu-v3 (+4 figures)"] * 2
    one = alone[0].simulated
    alone[0].to_html(tmp_path / "page.html")
    alone[0].to_perfetto(tmp_path / "trace.json")
    shown = [repr(one), one.text(), one.html(), repr(alone[0]), (tmp_path / "page.html").read_text("utf-8")]
    assert all("tpu-v3 (vector_lanes=64)" in told for told in [*shown, (tmp_path / "trace.json").read_text("utf-8")])


def test_what_cannot_be_compared_is_refused(journey: wb.Journey):
    with pytest.raises(BadOption, match="expected 2 different names"):
        wb.compare(journey, journey, names=("a", "a"))
    assert wb.compare(journey, journey).record.names == ("j1", "j2")
    assert torch.is_tensor(journey.run(*PROGRAMS["mlp"].inputs()))


def test_a_timeline_on_which_nothing_runs_says_so_in_words_and_pictures():
    simulated = wb.trace(lambda x: x.t(), torch.randn(4, 6)).simulated
    assert simulated.cycles == 0
    assert NOTHING in simulated.text() and NOTHING in simulated.html()
    assert NOTHING in [text.get_text() for text in simulated.plot().texts]


@pytest.mark.test_all
def test_a_large_graph_with_parts_put_together_in_place_is_drawn():
    """A concatenation has no kernel, and among many nodes no box: arrows run from what makes its parts."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(60):
            x = torch.tanh(x @ w)
        both = torch.cat([x, x + 1], 1)
        return both @ both.T

    journey = wb.trace(function, torch.randn(4, 4), torch.randn(4, 4), machine="edge-8x8")
    last = journey.lowered.record.kernels[-1].name
    assert f'data-name="{last}"' in svg_of(lowered_picture(journey.lowered.record))
