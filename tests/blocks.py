"""Networks and blocks that only tests need; the others are in `workbench/models`."""

from __future__ import annotations

import torch
from torch import nn


class Inception(nn.Module):
    """GoogLeNet's block: four ways side by side, whose channels are one after another in the result."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.ways = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(channels, 64, 1), nn.ReLU()),
                nn.Sequential(nn.Conv2d(channels, 96, 1), nn.ReLU(), nn.Conv2d(96, 128, 3, padding=1), nn.ReLU()),
                nn.Sequential(nn.Conv2d(channels, 48, 1), nn.ReLU(), nn.Conv2d(48, 96, 5, padding=2), nn.ReLU()),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(channels, 64, 1), nn.ReLU()),
            ]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([way(x) for way in self.ways], 1)


def inception(blocks: int = 4) -> nn.Module:
    """For images of 112 x 112."""
    stem = [nn.Conv2d(3, 192, 3, 4, 1), nn.ReLU()]
    return nn.Sequential(*stem, *(Inception(352 if block else 192) for block in range(blocks)))


def depthwise_separable(channels: int = 16, out: int = 24, stride: int = 2) -> nn.Module:
    """MobileNet's block: each channel by itself, then all channels at each place."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(),
        nn.Conv2d(channels, out, 1, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU6(),
    )
