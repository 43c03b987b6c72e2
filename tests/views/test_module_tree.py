"""Graphs as trees of modules: all that was captured is in them, what was spent adds up, and they open on one screen."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import torch
from torch import nn

import workbench as wb
from tests.programs import PROGRAMS
from workbench.explaining.views.graphs.module_tree import (
    MOST_ROWS,
    Leaf,
    Module,
    captured_tree,
    folded,
    lowered_tree,
    opened,
)
from workbench.ground.errors import HostRoute
from workbench.models.resnet import BasicBlock
from workbench.models.shipped.gpt import GPT2

SCREEN = 32
"""Rows of a tree that a screen of 800 pixels has room for: its head, one for launches and 30 below."""


class Rows(HTMLParser):
    """The rows of trees that can be seen without opening anything."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.closed: list[bool] = []
        """Of each element that is open, whether it hides what is in it."""
        self.row: list[str] | None = None
        self.seen: list[str] = []
        self.feed(html.replace("<br>", ""))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "row" in (given.get("class") or "").split() and not any(self.closed[: -1 if tag == "summary" else None]):
            self.row = []
        self.closed.append(tag == "details" and "open" not in given)

    def handle_endtag(self, tag: str) -> None:
        self.closed.pop()
        if tag in ("div", "summary") and self.row is not None:
            self.seen.append(" ".join(self.row))
            self.row = None

    def handle_data(self, data: str) -> None:
        if self.row is not None:
            self.row.append(data.strip())


def leaves(tree: Module) -> list[Leaf]:
    return [leaf for part in tree.parts for leaf in ([part] if isinstance(part, Leaf) else leaves(part))]


@pytest.fixture(scope="module")
def gpt2() -> wb.Journey:
    torch.manual_seed(0)
    j = wb.trace(GPT2(layers=12, width=32, heads=2, words=64, longest=16).eval(), torch.randint(0, 64, (1, 8)))
    assert j.simulated.cycles
    return j


def long_function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(6):
        x = torch.tanh(x @ w)
        x = x * 0.5 + 1
        x = torch.softmax(x, -1)
        x = torch.relu(x) - x.mean()
        x = torch.sigmoid(x).sqrt()
    return x


@pytest.fixture(scope="module")
def thirty() -> wb.Journey:
    j = wb.trace(long_function, torch.randn(8, 8), torch.randn(8, 8))
    assert j.simulated.cycles
    return j


@pytest.mark.test_all
@pytest.mark.parametrize("which", ["gpt2", "thirty"])
def test_graphs_open_on_one_screen_and_hold_everything(which: str, request: pytest.FixtureRequest):
    j: wb.Journey = request.getfixturevalue(which)
    for stage, tree, names in (
        (j.captured, captured_tree(j.captured.record), [node.name for node in j.captured.record.nodes]),
        (j.lowered, lowered_tree(j.lowered.record), [kernel.name for kernel in j.lowered.record.kernels]),
    ):
        seen = Rows(stage.html()).seen
        assert 3 < len(seen) <= SCREEN, seen
        assert any(row.startswith("before kernels begin") for row in seen)
        assert sorted(leaf.name for leaf in leaves(tree)) == sorted(names)


@pytest.mark.test_all
def test_what_was_spent_adds_up_in_both_trees_and_is_not_there_before(gpt2: wb.Journey):
    run = gpt2.simulated
    for tree in (
        captured_tree(gpt2.captured.record, run.lowered, run.spent),
        lowered_tree(run.lowered, run.spent),
    ):
        assert tree.cost.cycles + run.spent.launching == run.cycles
        assert tree.cost.bytes == run.stats["dram_read_bytes"] + run.stats["dram_write_bytes"]
    for table in (gpt2.captured.modules, gpt2.lowered.modules):
        assert table.cycles[0] + table.cycles.iloc[-1] == run.cycles
    fresh = gpt2.with_(machine="tpu-v4")
    assert "cycles" not in Rows(fresh.captured.html()).seen[0] and not {"schedule", "simulate"} & set(fresh.seconds)
    assert fresh.captured.modules.cycles.isna().all()


@pytest.mark.parametrize("name", ["softmax_ragged", "mlp", "ffn_residual"])
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_nodes_and_kernels_share_the_makespan(name: str, machine: str):
    j = PROGRAMS[name].traced(machine=machine)
    spent = j.simulated.spent
    for each in (spent.nodes, spent.kernels):
        assert sum(cost.cycles for cost in each.values()) + spent.launching == spent.whole == j.simulated.cycles
        assert min(cost.cycles for cost in each.values()) >= 0
    assert set(spent.nodes) <= {node.name for node in j.captured.record.nodes}
    waited = j.simulated.waterfall.set_index("what").cycles
    assert spent.launching == waited.get("launch", 0)


def test_a_step_on_the_host_has_its_cycles():
    with pytest.warns(HostRoute):
        j = wb.trace(lambda x: torch.mode(torch.relu(x), 0)[0], torch.randn(16, 16))
    spent = j.simulated.spent
    (host,) = [kernel.name for kernel in j.lowered.record.kernels if kernel.kind == "host"]
    assert spent.nodes["mode"].cycles == spent.kernels[host].cycles > 0


@pytest.mark.test_all
def test_what_has_room_is_open_the_costliest_first(gpt2: wb.Journey):
    tree = captured_tree(gpt2.captured.record, gpt2.lowered.record, gpt2.simulated.spent)
    shown = opened(tree)
    assert tree in shown
    assert sum(len(module.parts) for module in shown) <= MOST_ROWS
    assert "layers" in {module.path for module in shown}


@pytest.mark.test_all
def test_layers_that_are_alike_are_folded_into_one(gpt2: wb.Journey):
    tree = captured_tree(gpt2.captured.record, gpt2.lowered.record, gpt2.simulated.spent)
    found = {leaf.title: leaf for leaf in leaves(folded(tree))}
    assert found["layers.0-11.narrow"].cost.cycles == sum(
        leaf.cost.cycles for leaf in leaves(tree) if leaf.title.endswith(".narrow")
    )
    assert len(found["layers.0-11.narrow"].calls) == 12
    assert folded(tree).cost == tree.cost and len(folded(tree).calls) == len(tree.calls)


@pytest.mark.test_all
def test_modules_that_differ_are_not_folded():
    net = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 4), BasicBlock(4, 8, 2), BasicBlock(8, 8)).eval()
    graph = wb.capture(net, torch.randn(1, 4, 8, 8)).record
    assert [part.title for part in folded(captured_tree(graph)).parts] == ["0-1", "2", "3"]


def test_a_kernel_of_several_modules_stands_at_the_one_that_holds_them():
    net = nn.Sequential(BasicBlock(4, 4), nn.Flatten(), nn.Linear(256, 3)).eval()
    tree = lowered_tree(wb.trace(net, torch.randn(1, 4, 8, 8)).lowered.record)
    assert {leaf.title: leaf.module for leaf in leaves(tree)} == {
        "0.bn1 (add + rsqrt + mul + 2 more)": "0.bn1",
        "0.conv1 + bn1 + relu": "0",
        "0.bn2 (add + rsqrt + mul + 2 more)": "0.bn2",
        "0.conv2 + bn2": "0",
        "0.add + relu + linear": "",
    }
