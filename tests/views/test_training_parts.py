"""The parts of a training step on the timeline, and what lies in DRAM meanwhile."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import workbench as wb
from workbench.explaining.views.timelines.dram_contents import BETWEEN, SAVED
from workbench.explaining.views.timelines.timeline import gantt_of
from workbench.explaining.views.timelines.training_parts import NO_PARTS
from workbench.ground.errors import HostRoute


def journey(*, twice: bool) -> Any:
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24)) for _ in range(2))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False) if twice else layer(x)
        loss = F.mse_loss(x, wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return wb.trace(step, torch.randn(16, 24), torch.randn(16, 24), train=True, machine="edge-8x8")


@pytest.fixture(scope="module")
def kept() -> Any:
    return journey(twice=False)


@pytest.fixture(scope="module")
def again() -> Any:
    return journey(twice=True)


@pytest.mark.test_all
def test_parts_add_up_to_the_whole(kept: Any) -> None:
    table = kept.simulated.parts.table
    assert list(table.part) == ["forward", "backward", "step"]
    assert table.cycles.sum() == kept.simulated.cycles
    assert table.launches.sum() == len(kept.lowered.kernels)
    stats = kept.simulated.stats
    assert table.bytes_read.sum() == stats["dram_read_bytes"]
    assert table.bytes_written.sum() == stats["dram_write_bytes"]


@pytest.mark.test_all
def test_launches_that_are_taken_out_keep_their_work(kept: Any) -> None:
    trace, launches = kept.simulated.trace, [1, 3]
    picture, whole = gantt_of(trace, launches), gantt_of(trace)
    mine = {int(row) for row in range(len(trace)) if trace.launch[row] in launches}
    assert set(picture.row.tolist()) == mine
    lengths = dict(zip(whole.row.tolist(), (whole.end - whole.start).tolist(), strict=True))
    assert (picture.end - picture.start).tolist() == [lengths[row] for row in picture.row.tolist()]
    ends = [0, *(end for _, _, end in trace.kernel_spans)]
    assert picture.makespan == sum(ends[launch + 1] - ends[launch] for launch in launches)
    assert picture.end.max() <= picture.makespan and picture.start.min() >= 0
    assert [band.kernel for band in picture.bands] == [trace.kernels[launch] for launch in launches]


@pytest.mark.test_all
def test_what_is_saved_grows_forward_and_shrinks_backward(kept: Any) -> None:
    table = kept.simulated.dram.table
    forward, backward = (table[table.part == part][SAVED] for part in ("forward", "backward"))
    assert forward.is_monotonic_increasing and forward.iloc[-1] > 0
    assert backward.is_monotonic_decreasing and backward.iloc[-1] < forward.iloc[-1]
    assert not table[table.part == "step"][SAVED].any()
    assert kept.simulated.dram.peak == table["all"].max()


def test_every_storage_is_counted_while_it_is_there(kept: Any) -> None:
    there = set(kept.simulated.dram.tensors.tensor)
    assert "gradients" not in set(kept.simulated.dram.tensors.kind)  # its step begins with zero_grad()
    storages = [each for each in kept.scheduled.record.launches.storages if each.value in there]
    gone = {each.value for each in kept.scheduled.record.launches.storages} - there
    assert gone and all(value.endswith("_grad") for value in gone)
    for number, row in enumerate(kept.simulated.dram.table.itertuples()):
        assert row.all == sum(each.bytes for each in storages if each.first <= number <= each.last)


@pytest.mark.test_all
def test_what_is_computed_again_is_not_saved(kept: Any, again: Any) -> None:
    def saved(j: Any) -> int:
        table = j.simulated.dram.table
        return table[table.part == "forward"][SAVED].iloc[-1]

    assert saved(again) < saved(kept) / 3
    assert again.check().ok
    cycles = [j.simulated.parts.table.set_index("part").cycles for j in (kept, again)]
    assert cycles[1].backward > cycles[0].backward


def test_no_kernel_is_part_of_both_passes(again: Any) -> None:
    lowered = again.lowered.record
    for kernel in lowered.kernels:
        parts = {lowered.node(name).node.origin.part for name in kernel.nodes}
        assert "forward" not in parts or len(parts) == 1
    assert any("no kernel is part of both" in reason for reason in again.lowered.fusions.reason)


def test_pictures_and_texts(kept: Any) -> None:
    for html in (kept.simulated.parts.html(), kept.simulated.dram.html()):
        svgs = str(html).split("<svg")[1:]
        assert svgs
        for svg in svgs:
            ElementTree.fromstring("<svg" + svg.partition("</svg>")[0] + "</svg>")
    assert "backward" in kept.simulated.parts.text()
    assert f"{kept.simulated.dram.peak:,} bytes" in kept.simulated.dram.text()
    assert repr(kept.simulated.parts).startswith("PartsView(forward ")


def test_inference_has_no_parts_and_says_so() -> None:
    j = wb.trace(lambda x: torch.relu(x) @ x, torch.randn(8, 8))
    assert j.simulated.parts.text() == NO_PARTS
    assert NO_PARTS in j.simulated.parts.html()
    with pytest.warns(UserWarning, match="no training step"):
        assert j.simulated.parts.table.empty
    table = j.simulated.dram.table
    assert not table[SAVED].any() and set(table.part) == {""}
    assert set(j.simulated.dram.tensors.kind) <= {"inputs", "results", BETWEEN}


def test_drawings() -> None:
    pytest.importorskip("matplotlib")
    j = wb.trace(lambda x: x + 1, torch.randn(8))
    for style in ("light", "dark"):
        assert j.simulated.dram.plot(style=style, width=6).get_ylabel() == "MB in DRAM"
        assert j.simulated.parts.plot(style=style).axes


@pytest.mark.test_all
def test_an_optimizers_kernels_have_their_parameter_and_stand_together():
    model = nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    with pytest.warns(HostRoute):
        traced = wb.trace(step, torch.randn(4, 8), train=True)
    table = traced.lowered.kernel_table
    titles = set(table[table.part == "step"].title.str.partition(": ")[0])
    assert {"model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias"} < titles
    assert any(title.startswith("linalg_vector_norm") for title in titles), "which is of all of them"
    modules = set(traced.lowered.modules.module)
    assert {"optimizer step.model.0", "optimizer step.model.2"} <= modules | set(traced.lowered.modules.title)
    assert "training mode" not in set(traced.findings.rule)
    saved = traced.captured.saved
    assert saved[saved.path == "model.2.weight"].op.tolist() == [""]
    assert set(saved[saved.op != ""].file) == {__file__}


@pytest.mark.test_all
def test_a_compiled_models_names_are_those_of_the_program():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.encoder(x).relu()

    for model, module in ((Net(), "encoder"), (nn.Sequential(nn.Linear(4, 3)), "0")):
        torch._dynamo.reset()
        torch.compile(model, backend="npu")(torch.randn(2, 4)).sum().backward()
        forward, _ = wb.last_journeys()
        assert {node.origin.module for node in forward.captured.record.nodes} >= {module}
    torch._dynamo.reset()


@pytest.mark.test_all
def test_gradients_that_a_step_throws_away_first_are_not_there() -> None:
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fresh(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    def added(x: torch.Tensor) -> None:
        model(x).square().sum().backward()
        optimizer.step()

    kinds = [wb.trace(step, torch.randn(3, 8), train=True).simulated.dram.tensors.kind for step in (fresh, added)]
    assert "gradients" not in set(kinds[0]) and (kinds[1] == "gradients").sum() == 2
