"""What a training step does in Python, and what it names there: caches, counters, hooks, numbers."""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from workbench import errors
from workbench.capturing.capture import capture

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
    with pytest.raises(errors.NoTrainingStep, match=r"changes a list in Python"):
        capture(step_of(model), (X,), train=True)
    handle.remove()
    model.register_forward_hook(lambda *given: kept.append(given[2].detach()))
    with pytest.raises(errors.NoTrainingStep, match=r"changes a list in Python"):
        capture(step_of(model), (X,), train=True)
    assert not kept


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
