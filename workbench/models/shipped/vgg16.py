"""VGG-16: thirteen convolutions of 3 x 3 and three linear layers."""

from __future__ import annotations

import torch
from torch import nn

from workbench.models.example import Example


def vgg16(classes: int = 1000, width: int = 64, pixels: int = 224) -> nn.Module:
    """VGG-16 for square images of `pixels` a side, with `width` channels after the first convolution."""
    layers: list[nn.Module] = []
    channels = 3
    for out, depth in ((width, 2), (2 * width, 2), (4 * width, 3), (8 * width, 3), (8 * width, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    hidden = 64 * width
    head = [
        nn.Linear(channels * (pixels // 32) ** 2, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes),
    ]  # fmt: skip
    return nn.Sequential(*layers, nn.Flatten(), *head)


def example(*, full: bool) -> Example:
    if full:
        return Example(vgg16().eval(), (torch.randn(1, 3, 224, 224),))
    return Example(vgg16(10, width=8, pixels=32).eval(), (torch.randn(1, 3, 32, 32),))
