"""Residual networks: the blocks, and the networks made of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class BasicBlock(nn.Module):
    """ResNet's block of two convolutions, with a shortcut that is added to their result."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = _down(channels, out, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.down(x))


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions: the first narrows, the second is 3 x 3, the third widens; with a
    shortcut."""

    def __init__(self, channels: int, width: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.narrow = nn.Sequential(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.look = nn.Sequential(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.widen = nn.Sequential(nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.down = _down(channels, out, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.widen(self.look(self.narrow(x))) + self.down(x))


def _down(channels: int, out: int, stride: int) -> nn.Module:
    if stride == 1 and channels == out:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))


def of_basic_blocks(depths: tuple[int, ...], classes: int = 1000, width: int = 64) -> nn.Module:
    """A ResNet of basic blocks, with `width` channels in the first stage and twice as many in each further stage."""
    return _network(BasicBlock, 1, depths, classes, width)


def of_bottlenecks(depths: tuple[int, ...], classes: int = 1000, width: int = 64) -> nn.Module:
    """A ResNet of bottlenecks, with `width` channels in the narrow convolutions of the first stage and twice as many in
    each further stage."""
    return _network(
        lambda channels, out, stride: Bottleneck(channels, out // 4, out, stride), 4, depths, classes, width
    )


def _network(
    block: Callable[[int, int, int], nn.Module], wider: int, depths: tuple[int, ...], classes: int, width: int
) -> nn.Module:
    """A network with `depths` blocks in its stages. `block(channels, out, stride)` makes a block; stage n, from 0, has
    `wider * width * 2**n` channels."""
    blocks: list[nn.Module] = []
    channels = width
    for stage, depth in enumerate(depths):
        for place in range(depth):
            out = wider * width * 2**stage
            blocks.append(block(channels, out, 2 if stage and not place else 1))
            channels = out
    stem = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet18(classes: int = 1000) -> nn.Module:
    """ResNet-18 for images of 224 x 224."""
    return of_basic_blocks((2, 2, 2, 2), classes)


def resnet50(classes: int = 1000) -> nn.Module:
    """ResNet-50 for images of 224 x 224."""
    return of_bottlenecks((3, 4, 6, 3), classes)


def resnet101(classes: int = 1000) -> nn.Module:
    """ResNet-101 for images of 224 x 224."""
    return of_bottlenecks((3, 4, 23, 3), classes)
