"""Journeys side by side: which nodes are the same, which kernels meet, and what is said of what differs."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from tests.jupyter.timelines import shared
from tests.programs import PROGRAMS
from tests.views.test_stage_html import Tree, assert_self_contained, svgs
from workbench.explaining.views.comparisons.compare import LAUNCHING, Compared
from workbench.explaining.views.comparisons.finding_groups import Found, kept
from workbench.explaining.views.timelines.aligned import AS_LONG, SLOWER, aligned
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.ground.basics.common_parts import matched, merged, refined
from workbench.ground.errors import BadOption


@pytest.fixture(scope="module")
def fused() -> wb.Journey:
    return PROGRAMS["ffn_residual"].traced()


@pytest.fixture(scope="module")
def unfused(fused: wb.Journey) -> wb.Journey:
    return fused.with_(fusion="none")


def assert_adds_up(both: wb.Comparison, *journeys: wb.Journey) -> None:
    """Cycles, bytes and their differences over all rows are those of the journeys."""
    nodes, names = both.nodes, both.record.names
    for name, journey in zip(names, journeys, strict=True):
        stats = journey.simulated.stats
        assert nodes[f"cycles {name}"].sum() == journey.simulated.cycles
        assert nodes[f"bytes {name}"].sum() == stats["dram_read_bytes"] + stats["dram_write_bytes"]
        count = len(journey.simulated.record.kernels)
        assert f"{count} launch{'es' * (count != 1)}" in nodes[f"kernels {name}"].tolist()
        told = sorted(", ".join(nodes[f"kernels {name}"]).split(", "))
        assert set(journey.simulated.record.kernels) >= set(told) - {"", *(t for t in told if " launch" in t)}
    for name, journey in zip(names[1:], journeys[1:], strict=True):
        assert nodes[f"delta cycles {name}"].sum() == journey.simulated.cycles - journeys[0].simulated.cycles
        assert (nodes[f"delta cycles {name}"] == nodes[f"cycles {name}"] - nodes[f"cycles {names[0]}"]).all()


@pytest.mark.test_all
def test_two_fusions_of_the_same_ffn_meet_by_their_nodes(fused: wb.Journey, unfused: wb.Journey):
    both = wb.compare(fused, unfused, names=("fused", "unfused"))
    nodes = both.nodes.set_index("what")
    assert set(nodes.index) == {"up + gelu", "down + add", LAUNCHING}
    up, down = nodes.loc["up + gelu"], nodes.loc["down + add"]
    assert (up["kernels fused"], down["kernels fused"]) == ("k0_linear_gelu", "k1_linear_add")
    kernels = [kernel.name for kernel in unfused.lowered.kernels]
    assert up["kernels unfused"].split(", ") + down["kernels unfused"].split(", ") == kernels
    alone = unfused.simulated.kernel_cycles()
    assert up["cycles unfused"] == sum(alone[kernel] for kernel in up["kernels unfused"].split(", "))
    assert up["cycles fused"] == fused.simulated.kernel_cycles()["k0_linear_gelu"]
    assert_adds_up(both, fused, unfused)


def test_stages_count_a_program_once_and_what_runs_as_often_as_it_runs():
    """As the lab's strip does: equal layers share their programs."""
    j, figures = shared(), wb.compare(shared(), shared()).stages.set_index("figure").iloc[:, 1]
    programs = [kernel.program for kernel in j.scheduled.kernels]
    assert (figures["programs"], figures["instructions"]) == (len(programs), sum(map(len, programs)))
    assert figures["instructions run"] == len(j.simulated.events) > figures["instructions"]


def test_what_changed_most_comes_first(fused: wb.Journey, unfused: wb.Journey):
    both = wb.compare(fused, unfused)
    most = both.nodes.filter(like="delta cycles").abs().max(axis=1)
    assert most.is_monotonic_decreasing and (both.nodes["change"] == "differs").all()


def test_the_same_journey_is_said_to_be_identical(fused: wb.Journey):
    both = wb.compare(fused, fused)
    assert set(both.nodes["change"]) == {"identical"} and both.record.identical
    assert both.record.sentences() == ["identical: the same code in every kernel, the same cycles, the same bytes"]
    assert both.text().startswith("identical: ") and "What changed" not in both.html()
    assert set(both.findings["change"]) == {"stays"}
    anew = PROGRAMS["ffn_residual"].traced()
    assert wb.compare(fused, anew).record.identical


def test_other_code_of_the_same_cost_is_not_identical(fused: wb.Journey):
    record = wb.compare(fused, fused).record
    first, second = record.runs
    up, down = second.scheduled.kernels
    code = {"math.erf": "math.tanh", "%alloc": "%place", "@k0_linear_gelu": "@k7_other"}
    changed = up.mlir
    for old, new in code.items():
        assert old in changed
        changed = changed.replace(old, new)
    renamed = up.mlir.replace("%alloc", "%place").replace("@k0_linear_gelu", "@k7_other")
    for mlir, told in ((changed, "other code, same cycles and bytes"), (renamed, "identical")):
        edited = replace(second, scheduled=replace(second.scheduled, kernels=(replace(up, mlir=mlir), down)))
        lines = Compared((first, edited), record.findings_of).lines
        assert {line.what: line.change for line in lines} == {
            "up + gelu": told,
            "down + add": "identical",
            LAUNCHING: "identical",
        }


class Small(nn.Module):
    def __init__(self, *, norm: bool = False, act: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(24, 32), *([nn.LayerNorm(32)] if norm else []), act(), nn.Linear(32, 16))
        self.last = nn.Softmax(-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x))


def small(x: torch.Tensor, **changed: Any) -> wb.Journey:
    """With the softmax in a kernel of its own."""
    return wb.trace(Small(**changed), x, fusion={"off": ["rows of a product"]})


@pytest.mark.test_all
def test_an_edited_function_is_matched_although_names_and_paths_shift():
    x = torch.randn(40, 24)
    before, after = small(x), wb.trace(Small(norm=True), x, fusion={"apart": [("linear_1", "softmax")]})
    both = wb.compare(before, after, names=("before", "after"))
    ops = [[node.op.split(".")[1] for node in run.nodes] for run in both.record.runs]
    pairs = [
        tuple(None if at is None else mine[at] for at, mine in zip(row, ops, strict=True))
        for row in both.record.matching.rows
    ]
    assert pairs == [
        ("linear", "linear"),
        (None, "layer_norm"),
        ("relu", "relu"),
        ("linear", "linear"),
        ("softmax", "softmax"),
    ]
    assert_adds_up(both, before, after)
    nodes = both.nodes.set_index("what")
    assert nodes.loc["last", "change"] == "identical"
    assert "the programs differ: they share 4 ATen calls (4 of before, 5 of after)" in both.text()
    (norm,) = [what for what, row in nodes.iterrows() if "layer_norm" in row["kernels after"]]
    assert norm == "layers.0.linear + layer_norm + relu" and nodes.loc[norm, "kernels before"] == "k0_linear_relu"
    assert nodes.loc[norm, "delta cycles after"] > 0


@pytest.mark.test_all
def test_another_op_in_the_same_module_stands_for_the_one_before():
    x = torch.randn(40, 24)
    both = wb.compare(small(x), small(x, act=nn.Sigmoid), names=("relu", "sigmoid"))
    assert both.record.matching.rows == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert both.record.sentences()[0] == "the programs differ: they share 3 ATen calls (4 of relu, 4 of sigmoid)"
    nodes = both.nodes.set_index("what")
    assert nodes.loc["layers.0.linear + relu", "kernels sigmoid"] == "k0_linear_sigmoid"
    assert (nodes.loc["layers.2.linear", "change"], nodes.loc["last", "change"]) == ("identical", "identical")


def test_what_one_journey_alone_does_is_told_as_such():
    def before(x: torch.Tensor) -> torch.Tensor:
        return F.softmax(x, -1)

    def after(x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(F.softmax(x, -1), 0)

    x = torch.randn(32, 48)
    journeys = wb.trace(before, x), wb.trace(after, x)
    both = wb.compare(*journeys)
    nodes = both.nodes.set_index("what")
    assert nodes.loc["cumsum", "change"] == "not in before" and nodes.loc["cumsum", "cycles before"] == 0
    assert nodes.loc["cumsum", "delta cycles after"] == nodes.loc["cumsum", "cycles after"] > 0
    assert nodes.loc["softmax", "change"] == "identical"
    assert_adds_up(both, *journeys)


@pytest.mark.test_all
def test_journeys_of_other_programs_say_what_they_share():
    softmax = wb.trace(lambda x: torch.softmax(x, 1), torch.randn(64, 64))
    product = wb.trace(lambda x: x @ x, torch.randn(64, 64))
    both = wb.compare(softmax, product, names=("a", "b"))
    assert both.record.sentences()[0] == (
        "the programs differ: they share no ATen call, and only the whole can be compared"
    )
    nodes = both.nodes.set_index("what")
    assert nodes.loc["softmax", "change"] == "not in b" and nodes.loc["matmul", "change"] == "not in a"
    assert_adds_up(both, softmax, product)
    assert_self_contained(both.html())
    columns = aligned(both.record.matching).columns
    assert [[stay is not None for stay in column.stays] for column in columns] in ([[1, 0], [0, 1]], [[0, 1], [1, 0]])


def test_loaded_journeys_are_compared_like_others(fused: wb.Journey, unfused: wb.Journey, tmp_path: Path):
    for journey, name in ((fused, "a"), (unfused, "b")):
        journey.save(tmp_path / name)
    loaded = wb.load(tmp_path / "a"), wb.load(tmp_path / "b")
    here, there = wb.compare(fused, unfused, names=("a", "b")), wb.compare(*loaded, names=("a", "b"))
    assert here.html() == there.html() and here.text() == there.text()
    assert here.nodes.equals(there.nodes) and here.findings.equals(there.findings)
    assert wb.compare(fused, loaded[0]).record.identical


@pytest.mark.test_all
def test_two_to_eight_journeys(fused: wb.Journey):
    several = [fused.with_(machine=wb.machine("tpu-v3", vector_lanes=lanes)) for lanes in (128, 64, 32, 16, 8, 4, 2)]
    both = wb.compare(fused, *several)
    assert len(both.record.names) == 8 and both.nodes.shape == (3, 3 + 8 + 7 + 8 + 7 + 8)
    assert_adds_up(both, fused, *several)
    (picture,) = [each for each in svgs(both.html()) if each.get("role") == "img"]
    assert all(name in "".join(picture.itertext()) for name in both.record.names)
    cases = (((), "none"), ((fused,), "1"), ((fused, *several, fused), "9"))
    for given, count in cases:
        with pytest.raises(BadOption, match=f"wb.compare takes 2 to 8 journeys, but was given {count}: "):
            wb.compare(*given)


@pytest.mark.test_all
def test_modules_hold_all_that_is_inside_of_them():
    x = torch.randn(40, 24)
    relu, gelu = small(x), small(x, act=nn.Sigmoid)
    both = wb.compare(relu, gelu, names=("a", "b"))
    modules = both.modules.set_index("module")
    assert set(modules.index) >= {"", "layers", "layers.2", "last"}
    nodes = both.nodes[both.nodes["what"] != LAUNCHING]
    for name in ("a", "b"):
        assert modules.loc["", f"cycles {name}"] == nodes[f"cycles {name}"].sum()
        assert modules.loc["", f"cycles {name}"] == modules.loc[["layers", "last"], f"cycles {name}"].sum()
    assert modules.loc["last", "change"] == "identical" and "by module" in both.html()


@pytest.mark.test_all
def test_what_reads_nothing_links_no_kernels():
    """Each of two readers of positions computes them for itself, and is held against its own counterpart."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(48, dtype=torch.float32)
        return torch.softmax(x + places, 1), torch.softmax(y * places, 1)

    journey = wb.trace(function, torch.randn(32, 48), torch.randn(64, 48))
    assert ["arange" in launch.origins for launch in journey.scheduled.record.launches.launches] == [True, True]
    both = wb.compare(journey, journey.with_(fusion="none"))
    assert len(both.record.matching.groups) >= 2
    assert [len(group.parts[0].launches) for group in both.record.matching.groups if group.parts[0].launches] == [1, 1]


def test_findings_that_came_and_went(fused: wb.Journey):
    slow = fused.with_(machine=wb.machine("tpu-v3", launch_overhead_cycles=40_000))
    both = wb.compare(fused, slow, names=("a", "b"))
    found = both.findings
    for name, journey in (("a", fused), ("b", slow)):
        mine = journey.findings
        told = found[found[f"cycles {name}"].notna()]
        assert set(told["rule"]) == set(mine["rule"])
        assert told[f"cycles {name}"].sum() == mine["cycles"].sum()
    order = [("came", "went", "stays").index(change) for change in found["change"]]
    assert order == sorted(order)
    text = both.html()
    assert all(f"<b>{change}</b>" in text for change in set(found["change"]))


def test_a_finding_stays_where_another_of_its_rule_is_about_the_same_kernels(fused: wb.Journey, unfused: wb.Journey):
    matching = wb.compare(fused, unfused).record.matching
    up, down = (Found("r", names, cycles, "why") for names, cycles in ((("linear",), 5), (("linear_1",), 7)))
    whole, other = Found("r", (), 3, "all"), Found("s", ("gelu",), 2, "else")
    assert [node.name for node in matching.runs[0].nodes] == ["linear", "gelu", "linear_1", "add"]
    made = kept(
        [[up, whole], [Found("r", ("gelu",), 9, "later"), Found("r", ("gelu",), 1, "x"), down, other]], matching
    )
    told = [(each.change, each.rule, [found and found.cycles for found in each.each], each.reason) for each in made]
    assert told == [
        ("came", "r", [None, 7], "why"),
        ("came", "s", [None, 2], "else"),
        ("went", "r", [3, None], "all"),
        ("stays", "r", [5, 10], "later (and 1 more of the kind)"),
    ]
    assert [sorted(each.groups) for each in made] == [[1], [0], [], [0]]


def test_timelines_begin_where_the_same_nodes_begin(fused: wb.Journey, unfused: wb.Journey):
    both = wb.compare(fused, unfused)
    view = aligned(both.record.matching)
    assert [column.group.title for column in view.columns] == ["up + gelu", "down + add"]
    for column in view.columns:
        first, second = column.stays
        assert first is not None and second is not None and first.start == second.start
        assert column.end == max(first.end, second.end) and first.launches and second.launches
    assert view.paces == {AS_LONG, SLOWER} and view.launching
    for number, journey in enumerate((fused, unfused)):
        lengths = sum(stay.length for stay, _ in view.stays_of(number))
        clock = journey.machine.clock_mhz
        spans = journey.simulated.record.kernel_spans
        apart = (begin - end for (_, _, end), (_, begin, _) in pairwise(spans))
        inside = [launch for stay, _ in view.stays_of(number) for launch in stay.launches[1:]]
        gaps = [gap for launch, gap in enumerate(apart, start=1) if launch in inside]
        assert lengths * clock == pytest.approx(sum(journey.simulated.kernel_cycles().values()) + sum(gaps))
        for lane in view.lanes_of(number):
            edges = np.linspace(0, view.whole, 301)
            shares = lane.shares(edges, len(view.kinds))
            worked = shares.sum() * view.whole / 300
            assert (
                worked == pytest.approx(lane.busy * journey.simulated.time_us) and shares.sum(axis=0).max() < 1 + 1e-9
            )


@pytest.mark.test_all
def test_the_picture_is_drawn_once(fused: wb.Journey, unfused: wb.Journey, tmp_path: Path):
    from matplotlib import pyplot

    both = wb.compare(fused, unfused, names=("a", "b"))
    assert len([each for each in svgs(both.html()) if each.get("role") == "img"]) == 1
    Tree(both.html())
    known = pyplot.get_fignums()
    figure = both.plot(width=8.0)
    assert pyplot.get_fignums() == known, "pyplot shows what it knows at the end of a cell, once more"
    assert "var(--k-MATMUL)" in figure._repr_html_()
    assert both.plot(style="dark")._repr_png_().startswith(b"\x89PNG")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [label.split()[0] for label in labels] == ["DMA", "systolic", "vector"] * 2
    both.to_html(tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text("utf-8")
    assert "<h1>a and b</h1>" in page and "<script" not in page
    assert_self_contained(page)


def test_the_text_has_the_timelines_in_letters_below_each_other(fused: wb.Journey, unfused: wb.Journey):
    text = wb.compare(fused, unfused, names=("a", "b")).text(width=40)
    heads = [line for line in text.splitlines() if "|up + gelu" in line]
    assert len(heads) == 2 and heads[0] == heads[1]
    lanes = [line for line in text.splitlines() if re.match(r"(DMA|systolic|vector) +\d+%", line)]
    assert len(lanes) == 6 and max(map(len, lanes)) <= 40 + 15


def test_journeys_in_which_nothing_runs_are_compared_too():
    views = wb.trace(lambda x: x.t(), torch.randn(4, 6)), wb.trace(lambda x: x.t(), torch.randn(6, 4))
    both = wb.compare(*views)
    assert both.record.identical and NOTHING in both.html() and NOTHING in both.text()


def test_what_sequences_share_stands_in_one_order():
    assert matched("abcde", "abxde") == [(0, 0), (1, 1), (3, 3), (4, 4)]
    assert matched("", "abc") == [] and matched("aaa", "aa") == [(0, 0), (1, 1)]
    assert refined(("abc", "xyz"), ("adc", "xyz")) == [(0, 0), (2, 2), (1, 1)]
    assert merged([["abcd"], ["abxcd"], ["bxyd"]]) == [
        (0, 0, None),
        (1, 1, 0),
        (None, 2, 1),
        (None, None, 2),
        (2, 3, None),
        (3, 4, 3),
    ]
