"""Ops that follow a convolution of groups in its kernel and read values twice: no reshape is left between two ops."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.agreement import agrees


def _sigmoid_thrice(made: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of a silu."""
    s = y.sigmoid()
    return made * s * (1 + y * (1 - s))


def _and_squared(made: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    t = y.tanh()
    return made * t + t * t


def _one_after_the_other(made: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    s = y.sigmoid()
    u = s * (y + s).exp()
    return made * u + u * s


@pytest.mark.parametrize("after", [_sigmoid_thrice, _and_squared, _one_after_the_other])
def test_values_read_twice_after_groups(after: Callable[..., torch.Tensor]):
    def program(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return after(F.conv2d(x, weight, padding=1, groups=3), y)

    torch.manual_seed(0)
    journey = agrees(program, torch.randn(2, 6, 5, 4), torch.randn(12, 2, 3, 3), torch.randn(2, 12, 5, 4))
    assert len(journey.lowered.kernels) == 1
