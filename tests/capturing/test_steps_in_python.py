"""Effects of a training step in Python, and its names there: caches, counters, hooks, numbers; and its reads."""

from __future__ import annotations

import functools
import itertools
import logging
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as MODULES
from torch.utils.hooks import RemovableHandle

import workbench as wb
from tests.flow import capture
from workbench.ground import errors
from workbench.ir import STEP

Step = Callable[[torch.Tensor], torch.Tensor]

X = torch.randn(3, 4)


@functools.lru_cache(None)
def mask(size: int) -> tuple[torch.Tensor, int]:
    return torch.ones(size, size).triu(), size


class Cached(nn.Linear):
    """Keeps tensors and a count in its class."""

    kept: dict[int, torch.Tensor] = {}  # noqa: RUF012
    first: torch.Tensor | None = None
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if 3 not in Cached.kept:
            Cached.kept[3] = torch.ones(3)
        return super().forward(x) * Cached.kept[3]


class Attribute(Cached):
    """Makes a tensor an attribute of its class."""

    @classmethod
    def ones(cls) -> torch.Tensor:
        if cls.first is None:
            cls.first = torch.ones(3)
        return cls.first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias) * self.ones()


class Counted(Cached):
    """Counts its calls in its class."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        type(self).calls += 1
        return F.linear(x, self.weight, self.bias) * type(self).calls


class Slots:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


def linear() -> nn.Module:
    return nn.Linear(4, 3)


def step_of(model: nn.Module, factor: Callable[[], Any] = lambda: 1.0) -> Step:
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (model(x) * factor()).square().mean()
        loss.backward()
        return loss.detach()

    return step


def masked() -> tuple[nn.Module, Callable[[], Any]]:
    mask.cache_clear()
    return linear(), lambda: mask(3)[0]


def in_class(kind: type[Cached]) -> Callable[[], tuple[nn.Module, Callable[[], Any]]]:
    def made() -> tuple[nn.Module, Callable[[], Any]]:
        Cached.kept.clear()
        kind.first, kind.calls = None, 0
        return kind(4, 3), lambda: 1.0

    return made


CACHES = {
    "lru_cache": (masked, r"keeps a tensor that it makes.*lru_cache.*test_steps_in_python\.py:\d+\. Call the function"),
    "a dict of a class": (in_class(Cached), r"changes a dict at 3.*one call in PyTorch before the trace"),
    "a class": (in_class(Attribute), r"changes Attribute\.first in Python"),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", CACHES)
def test_no_cache_keeps_a_tensor_of_the_trace_and_a_full_one_is_read(name: str) -> None:
    make, message = CACHES[name]
    model, factor = make()
    step = step_of(model, factor)
    with pytest.raises(errors.NoTrainingStep, match=message):
        capture(step, (X,), train=True)
    step(X)  # with numbers, as nothing of the trace is left
    assert {torch.Tensor} == {
        type(mask(3)[0]),
        *map(type, Cached.kept.values()),
        type(X if Attribute.first is None else Attribute.first),
    }
    graph = capture(step, (X,), train=True).graph
    assert len([given for given in graph.inputs if given.kind == "closure"]) == 1


@pytest.mark.test_all
def test_a_cache_that_nothing_in_the_function_names_is_found() -> None:
    class Hidden:
        """An object that answers for no attribute of its own."""

        __slots__ = ("_kept",)

        def __call__(self) -> torch.Tensor:
            held: dict[str, Any] = self._kept[0]  # type: ignore[has-type]
            return held.setdefault("ones", torch.ones(3))

    hidden, held = Hidden(), dict[str, Any]()
    hidden._kept = (lambda: None, held)[1:]  # type: ignore[attr-defined]
    opaque = types.MappingProxyType({"it": hidden})
    with pytest.raises(errors.NoTrainingStep, match=r"keeps a tensor that it makes.*test_steps_in_python\.py:\d+"):
        capture(step_of(linear(), lambda: opaque["it"]()), (X,), train=True)
    assert not held


def test_lists_that_hooks_fill_are_refused() -> None:
    kept = list[Any]()
    model = linear()
    handle = model.weight.register_hook(lambda gradient: kept.append(gradient.norm()))
    with pytest.raises(errors.NoTrainingStep, match=r"changes the list kept in Python"):
        capture(step_of(model), (X,), train=True)
    handle.remove()
    model.register_forward_hook(lambda *given: kept.append(given[2].detach()))
    with pytest.raises(errors.NoTrainingStep, match=r"changes the list kept in Python"):
        capture(step_of(model), (X,), train=True)
    assert not kept


@pytest.mark.test_all
def test_a_global_that_is_called_like_a_method_of_the_step_is_none_of_its(monkeypatch: pytest.MonkeyPatch) -> None:
    model = linear()
    step = step_of(model)
    journey = wb.trace(step, X, train=True)
    assert "backward" in step.__code__.co_names
    monkeypatch.setitem(step.__globals__, "backward", [3])
    journey.run(X)


def in_a_module() -> tuple[nn.Module, Callable[[], Any]]:
    module = types.ModuleType("of_the_user")
    module.count = 0  # type: ignore[attr-defined]
    sys.modules["of_the_user"] = module

    def count() -> int:
        module.count += 1  # type: ignore[attr-defined]
        return module.count  # type: ignore[attr-defined]

    return linear(), count


def in_slots() -> tuple[nn.Module, Callable[[], Any]]:
    slots = Slots()

    def count() -> int:
        slots.count += 1
        return slots.count

    return linear(), count


def in_an_array() -> tuple[nn.Module, Callable[[], Any]]:
    numbers = np.zeros(1)

    def count() -> float:
        numbers[0] += 1
        return float(numbers[0])

    return linear(), count


def by_an_iterator() -> tuple[nn.Module, Callable[[], Any]]:
    numbers = itertools.count(1)
    return linear(), lambda: next(numbers)


COUNTERS = {
    "a class": (in_class(Counted), r"changes Counted\.calls in Python"),
    "a module": (in_a_module, r"changes of_the_user\.count in Python"),
    "slots": (in_slots, r"changes .*slots\.count in Python"),
    "an array": (in_an_array, r"changes the array .*numbers in Python"),
    "an iterator": (by_an_iterator, r"changes how far .*numbers has come"),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_counters_in_python_are_refused_and_put_back(name: str) -> None:
    make, message = COUNTERS[name]
    model, factor = make()
    for _ in range(2):  # the second trace finds what the first one did
        with pytest.raises(errors.NoTrainingStep, match=message):
            capture(step_of(model, factor), (X,), train=True)
    if name != "an iterator":
        assert factor() == 1 and Counted.calls == 0


class Trainer:
    """A step as a method, beside what its loop does."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
        self.model[0].weight.register_hook(lambda gradient: gradient * 1.0)
        self.weights, self.rate, self.epoch, self.losses = {"a": 1.0}, 0.5, 0, list[float]()
        self.array = np.ones(3, np.float32)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        loss = (self.model(x) * self.weights["a"] * self.rate * float(self.array[0])).square().mean()
        loss.backward()
        return loss.detach()

    def after(self, loss: torch.Tensor) -> None:
        self.epoch += 1
        self.losses.append(loss.item())

    def another_hook(self) -> None:
        self.model[0].weight._backward_hooks.clear()
        self.model[0].weight.register_hook(lambda gradient: gradient * 2.0)


SETTINGS: dict[str, tuple[Callable[[Trainer], object], str]] = {
    "a dict": (
        lambda it: it.weights.update(a=2.0),
        r"weights\['a'\] was 1\.0 when the step was traced, and is 2\.0 now",
    ),
    "an attribute": (lambda it: setattr(it, "rate", 1), r"rate was 0\.5 .* and is 1 now.*from a tensor"),
    "dropout": (lambda it: setattr(it.model[1], "p", 0.1), r"model\.1\.p was 0\.5 .* and is 0\.1 now"),
    "batch norm": (lambda it: setattr(it.model[2], "momentum", None), r"model\.2\.momentum was 0\.1 .* is None now"),
    "a hook": (Trainer.another_hook, r"0\.weight\._backward_hooks\[0\] was the function <lambda> of test_steps"),
    "an array": (lambda it: it.array.fill(2.0), r"array was an array with the digest \w+ when the step was traced"),
}


@pytest.mark.test_all
@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_with_other_numbers_in_python_is_refused(name: str) -> None:
    change, message = SETTINGS[name]
    trainer = Trainer()
    program = capture(trainer.step, (X,), train=True)
    trainer.after(torch.tensor(1.0))
    trainer.model.name = "of no interest"  # type: ignore[assignment]
    program.values((X,))
    change(trainer)
    with pytest.raises(errors.InputMismatch, match=message):
        program.values((X,))


class Shares(torch.optim.Optimizer):
    """Makes one count for all parameters."""

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        count = torch.zeros(())
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter].setdefault("count", count).add_(1)
            parameter.sub_(parameter.grad / self.state[parameter]["count"])


class Numbers(torch.nn.Module):
    """Reads its numbers in numpy, on the way of a gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return InNumpy.apply(x)  # type: ignore[no-any-return]


class InNumpy(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return torch.from_numpy(x.numpy() * 2)

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 2


def with_optimizer(kind: Any, model: nn.Module) -> Step:
    optimizer, step = kind(model.parameters()), step_of(model)

    def stepped(x: torch.Tensor) -> torch.Tensor:
        loss = step(x)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return stepped


def reads(read: Callable[[torch.Tensor], Any]) -> Callable[[], Step]:
    def made() -> Step:
        step = step_of(linear())

        def reading(x: torch.Tensor) -> torch.Tensor:
            loss = step(x)
            read(x)
            read(loss)
            return loss

        return reading

    return made


def in_a_buffer() -> Step:
    model, buffer = linear(), torch.randn(15)
    model.weight.data, model.bias.data = buffer[:12].view(3, 4), buffer[12:]
    return with_optimizer(functools.partial(torch.optim.SGD, lr=0.1), model)


def with_anomalies() -> Step:
    step = step_of(linear())

    def looking(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.set_detect_anomaly(True):
            return step(x)

    return looking


def scaled() -> Step:
    model, scaler = linear(), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        return loss.detach()

    return step


def complex_adam() -> Step:
    weight = nn.Parameter(torch.ones(4, dtype=torch.complex64))
    optimizer = torch.optim.Adam([weight])

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (weight * x).abs().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def with_average(model: nn.Module) -> Step:
    step, average = step_of(model), torch.optim.swa_utils.AveragedModel(model)

    def averaged(x: torch.Tensor) -> torch.Tensor:
        loss = step(x)
        average.update_parameters(model)
        return loss

    return averaged


READ: dict[str, tuple[Callable[[], Step], str]] = {
    "numpy": (reads(lambda x: x.numpy()), r"data in Python, by Tensor\.numpy,.*test_steps_in_python\.py:\d+"),
    "an array": (reads(np.asarray), r"by Tensor\.__array__"),
    "dlpack": (reads(np.from_dlpack), r"by Tensor\.__dlpack__"),
    "an address": (reads(lambda x: x.data_ptr()), r"by Tensor\.data_ptr"),
    "a text": (reads(lambda x: f"{x.mean():.3f}"), r"by Tensor\.__format__"),
    "in a function": (lambda: step_of(nn.Sequential(linear(), Numbers())), r"by Tensor\.numpy"),
    "an input": (reads(lambda x: x.requires_grad_()), r"its input x require.*x\.detach\(\)\.clone\(\)\.requires_grad_"),
    "one tensor": (lambda: with_optimizer(lambda given: Shares(given, {}), linear()), r"makes one tensor for .* and "),
    "a flat buffer": (in_a_buffer, r"changes .*model\.weight, which lies in one memory with .*model\.bias"),
    "RAdam": (lambda: with_optimizer(torch.optim.RAdam, linear()), r"RAdam decides by the count.*Adam, AdamW or NAdam"),
    "ASGD": (lambda: with_optimizer(torch.optim.ASGD, linear()), r"ASGD computes its rates"),
    "Adafactor": (lambda: with_optimizer(torch.optim.Adafactor, linear()), r"Adafactor decides.*AdamW"),
    "a scaler": (scaled, r"GradScaler decides .*bfloat16"),
    "anomalies": (with_anomalies, r"set_detect_anomaly looks at the numbers"),
    "a distribution": (
        reads(lambda x: torch.distributions.Normal(x, x.exp(), validate_args=True)),
        r"validate_args=False",
    ),
    "one_hot": (reads(lambda x: F.one_hot(x.long())), r"one_hot without num_classes"),
    "a covariance": (reads(lambda x: torch.cov(x)), r"torch\.cov reads the number.*Write it out: d = x - x\.mean"),
    "pairs": (reads(lambda x: torch.combinations(x[0])), r"chooses its pairs by a mask.*torch\.triu_indices"),
    "a packed sequence": (
        reads(lambda x: nn.utils.rnn.pack_padded_sequence(x[:, None], torch.tensor([2, 1, 1]), batch_first=True)),
        r"reads the lengths of its sequences.*padded batch",
    ),
    "a mean over all batches": (
        lambda: step_of(nn.Sequential(linear(), nn.BatchNorm1d(3, momentum=None))),
        r"momentum=None divides by its count.*momentum=0\.1",
    ),
    "an average": (
        lambda: with_average(linear()),
        r"AveragedModel decides by its count of averages.*outside of the step",
    ),
    "a complex parameter": (complex_adam, r"Adam does with parameters of complex numbers.*view_as_complex"),
}


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("name", READ)
def test_numbers_that_a_step_reads_are_refused_by_their_cause(name: str) -> None:
    make, message = READ[name]
    with pytest.raises(errors.NoTrainingStep, match=message):
        capture(make(), (X,), train=True)
    assert not X.requires_grad


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weights_that_an_old_hook_replaces_are_told_by_what_to_use() -> None:
    model = nn.utils.weight_norm(linear())
    with pytest.raises(errors.HiddenState, match=r"torch\.nn\.utils\.parametrizations\.weight_norm\(module\) computes"):
        capture(step_of(model), (X,), train=True)


def broken_up(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    made = model(x)
    torch._dynamo.graph_break()
    return made * 2


def twice(_: object, made: Any, __: object) -> Any:
    return tuple(None if each is None else each * 2 for each in made)


HOOKS_OF_ALL: dict[str, Callable[[], RemovableHandle]] = {
    "forward": lambda: MODULES.register_module_forward_hook(lambda module, inputs, result: result * 2),
    "before": lambda: MODULES.register_module_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,)),
    "full backward": lambda: MODULES.register_module_full_backward_hook(twice),
}


@pytest.mark.test_all
@pytest.mark.filterwarnings(
    "ignore::workbench.ground.errors.HostRoute", "ignore:Full backward hook is firing:UserWarning"
)
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", HOOKS_OF_ALL)
def test_hooks_of_all_modules_are_part_of_the_graph(name: str, *, train: bool) -> None:
    """And are not called for modules of export's own."""
    model = nn.Sequential(linear(), nn.Tanh(), nn.Linear(3, 3))
    hook = HOOKS_OF_ALL[name]()
    try:
        journey = wb.trace(step_of(model) if train else lambda x: model(x), X, train=train)
        assert journey.check()
        if not train:
            assert wb.trace(lambda x: broken_up(model, x), X).check()
            assert wb.trace(model, X, capture="export").check()
    finally:
        hook.remove()


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", HOOKS_OF_ALL)
def test_hooks_of_all_modules_that_come_or_go_are_told_at_the_run(name: str) -> None:
    journey = wb.trace(step_of(linear()), X, train=True)
    hook = HOOKS_OF_ALL[name]()
    try:
        with pytest.raises(errors.InputMismatch, match="the number of hooks of all modules"):
            journey.run(X)
    finally:
        hook.remove()


def test_a_run_gives_no_gradient_to_an_input() -> None:
    program = capture(step_of(linear()), (X,), train=True)
    with pytest.raises(errors.InputMismatch, match=r"input x requires a gradient.*Give x\.detach\(\)"):
        program.values((X.clone().requires_grad_(),))


class Counts(torch.optim.Optimizer):
    """Counts in whole numbers, and multiplies lists by a tensor of factors."""

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        parameters = self.param_groups[0]["params"]
        gradients = [each.grad for each in parameters]
        torch._foreach_addcmul_(parameters, gradients, gradients, torch.tensor([0.1, 0.2]))
        for parameter in parameters:
            count = self.state[parameter].setdefault("count", torch.tensor(0))
            count += 1
            parameter.sub_(parameter.grad * (1 - 0.999 ** count.item()))


@pytest.mark.test_all
def test_counts_have_64_bits_and_layers_are_taken_apart() -> None:
    model = nn.LSTM(4, 2)
    inputs = torch.randn(1, 2, 4)

    def layers(x: torch.Tensor) -> torch.Tensor:
        loss = model(x)[0].square().mean() + torch.linalg.inv(model.weight_hh_l0[:2] + 4 * torch.eye(2)).sum()
        loss.backward()
        return loss.detach()

    ops = {node.op for node in capture(layers, (inputs,), train=True).graph.nodes}
    assert not any(word in op for op in ops for word in ("mkldnn", "lstm", "unsafe", "check_errors"))
    graph = capture(with_optimizer(lambda given: Counts(given, {}), linear()), (X,), train=True).graph
    powers = [
        graph.types[node.results[0]].dtype for node in graph.nodes if "pow" in node.op and node.origin.part == STEP
    ]
    assert powers == ["f64", "f64"]


def test_an_optimizer_that_only_a_hook_names_is_found() -> None:
    model = linear()
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}
    for each in model.parameters():
        each.register_post_accumulate_grad_hook(lambda given: optimizers[given].step())
    changes = capture(step_of(model), (X,), train=True).graph.mutations
    assert {"model_weight", "model_bias"} <= {change.target for change in changes}


class Beside(threading.Thread):
    """Counts by itself, whatever a step does."""

    count = 0


LOG = logging.getLogger(__name__)
THREAD = Beside()


def test_loggers_and_threads_change_by_themselves() -> None:
    def logs() -> float:
        LOG.debug("a line")
        logging.getLogger(f"{__name__}.{len(logging.root.manager.loggerDict)}")
        THREAD.count += 1
        return 1.0 if THREAD.name else 2.0

    assert capture(step_of(nn.Linear(4, 3), logs), (X,), train=True).graph.nodes
