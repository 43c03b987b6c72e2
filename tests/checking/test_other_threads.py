"""Tests that checks and exports do not change the user's tensors and modules for other threads, not even meanwhile."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from workbench.capturing.by_export import _Places
from workbench.checking.widening import Wide
from workbench.ground.environment.this_thread import Filter, unlogged_here, warnings_here

WEIGHTS = torch.linspace(-1, 1, 128).reshape(16, 8)
MODEL = nn.Sequential(nn.Linear(16, 6), nn.BatchNorm1d(6))
TRAINED = nn.Linear(16, 4)
OPTIMIZER = torch.optim.SGD(TRAINED.parameters(), lr=0.1, momentum=0.9)
LOOSE = nn.Parameter(torch.ones(6))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 2


def softmax(x: torch.Tensor) -> torch.Tensor:
    return F.softmax(x @ WEIGHTS, -1)


def step(x: torch.Tensor) -> torch.Tensor:
    OPTIMIZER.zero_grad()
    loss = F.linear(x, Doubled.apply(TRAINED.weight), TRAINED.bias).square().mean()
    loss.backward()
    OPTIMIZER.step()
    return loss.detach()


def elsewhere(look: Callable[[], object]) -> object:
    """Looks at the user's tensors and modules from another thread."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(look()))
    thread.start()
    thread.join()
    return found[0]


def state() -> object:
    tensors = [WEIGHTS, LOOSE, *MODEL.state_dict().values(), *TRAINED.state_dict().values()]
    grads = [(each.requires_grad, each.grad is None) for each in (*MODEL.parameters(), *TRAINED.parameters(), LOOSE)]
    return [(type(each), each.dtype, each.detach().tolist()) for each in tensors], grads


def watched(monkeypatch: pytest.MonkeyPatch, mode: type, method: str) -> list[object]:
    """Looks from another thread at each call that the mode gets."""
    seen, call = list[object](), getattr(mode, method)

    def called(*given: Any, **named: Any) -> Any:
        seen.append(elsewhere(state))
        return call(*given, **named)

    monkeypatch.setattr(mode, method, called)
    return seen


@pytest.mark.parametrize(
    ("target", "train"), [(softmax, False), (MODEL, False), (step, True)], ids=["global", "buffers", "step"]
)
def test_a_check_widens_and_changes_nothing_that_others_read(
    target: Callable[..., Any], train: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, journey = state(), wb.trace(target, torch.randn(4, 16), train=train)
    seen = watched(monkeypatch, Wide, "__torch_dispatch__")
    assert journey.check().ok
    assert seen and all(each == before for each in seen)
    assert state() == before


def test_an_export_puts_nothing_into_the_users_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return MODEL(x) * LOOSE

    before, seen = state(), watched(monkeypatch, _Places, "__torch_function__")
    assert wb.trace(scaled, torch.randn(4, 16), capture="export").check().ok
    assert seen and all(each == before for each in seen)


def test_warnings_and_messages_are_kept_back_in_one_thread() -> None:
    def warned() -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", append=True)
            warnings.warn("of a kind", UserWarning, stacklevel=1)
        return [str(each.message) for each in found]

    log, heard = logging.getLogger("tests.other_threads"), list[str]()
    log.addHandler(handler := logging.Handler())
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    before = list(warnings.filters)
    with warnings_here(Filter("ignore", UserWarning, "of a")), unlogged_here([log.name]):
        assert warned() == []
        assert elsewhere(warned) == ["of a kind"]
        log.error("here")
        elsewhere(lambda: log.error("there"))
    log.removeHandler(handler)
    assert heard == ["there"]
    assert list(warnings.filters) == before and not log.filters
    with pytest.raises(UserWarning), warnings_here(Filter("error", UserWarning)):
        warnings.warn("of a kind", UserWarning, stacklevel=1)
