"""Conditions of a graph beside its inputs: a run and a check refuse what changes the graph, and take all else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import workbench as wb
from tests.programs import PROGRAMS
from workbench.ground.errors import InputMismatch

SCALE = 2.0
X = torch.randn(4, 4)


class Model(nn.Module):
    factor = 3

    def __init__(self) -> None:
        super().__init__()
        self.k: float = 2
        self.calls = 0
        self.linear, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.drop(self.norm(self.linear(x))) * self.k * self.factor


def refused(journey: Any, told: str, *inputs: torch.Tensor) -> None:
    for verb in (journey.run, journey.check):
        with pytest.raises(
            InputMismatch, match=rf"computes something else than when it was traced: .*{told}.*trace again"
        ):
            verb(*(inputs or (X,)))


def taken(journey: Any, *inputs: torch.Tensor) -> None:
    """It runs with the numbers of now, and agrees with PyTorch."""
    journey.run(*(inputs or (X,)))
    assert journey.check(*(inputs or (X,))).ok


def test_numbers_of_closures():
    k, zero = 2.0, -0.0

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * k + (x / zero).sign()

    journey = wb.trace(function, X)
    taken(journey)
    zero = 0.0
    refused(journey, r"zero was -0\.0, and is 0\.0 now")
    k, zero = 3.0, -0.0
    refused(journey, r"k was 2\.0, and is 3\.0 now")
    k = 2
    refused(journey, "k was 2.0, and is 2 now")
    k = 2.0
    taken(journey)


@pytest.mark.parametrize("around", [lambda function: function, functools.partial])
def test_numbers_of_globals(around: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    journey = wb.trace(around(lambda x: x * SCALE), X)
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    refused(journey, r"SCALE was 2\.0, and is 4\.0 now")
    monkeypatch.undo()
    taken(journey)


@pytest.mark.test_all
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_attributes_flags_and_classes_of_modules(capture: str, monkeypatch: pytest.MonkeyPatch):
    model = Model().eval()
    journey = wb.trace(model, X, capture=capture)
    taken(journey)
    model.k = 5
    refused(journey, "k was 2, and is 5 now")
    model.k = 2
    monkeypatch.setattr(Model, "factor", 4)
    refused(journey, r"Model\.factor was 3, and is 4 now")
    monkeypatch.undo()
    model.train()
    refused(journey, r"drop\.training was False, and is True now")
    model.eval()
    taken(journey)


def test_hooks_of_one_module_and_of_all():
    model = Model().eval()
    journey = wb.trace(model, X)

    def double(*given: Any) -> torch.Tensor:
        return given[2] * 2

    hook = model.linear.register_forward_hook(double)
    refused(journey, r"linear\._forward_hooks was empty")
    hook.remove()
    taken(journey)
    hook = nn.modules.module.register_module_forward_hook(double)
    try:
        refused(journey, "the number of hooks of all modules was 0, and is 1 now")
    finally:
        hook.remove()
    taken(journey)


def test_another_branch_on_strides_is_refused_and_strides_that_nothing_reads_are_not():
    journey = wb.trace(lambda x: x + 1 if x.stride(0) == 4 else x - 1, X)
    refused(journey, "the stride of x at dim 0 was 4, and is 1 now", X.t())
    taken(journey, X.clone())
    unread = wb.trace(lambda x: x.relu() * 2, X)
    taken(unread, X.t())
    assert torch.equal(unread.run(X.t()), X.t().relu() * 2)  # type: ignore[arg-type]


def test_what_lists_and_dicts_hold():
    held = {"scale": 2.0, "parts": [1, 2]}
    journey = wb.trace(lambda x: x * held["scale"] * len(held["parts"]), X)  # type: ignore[arg-type]
    held["parts"].append(3)  # type: ignore[attr-defined]
    refused(journey, r"len\(held\['parts'\]\) was 2, and is 3 now")
    held["parts"].pop()  # type: ignore[attr-defined]
    held["scale"] = 1.0
    refused(journey, r"held\['scale'\] was 2\.0, and is 1\.0 now")


def test_a_function_that_raises_now_is_told_with_the_condition():
    asked = SimpleNamespace(mode="relu")

    def function(x: torch.Tensor) -> torch.Tensor:
        if asked.mode != "relu":
            raise ValueError(asked.mode)
        return x.relu()

    journey = wb.trace(function, X)
    asked.mode = "gelu"
    refused(journey, "asked.mode was 'relu', and is 'gelu' now")


@pytest.mark.test_all
def test_what_changes_no_graph_is_taken():
    model = Model().eval()
    journey = wb.trace(model, X)
    model(X)  # a counter of its own
    taken(journey)
    model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})
    assert torch.allclose(journey.run(X), model(X), atol=1e-4)  # type: ignore[arg-type]
    model.linear.weight = nn.Parameter(torch.randn(4, 4))
    assert torch.allclose(journey.run(X), model(X), atol=1e-4)  # type: ignore[arg-type]
    model.requires_grad_(False)
    taken(journey)
    taken(journey, X.clone().requires_grad_())
    with torch.inference_mode():
        made = torch.randn(4, 4)
    taken(journey, made)
    torch._dynamo.reset()
    taken(journey)


@pytest.mark.test_all
def test_a_journey_traced_in_training_mode_counts_its_batches():
    model = Model().train()
    model.drop.p = 0.0
    journey = wb.trace(model, X)
    for _ in range(3):
        journey.run(X)
    assert model.norm.num_batches_tracked == 3
    taken(journey)
    model.eval()
    refused(journey, r"norm\.training was True, and is False now")


@pytest.mark.test_all
def test_settings_around_a_run_are_no_conditions():
    journey = wb.trace(lambda x: torch.relu(x @ x), X)
    with torch.autocast("cpu"):
        assert journey.run(X).dtype is torch.float32  # type: ignore[attr-defined]
        taken(journey)
    with torch.inference_mode():
        journey.run(X)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        taken(journey)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.test_all(but=6)
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_first_run_reads_no_program_again(name: str):
    program = PROGRAMS[name]
    inputs = program.inputs()
    captured = wb.trace(program.build(), *inputs, kwargs=program.kwargs()).captured.program
    assert captured is not None
    assert captured.conditions_hold(captured.values(inputs, program.kwargs()))
