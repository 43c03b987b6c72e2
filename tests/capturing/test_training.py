"""A traced training step changes parameters, gradients and optimizers' states as PyTorch does, step after step."""

from __future__ import annotations

import copy
import functools
import importlib
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import workbench as wb
from tests.flow import capture
from workbench.checking.drawn_roundings import roundings_drawn
from workbench.ground import errors
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


@pytest.mark.test_all
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


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
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


@pytest.mark.test_all
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


def captured(step: Callable[..., object], *inputs: object) -> AtenGraph:
    return capture(step, inputs, train=True).graph


@pytest.mark.test_all
def test_lists_and_single_tensors_give_the_same_updates() -> None:
    for options in ({"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"lr": 0.1}):
        model = mlp()
        counts = [
            len(
                captured(
                    stepping(model, torch.optim.SGD(model.parameters(), foreach=foreach, **options)), *classes()
                ).nodes
            )
            for foreach in (False, True)
        ]
        assert counts[0] == counts[1]
    model = mlp()
    graph = captured(stepping(model, torch.optim.AdamW(model.parameters(), foreach=True)), *classes())
    assert not any("foreach" in node.op for node in graph.nodes)


@pytest.mark.test_all
def test_gradients_are_kept_added_up_and_clipped() -> None:
    model, (x, y) = mlp(), classes()
    other = copy.deepcopy(model)

    def two_halves(model: nn.Module) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            for part in (0, 1):
                F.cross_entropy(model(x[part::2]), y[part::2]).backward()
            return nn.utils.clip_grad_norm_(model.parameters(), 0.5)

        return step

    journey, eager = wb.trace(two_halves(model), x, y, train=True), two_halves(other)
    assert all(each.grad is None for each in model.parameters()) and not hosted(journey)
    for _ in range(3):  # each adds to what the one before left
        torch.testing.assert_close(journey.run(x, y), eager(x, y), rtol=1e-5, atol=1e-6)
        for one, two in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-5, atol=1e-6)
    graph = journey.captured.record
    assert {given.kind for given in graph.inputs} == {"user", "parameter", "gradient"}
    assert {node.origin.part for node in graph.nodes if "norm" in node.op} == {STEP}, "clipping is part of the step"
    assert journey.check().ok
    model[0].weight.grad = None  # type: ignore[index]
    other[0].weight.grad = None  # type: ignore[index]
    torch.testing.assert_close(journey.run(x, y), eager(x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.test_all
def test_dropout_draws_what_eager_draws_and_autocast_casts() -> None:
    model, (x, y) = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4)), classes()
    other = copy.deepcopy(model)
    mine, theirs = adamw(model), adamw(other)

    def narrow(step: Step) -> Step:
        def autocast(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return step(x, y)

        return autocast

    with pytest.warns(errors.HostRoute, match="bernoulli"):
        journey = wb.trace(narrow(stepping(model, mine)), x, y, train=True)
    assert [name.rsplit("_", 1)[1] for name in hosted(journey)] == ["bernoulli"]
    assert journey.check().ok
    eager = narrow(stepping(other, theirs))
    losses: list[list[float]] = []
    for step in (journey.run, eager):
        torch.manual_seed(3)
        losses.append([float(step(x, y)) for _ in range(3)])  # type: ignore[arg-type]
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)


def lr_changes(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    schedule, step = torch.optim.lr_scheduler.StepLR(optimizer, 1), stepping(model, optimizer)

    def scheduled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = step(x, y)
        schedule.step()
        return loss

    return scheduled


def counts(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    steps, step, seen = 0, stepping(model, optimizer), list[int]()

    def counted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        nonlocal steps
        steps += 1
        seen.append(steps)
        return step(x, y)

    return counted


def of_loss(change: Callable[[torch.Tensor, nn.Module], object]) -> Callable[[nn.Module, torch.optim.Optimizer], Step]:
    def made(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            return change(F.cross_entropy(model(x), y), model)

        return step

    return made


def twice(loss: torch.Tensor, model: nn.Module) -> None:
    loss.backward()
    loss.backward()


def number(loss: torch.Tensor, model: nn.Module) -> float:
    loss.backward()
    return loss.item()


def masked(loss: torch.Tensor, model: nn.Module) -> None:
    first = next(model.parameters())
    (loss + first[first > 0].sum()).backward()


def overwritten(loss: torch.Tensor, model: nn.Module) -> None:
    x = torch.ones(3, 8, requires_grad=True).sigmoid()
    made = x * 2
    x.add_(1)
    (made.sum() + loss).backward()


def again(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.optim.LBFGS(model.parameters()).step(lambda: F.cross_entropy(model(x), y))

    return step


def plain(change: Callable[[nn.Module, torch.optim.Optimizer], object]) -> Callable[..., Step]:
    """Steps that do something else besides the backward pass."""

    def made(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            F.cross_entropy(model(x), y).backward()
            change(model, optimizer)

        return step

    return made


def other_data(model: nn.Module, _: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        parameter.data -= 0.1 * parameter.grad  # type: ignore[operator]


def behind_a_scheduler(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        F.cross_entropy(model(x), y).backward()
        schedule.optimizer.step()

    return step


def hidden(model: nn.Module, _: torch.optim.Optimizer) -> Step:
    models = deque([model])
    return lambda x, y: F.cross_entropy(models[0](x), y).backward()


def from_a_loader(model: nn.Module, _: torch.optim.Optimizer) -> Step:
    batches = iter([classes()] * 9)
    return lambda _, y: F.cross_entropy(model(next(batches)[0]), y).backward()


def in_a_deque(model: nn.Module, _: torch.optim.Optimizer) -> Step:
    losses, seen = deque[torch.Tensor](maxlen=3), set[int]()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        losses.append(loss.detach())
        seen.add(1)

    return step


class Counting(torch.optim.Optimizer):
    """Counts its steps in an attribute, and those of each parameter in a number."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})
        self.calls = 0

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        self.calls += 1
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["count"] = self.state[parameter].get("count", 0) + 1
            parameter.sub_(parameter.grad, alpha=0.1)


def dropped_again(model: nn.Module, _: torch.optim.Optimizer) -> Step:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        out = checkpoint(lambda x: F.dropout(model(x), 0.5), x, use_reentrant=False)
        F.cross_entropy(out, y).backward()

    return step


def scheduled(model: nn.Module, _: torch.optim.Optimizer) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()

    return step


def by_a_transform(model: nn.Module, _: torch.optim.Optimizer) -> Step:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        F.cross_entropy(model(x), y).backward()
        return torch.func.grad(lambda x: x.sin().sum())(x)

    return step


def compiled_inside(model: nn.Module, _: torch.optim.Optimizer) -> Step:
    compiled = torch.compile(model, backend="eager")
    return lambda x, y: F.cross_entropy(compiled(x), y).backward()


def branching(loss: torch.Tensor, _: object) -> None:
    torch.cond(loss > 0, torch.sin, torch.cos, (loss,)).backward()


REFUSED: dict[str, tuple[Callable[[nn.Module, torch.optim.Optimizer], Step], str]] = {
    "a schedule": (lr_changes, r"changes the optimizer's lr.*outside of the step; .* lr=torch\.tensor"),
    "a schedule of a tensor": (scheduled, r"calls a scheduler of learning rates.*scheduler\.step\(\) after j\.run"),
    "a transform": (by_a_transform, r"takes gradients by a transform.*test_training\.py:\d+\. Take them by torch"),
    "a compiled model": (compiled_inside, r"calls a function that torch\.compile made.*_orig_mod"),
    "a branch": (of_loss(branching), r"calls torch\.cond.*torch\.where"),
    "a counter": (counts, r"changes steps, the list seen in Python"),
    "twice": (of_loss(twice), r"a second time.*, at .*test_training\.py:\d+\. Give retain_graph=True"),
    "a number": (
        of_loss(number),
        r"a number or a decision of a tensor's data.*test_training\.py:\d+.*loss\.detach\(\)",
    ),
    "a mask": (of_loss(masked), r"as many elements.*, at .*test_training\.py:\d+\. Keep the shape: torch\.where\(mask"),
    "a variance": (
        of_loss(lambda loss, _: F.gaussian_nll_loss(loss, loss * 2, loss * loss).backward()),
        r"gaussian_nll_loss looks whether a variance is below zero.*Write the loss out",
    ),
    "no gradients": (of_loss(lambda loss, _: loss), r"takes no gradients\. Give a function .*loss\.backward\(\)"),
    "a constant": (of_loss(lambda loss, _: loss.detach().backward()), r"depends on nothing that requires a gradient"),
    "several losses": (of_loss(lambda loss, _: (loss + torch.ones(2)).backward()), r"a tensor of several elements"),
    "again": (again, r"LBFGS\.step is given a function that computes the loss again"),
    "other data": (plain(other_data), r"gives a tensor other data.*test_training\.py:\d+.*no_grad\(\): p -="),
    "a hidden optimizer": (behind_a_scheduler, r"steps an optimizer \(SGD\) that the trace does not find"),
    "a hidden model": (hidden, r"uses a parameter of shape \(16, 8\) that the trace does not find"),
    "a loader": (from_a_loader, r"uses a tensor of shape \(5, 8\) that the trace does not find.*next\(batches\)"),
    "a deque": (in_a_deque, r"changes the deque losses, the set seen in Python"),
    "a counting optimizer": (
        lambda model, _: stepping(model, Counting(model.parameters())),
        r"changes Counting\.calls, Counting\.state\[\.\.\.\]\['count'\] in Python",
    ),
    "a checkpoint": (dropped_again, r"its backward pass draws random numbers"),
    "a seed": (plain(lambda *_: torch.manual_seed(0)), r"calls torch\.manual_seed.*Seed outside of the step"),
    "a draw": (plain(lambda *_: random.random()), r"changes the state of Python's random generator"),
    "a type": (plain(lambda *_: torch.set_default_dtype(torch.float64)), r"changes PyTorch's default type"),
    "fused": (
        lambda model, _: stepping(model, torch.optim.AdamW(model.parameters(), fused=True)),
        r"fused=True.*fused=False",
    ),
    "in place": (of_loss(overwritten), r"a tensor that the backward pass reads is changed in place"),
}


@pytest.mark.test_all(but=6)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_step_is_refused_and_leaves_nothing_behind(name: str) -> None:
    make, message = REFUSED[name]
    model = mlp()
    optimizer = sgd(model)
    step, before = make(model, optimizer), copy.deepcopy(model.state_dict())
    inputs = classes()
    drawn = random.getstate(), torch.get_rng_state()
    lr, cells = optimizer.param_groups[0]["lr"], [repr(cell.cell_contents) for cell in step.__closure__ or ()]
    with pytest.raises(errors.NoTrainingStep, match=rf"(?s)cannot be traced as a training step: .*{message}"):
        captured(step, *inputs)
    assert not optimizer.state and all(each.grad is None for each in model.parameters())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(type(each) is nn.Parameter and type(each.data) is torch.Tensor for each in model.parameters())
    assert random.getstate() == drawn[0] and torch.equal(torch.get_rng_state(), drawn[1])
    assert torch.get_default_dtype() is torch.float32
    assert optimizer.param_groups[0]["lr"] == lr
    assert [repr(cell.cell_contents) for cell in step.__closure__ or ()] == cells


@pytest.mark.test_all
def test_an_optimizer_with_other_numbers_is_refused_and_tensors_follow() -> None:
    model, (x, y) = mlp(), classes()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = capture(stepping(model, optimizer), (x, y), train=True)
    optimizer.param_groups[0]["lr"] = 0.01
    with pytest.raises(
        errors.InputMismatch, match=r"optimizer's lr was 0\.1 when the step was traced, and is 0\.01 now"
    ):
        program.values((x, y))
    rate = torch.tensor(0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    graph = captured(stepping(model, optimizer), x, y)
    assert [given.path for given in graph.inputs if given.kind == "state"] == ["optimizer.param_groups[0]['lr']"]


@pytest.mark.test_all
def test_momentum_that_begins_otherwise_needs_a_first_step_of_pytorchs() -> None:
    model, (x, y) = mlp(), classes()
    step = stepping(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5))
    with pytest.raises(errors.NoTrainingStep, match=r"first step .*momentum_buffer in another way.*Let PyTorch do"):
        captured(step, x, y)
    step(x, y)
    assert captured(step, x, y).mutations


def test_an_input_that_requires_a_gradient_is_refused() -> None:
    model, (x, y) = mlp(), classes()
    with pytest.raises(errors.NoTrainingStep, match=r"its input x requires a gradient.*x\.detach\(\)"):
        captured(stepping(model, sgd(model)), x.requires_grad_(), y)


@pytest.mark.test_all
def test_hooks_frozen_and_shared_parameters_and_second_derivatives() -> None:
    first, (x, _) = nn.Linear(8, 8), classes()
    first.bias.requires_grad_(False)
    first.weight.register_hook(lambda gradient: gradient * 0.5)
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        hidden = first(x.clone().requires_grad_(True)).tanh()
        loss = F.mse_loss(hidden @ first.weight, x)
        (slope,) = torch.autograd.grad(loss, first.weight, create_graph=True)
        (loss + slope.square().sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    journey = wb.trace(step, x, train=True)
    assert journey.check().ok and not hosted(journey)
    assert [change.target for change in journey.captured.record.mutations] == ["first_weight"]


def test_hooks_attributes_and_flags_of_tensors_are_as_before() -> None:
    model, (x, y) = mlp(), classes()

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        F.cross_entropy(model(x), y).backward()
        weight, bias = model[0].weight, model[0].bias  # type: ignore[index]
        weight.register_hook(lambda gradient: gradient)
        weight.seen = weight * 2
        bias.requires_grad_(False)

    captured(step, x, y)
    weight, bias = model[0].weight, model[0].bias  # type: ignore[index]
    assert not weight._backward_hooks and not vars(weight) and bias.requires_grad


def frozen() -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """A model whose first weight is frozen after a step, while it has a gradient and momentum."""
    torch.manual_seed(1)
    model = nn.Linear(8, 4)
    optimizer, (x, y) = sgd(model), classes()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    model.weight.requires_grad_(False)
    return model, optimizer, stepping(model, optimizer)


@pytest.mark.test_all
def test_frozen_parameters_with_gradients_and_momentum_go_as_with_eager() -> None:
    (model, mine, step), (other, theirs, eager) = frozen(), frozen()
    x, y = classes()
    gradient, before = model.weight.grad, [each.clone() for each in state_of(mine)]
    program = capture(step, (x, y), train=True)
    assert model.weight.grad is gradient and all(map(torch.equal, before, state_of(mine)))
    paths = [given.path for given in program.graph.inputs if given.kind == "state"]
    assert len(set(paths)) == 2
    journey = wb.trace(step, x, y, train=True)
    assert journey.check().ok
    journey.run(x, y)
    eager(x, y)
    for one, two in zip([*model.parameters(), *state_of(mine)], [*other.parameters(), *state_of(theirs)], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    assert model.weight.grad is None
    with pytest.raises(errors.InputMismatch, match=r"weight, to which .* had a gradient .* and has none now"):
        journey.run(x, y)


CHANGES: dict[str, tuple[Callable[[nn.Module, torch.optim.Optimizer], object], str]] = {
    "training": (lambda model, _: model.eval(), r"\.training was True when the step was traced, and is False now"),
    "requires_grad": (lambda model, _: model[0].weight.requires_grad_(False), r"0\.weight\.requires_grad was True"),  # type: ignore[index]
    "another": (
        lambda model, _: setattr(model[0], "weight", nn.Parameter(torch.ones(16, 8))),  # type: ignore[index]
        r"0\.weight is another parameter now",
    ),
    "hooks": (lambda model, _: model[0].weight.register_hook(lambda g: g), r"number of hooks of .*0\.weight was 0"),  # type: ignore[index]
    "hooks of the optimizer": (
        lambda _, optimizer: optimizer.register_step_pre_hook(lambda *_: None),
        "of the optimizer optimizer was 0",
    ),
    "another forward": (lambda model, _: setattr(model[0], "forward", abs), r"0\.forward was that of its class"),  # type: ignore[index]
    "a group": (lambda _, optimizer: optimizer.param_groups[0]["params"].pop(), r"group 0 has other parameters"),
    "a number": (lambda _, optimizer: optimizer.param_groups[0].update(lr=0.1), r"lr was a tensor.*and is 0\.1 now"),
}


@pytest.mark.test_all
@pytest.mark.parametrize("name", CHANGES)
def test_a_run_under_other_conditions_is_refused(name: str) -> None:
    change, message = CHANGES[name]
    model, (x, y) = mlp(), classes()
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    program = capture(stepping(model, optimizer), (x, y), train=True)
    program.values((x, y))
    change(model, optimizer)
    with pytest.raises(errors.InputMismatch, match=message):
        program.values((x, y))


def test_hooks_of_all_optimizers_are_conditions_too() -> None:
    model, (x, y) = mlp(), classes()
    program = capture(stepping(model, sgd(model)), (x, y), train=True)
    hook = importlib.import_module("torch.optim.optimizer").register_optimizer_step_pre_hook(lambda *_: None)
    try:
        with pytest.raises(errors.InputMismatch, match=r"number of hooks of all optimizers was 0 .* is 1 now"):
            program.values((x, y))
    finally:
        hook.remove()
    program.values((x, y))


def test_hooks_with_which_another_thread_traces_a_step_are_no_conditions() -> None:
    (model, (x, y)), (other, _) = (mlp(), classes()), (mlp(), classes())
    program, plain = capture(stepping(model, sgd(model)), (x, y), train=True), stepping(other, sgd(other))
    again = functools.partial(program.values, (x, y))

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(again).result()
        return plain(x, y)

    capture(step, (x, y), train=True)


@pytest.mark.test_all
def test_a_run_in_another_autocast_is_refused() -> None:
    (model, (x, y)), (other, _) = (mlp(), classes()), (mlp(), classes())
    around = torch.autocast("cpu", torch.bfloat16)
    plain = wb.trace(stepping(model, sgd(model)), x, y, train=True)
    with around, pytest.raises(errors.InputMismatch, match=r"was no autocast around the trace .* is autocast to bf16"):
        plain.run(x, y)
    with around:
        cast = wb.trace(stepping(other, sgd(other)), x, y, train=True)
        cast.run(x, y)
    assert cast.check().ok
    with pytest.raises(errors.InputMismatch, match=r"was autocast to bf16 around the trace .* is no autocast"):
        cast.run(x, y)


@pytest.mark.test_all
def test_a_batch_that_counts_for_nothing_changes_no_weight() -> None:
    """PyTorch's loss is NaN there, a sum of nothing over nothing, but its gradients are zero."""
    model, (x, y) = mlp(), classes()
    j = wb.trace(stepping(model, torch.optim.SGD(model.parameters(), lr=0.1)), x, y, train=True)
    before = [each.detach().clone() for each in model.parameters()]
    assert j.run(x, torch.full_like(y, -100)).isnan()  # type: ignore[union-attr]
    assert all(map(torch.equal, before, model.parameters()))


def test_train_is_yes_or_no_and_excludes_export() -> None:
    model, (x, y) = mlp(), classes()
    step = stepping(model, sgd(model))
    with pytest.raises(errors.BadOption, match=r"train='yes' is no answer; expected True"):
        wb.trace(step, x, y, train="yes")  # type: ignore[arg-type]
    with pytest.raises(errors.BadOption, match=r"capture='export' and train=True exclude each other"):
        wb.trace(step, x, y, train=True, capture="export")


class Momentum(torch.optim.Optimizer):
    """Makes its state at the first step."""

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if "average" not in state:
                state["average"] = torch.zeros_like(parameter)
            parameter.sub_(state["average"].mul_(0.9).add_(parameter.grad), alpha=0.1)


@pytest.mark.test_all
def test_an_optimizer_of_ones_own_keeps_its_tensors() -> None:
    model, (x, y) = mlp(), classes()
    optimizer = Momentum(model.parameters(), {})
    graph = captured(stepping(model, optimizer), x, y)
    assert [given.path.rsplit(".", 1)[1] for given in graph.inputs if given.kind == "state"] == ["average"] * 4
    assert not optimizer.state


def step_of_adam(parameter: nn.Parameter, weights: torch.Tensor) -> Callable[[], torch.Tensor]:
    optimizer = torch.optim.AdamW([parameter], lr=0.01, eps=1e-6)

    def step() -> torch.Tensor:
        loss = (parameter * weights).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.test_all
def test_sixteen_bits_are_rounded_where_pytorch_rounds_them():
    """The quotient of tiny numbers times a factor: rounded in between, it would lose a fifth."""
    weights = torch.tensor([-1.478e-05, 3e-4, 0.25], dtype=torch.float16)
    ours, theirs = (nn.Parameter(torch.tensor([0.46, -1.5, 2.0], dtype=torch.float16)) for _ in range(2))
    wb.trace(step_of_adam(ours, weights), train=True).run()
    step_of_adam(theirs, weights)()
    assert torch.equal(ours.detach(), theirs.detach())


@pytest.mark.test_all
def test_gradients_after_zero_grad_are_the_tensors_that_the_backward_pass_makes() -> None:
    model = mlp()
    optimizer = sgd(model)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    j = wb.trace(step, *classes(), train=True)
    assert not any("copy" in op for op in j.captured.table.op) and j.check().ok
    expected = copy.deepcopy(model)
    x, y = classes()
    F.cross_entropy(expected(x), y).backward()
    j.run(x, y)
    for mine, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_gradient_that_two_parameters_share_is_copied_once() -> None:
    one, other = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))
    one.grad, other.grad = torch.zeros(3), torch.zeros(3)

    def step(x: torch.Tensor) -> None:
        one.grad = other.grad = None
        ((one + other) * x).sum().backward()

    j = wb.trace(step, torch.randn(3), train=True)
    assert sum("copy" in op for op in j.captured.table.op) == 1 and j.check().ok


@pytest.mark.test_all
def test_running_statistics_have_no_history_after_a_trace() -> None:
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.InstanceNorm1d(4, affine=True, track_running_stats=True))

    def step(x: torch.Tensor) -> None:
        model(x).square().mean().backward()

    x = torch.randn(3, 2, 6)
    assert wb.trace(step, x, train=True).check().ok
    assert all(each.is_leaf and not each.requires_grad for each in model.buffers())
    step(x)


@pytest.mark.test_all
def test_a_buffer_that_takes_a_number_with_a_history_has_none_after_a_check() -> None:
    model = nn.Linear(4, 3)
    model.register_buffer("last", torch.zeros(3))

    def step(x: torch.Tensor) -> None:
        made = model(x)
        model.last.copy_(made.mean(0))
        made.square().mean().backward()

    assert wb.trace(step, torch.randn(2, 4), train=True).check().ok and model.last.is_leaf


@pytest.mark.test_all
def test_a_step_with_a_tangent_is_checked() -> None:
    """Roundings are not drawn where tensors have tangents, which ended the process."""
    model, x = mlp(), torch.randn(6, 8)

    def step(x: torch.Tensor) -> None:
        torch.func.jvp(model, (x,), (torch.ones_like(x),))[1].square().mean().backward()

    assert wb.trace(step, x, train=True).check().ok
    with roundings_drawn(0), torch.enable_grad():
        step(x)
