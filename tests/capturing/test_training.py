"""A traced training step changes parameters, gradients and optimizers' states as PyTorch does, step after step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from workbench.ir import BACKWARD, FORWARD, HOST, STEP, AtenGraph

Step = Callable[..., torch.Tensor]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def classes(count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 8), torch.randint(0, 4, (count,))


def stepping(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def hosted(journey: wb.Journey) -> list[str]:
    return [kernel.name for kernel in journey.lowered.record.kernels if kernel.kind == HOST]


def state_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value for entries in optimizer.state.values() for value in entries.values() if torch.is_tensor(value)]


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


class Pictures(nn.Module):
    """Convolutions with strides, norms of the batch, both pools."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6), nn.SiLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(24, 4),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Words(nn.Module):
    """A transformer over an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(16, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(self.embedding(x))).flatten(0, 1)


def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 3, 16, 16), torch.randint(0, 4, (4,))


def words() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 11, (2, 6)), torch.randint(0, 11, (12,))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def test_steps_go_as_with_eager_and_a_trace_leaves_no_trace() -> None:
    model = mlp()
    other, (x, y) = copy.deepcopy(model), classes()
    mine, theirs = sgd(model), sgd(other)
    before, versions = copy.deepcopy(model.state_dict()), [each._version for each in model.parameters()]
    journey = wb.trace(stepping(model, mine), x, y, train=True)
    assert versions == [each._version for each in model.parameters()] and not hosted(journey)
    assert journey.check().ok
    assert not mine.state and all(each.grad is None for each in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    eager = stepping(other, theirs)
    for _ in range(3):
        x, y = classes()
        torch.testing.assert_close(journey.run(x, y), eager(x, y), rtol=1e-5, atol=1e-6)
    for one, two in zip([*model.parameters(), *state_of(mine)], [*other.parameters(), *state_of(theirs)], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    assert all(each.grad is None for each in model.parameters()) and len(state_of(mine)) == 4
    assert journey.check().ok


def without_keys_bias(name: str, *values: torch.Tensor) -> list[torch.Tensor]:
    if not name.endswith("in_proj_bias"):
        return list(values)
    third = len(values[0]) // 3
    return [torch.cat([each[:third], each[2 * third :]]) for each in values]


TRAINED = {
    "mlp, sgd": (mlp, sgd, classes),
    "mlp, adamw": (mlp, adamw, classes),
    "pictures, sgd": (Pictures, sgd, pictures),
    "words, adamw": (Words, adamw, words),
}


@pytest.mark.parametrize("name", TRAINED)
def test_fifty_steps_beside_eager(name: str) -> None:
    """Both round each step differently, by a few units of 1e-7, and training carries the difference on.

    A step changes a weight by at most about the learning rate, 1% of it if gradients differ in the last digits only
    where they nearly cancel; over fifty steps the weights stay within 1e-3 of each other and the losses within 1e-3 of
    their size. The bias of the keys is left out: a softmax does not depend on it, its gradient is nothing but rounding,
    and AdamW divides that by its own size. A wrong factor in any gradient would be seen after one step, which `check`
    compares element by element.
    """
    build, optimizer_of, data = TRAINED[name]
    model = build()
    other = copy.deepcopy(model)
    mine, theirs = optimizer_of(model), optimizer_of(other)
    journey = wb.trace(stepping(model, mine), *data(), train=True)
    assert not hosted(journey)
    eager = stepping(other, theirs)
    for _ in range(50):
        inputs = data()
        torch.testing.assert_close(journey.run(*inputs), eager(*inputs), rtol=1e-3, atol=1e-3)
    for key, value in model.state_dict().items():
        torch.testing.assert_close(*without_keys_bias(key, value, other.state_dict()[key]), rtol=1e-3, atol=1e-3)
    assert journey.check(*data()).ok


def test_parts_and_what_is_saved_between_them(tmp_path: Any) -> None:
    model = mlp()
    journey = wb.trace(stepping(model, sgd(model)), *classes(), train=True)
    graph = journey.captured.record
    parts = {node.op.split(".")[1]: node.origin.part for node in graph.nodes}
    assert (parts["relu"], parts["nll_loss_forward"], parts["threshold_backward"]) == (FORWARD, FORWARD, BACKWARD)
    updates = [node for node in graph.nodes if node.origin.part == STEP]
    assert len(updates) == 12 and {node.op.split(".")[1] for node in updates} == {"mul", "add"}
    backward = next(node for node in graph.nodes if node.op == "aten.threshold_backward.default")
    assert backward.origin.module == "model.1", "the backward pass of a layer is at the layer"
    assert set(graph.saved) == {"x", "y", "relu", "model_2_weight", "log_softmax", "nll_loss_forward.1"}
    assert {given.kind for given in graph.inputs} == {"user", "parameter", "state"}
    assert journey.captured.saved.bytes.sum() == 4 * (5 * 8 + 2 * 5 + 5 * 16 + 4 * 16 + 5 * 4 + 1)
    kernels = journey.lowered.kernel_table.part.tolist()
    assert sorted({*kernels}) == sorted({FORWARD, BACKWARD, STEP})
    counts = ", ".join(f"{part} {kernels.count(part)}" for part in (FORWARD, BACKWARD, STEP))
    assert counts.replace(",", " kernels,", 1) in journey.overview.text()
    assert " backward:" in journey.captured.text() and "kept for the backward pass: " in journey.captured.text()
    journey.save(tmp_path / "step.journey")
    assert wb.load(tmp_path / "step.journey").captured.record == graph
    assert AtenGraph.from_json(graph.to_json()) == graph
