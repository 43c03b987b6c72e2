"""LeNet-5, with tanh and average pools as in 1998."""

from __future__ import annotations

import torch
from torch import nn

from workbench.models.example import Example


def lenet(classes: int = 10) -> nn.Module:
    """LeNet-5 for images of 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, classes),
    )  # fmt: skip


def example(*, full: bool) -> Example:
    return Example(lenet().eval(), (torch.randn(32 if full else 1, 1, 28, 28),))
