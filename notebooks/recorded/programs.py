"""What the journeys in this folder were recorded from: `python scripts/make_recorded.py` makes them again."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


class FeedForward(nn.Module):
    """Half of a transformer's layer."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.up(x))
        return x + self.down(hidden)


class Attention(nn.Module):
    """The other half: each token looks at those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(part(x)) for part in (self.query, self.key, self.value))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(seen.transpose(1, 2).reshape(x.shape))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """Two convolutions, and what is added to them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        shorter = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.shortcut = shorter if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.blocks = nn.Sequential()
        channels = 64
        for out in (64, 128, 256, 512):
            self.blocks.extend([Block(channels, out, out // channels), Block(out, out, 1)])
            channels = out
        self.classify = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn(self.conv(x)))
        x = F.max_pool2d(x, 3, 2, 1)
        x = self.blocks(x)
        return self.classify(x.mean((2, 3)))


def programs() -> dict[str, tuple[Callable[..., torch.Tensor], torch.Tensor]]:
    """By name: what was traced, and its input."""
    return {
        "softmax": (softmax, torch.randn(512, 512)),
        "ffn": (FeedForward(768, 3072).eval(), torch.randn(128, 768)),
        "attention": (Attention(256, 4).eval(), torch.randn(1, 128, 256)),
        "resnet18": (ResNet18().eval(), torch.randn(1, 3, 224, 224)),
    }
