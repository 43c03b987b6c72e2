"""A multi-layer perceptron: linear layers with ReLU between them."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from workbench.models.example import Example


def mlp(widths: tuple[int, ...]) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def example(*, full: bool) -> Example:
    widths = (784, 4096, 4096, 10) if full else (64, 128, 128, 10)
    return Example(mlp(widths).eval(), (torch.randn(64 if full else 8, widths[0]),))
