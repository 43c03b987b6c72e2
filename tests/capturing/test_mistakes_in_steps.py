"""Mistakes that people make in a step of training: each has its own message, or a warning where PyTorch takes it."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from tests.capturing.test_training import Step, stepping
from workbench.ground import errors


def layer(device: str = "cpu") -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(8, 4, device=device)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize(
    ("x", "y", "device", "told"),
    [
        (
            (6, 9),
            torch.int64,
            "cpu",
            r"RuntimeError: a and b must have same reduction dim.*, at .*test_training\.py:\d+$",
        ),
        (
            (6, 8),
            torch.float32,
            "cpu",
            r"RuntimeError: gather\(\): Expected dtype int32/int64.*, at .*test_training\.py:\d+$",
        ),
        ((6, 8), torch.int64, "meta", r"to be on the same device.*model\.to_empty\(device='cpu'\)"),
    ],
)
def test_what_pytorch_refuses_is_one_message_with_the_line(
    x: tuple[int, int], y: torch.dtype, device: str, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(errors.CaptureFailed, match=told):
        wb.trace(stepping(*layer(device)), torch.randn(x), torch.zeros(6, dtype=y), train=True)
    assert not capfd.readouterr().err


@pytest.mark.parametrize("train", [False, True])
def test_labels_have_the_type_that_pytorch_takes(train: bool) -> None:
    model, optimizer = layer()
    step: Step = stepping(model, optimizer) if train else lambda x, y: F.cross_entropy(model(x), y)
    with pytest.raises(errors.IndexType, match=r"its target \(y\) has type i32; expected i64.*Give y\.long\(\)"):
        wb.trace(step, torch.randn(6, 8), torch.zeros(6, dtype=torch.int32), train=train)


@pytest.mark.test_all
def test_a_step_without_gradients_is_told() -> None:
    model, optimizer = layer()
    other = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)

    def early(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).sum()
        optimizer.step()
        loss.backward()
        optimizer.zero_grad()
        return loss.detach()

    def emptied(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).sum()
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        return loss.detach()

    def of_another_model(x: torch.Tensor) -> None:
        model(x).sum().backward()
        other.step()

    for step in (early, emptied, of_another_model):
        with pytest.warns(errors.IdleStep, match=rf"{step.__name__}: SGD\.step\(\) at .*\.py:\d+ finds no gradient"):
            wb.trace(step, torch.randn(6, 8), train=True)


@pytest.mark.test_all
def test_a_step_that_takes_the_gradients_of_the_one_before_is_none() -> None:
    model, optimizer = layer()

    def late(x: torch.Tensor) -> None:
        optimizer.step()
        optimizer.zero_grad()
        model(x).sum().backward()

    for parameter in model.parameters():
        parameter.requires_grad_(False)
    frozen, second = torch.optim.SGD(model.parameters(), lr=0.1), nn.Linear(4, 2)

    def with_frozen(x: torch.Tensor) -> None:
        second(model(x)).sum().backward()
        frozen.step()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wb.trace(with_frozen, torch.randn(6, 8), train=True)
        for parameter in model.parameters():
            parameter.requires_grad_(True)
        assert wb.trace(late, torch.randn(6, 8), train=True).check().ok


@pytest.mark.test_all
def test_a_scheduler_of_momentum_is_told_what_to_leave_out() -> None:
    model = nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.05))
    j = wb.trace(stepping(model, optimizer), torch.randn(6, 8), torch.arange(6) % 4, train=True)
    optimizer.param_groups[0]["betas"] = (0.94, 0.999)
    with pytest.raises(errors.InputMismatch, match=r"betas was .*make the scheduler that changes it with cycle_mom"):
        j.run(torch.randn(6, 8), torch.arange(6) % 4)


def test_sparse_gradients_have_their_own_message() -> None:
    bags = nn.EmbeddingBag(30, 8, sparse=True)
    optimizer = torch.optim.SparseAdam(bags.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> None:
        bags(x).sum().backward()
        optimizer.step()

    with pytest.raises(errors.NoTrainingStep, match=r"no kernel makes a sparse gradient.*sparse=False"):
        wb.trace(step, torch.randint(0, 30, (4, 6)), train=True)
