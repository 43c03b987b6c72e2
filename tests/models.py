"""Whole networks in plain torch.nn, weights as PyTorch initialises them: what people bring."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class BasicBlock(nn.Module):
    """ResNet's block of two convolutions, and what is added to them."""

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
    """Narrow, look around, widen."""

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


def resnet18(classes: int = 1000) -> nn.Module:
    """For images of 224 x 224."""
    blocks: list[nn.Module] = []
    channels = 64
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [BasicBlock(channels, out, stride), BasicBlock(out, out)]
        channels = out
    return nn.Sequential(*_stem(), *blocks, *_head(512, classes))


def resnet50(classes: int = 1000) -> nn.Module:
    """For images of 224 x 224."""
    return _of_bottlenecks((3, 4, 6, 3), classes)


def resnet101(classes: int = 1000) -> nn.Module:
    """For images of 224 x 224."""
    return _of_bottlenecks((3, 4, 23, 3), classes)


def _of_bottlenecks(depths: tuple[int, ...], classes: int) -> nn.Module:
    blocks: list[nn.Module] = []
    channels = 64
    for stage, depth in enumerate(depths):
        for place in range(depth):
            width, stride = 64 * 2**stage, 2 if stage and not place else 1
            blocks.append(Bottleneck(channels, width, 4 * width, stride))
            channels = 4 * width
    return nn.Sequential(*_stem(), *blocks, *_head(channels, classes))


def vgg16(classes: int = 1000) -> nn.Module:
    """For images of 224 x 224."""
    layers: list[nn.Module] = []
    channels = 3
    for out, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(channels * 7 * 7, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, classes)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


def _stem() -> list[nn.Module]:
    return [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]


def _head(channels: int, classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


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


class Attention(nn.Module):
    """Each token looks at those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """GPT-2's layer: attention and two linear layers, each on what is normalised, and added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.widen, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """The language model; by default the small one, of 124 million parameters."""

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257, longest: int = 1024
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.words.weight)


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


def lenet(classes: int = 10) -> nn.Module:
    """For images of 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, classes),
    )  # fmt: skip


def with_statistics(model: nn.Module, seed: int = 0) -> nn.Module:
    """In eval mode, its batch norms as if they had been trained."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            shape = module.running_mean.shape
            module.running_mean = torch.randn(shape, generator=generator) * 0.1
            module.running_var = torch.rand(shape, generator=generator) + 0.5
            if module.affine:
                module.weight.data = torch.rand(shape, generator=generator) + 0.5
                module.bias.data = torch.randn(shape, generator=generator) * 0.1
    return model.eval()
