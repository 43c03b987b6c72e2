"""The U-Net of a diffusion model: residual blocks that know the time step, attention at the bottom, skips across."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from workbench.models.example import Example


class TimedBlock(nn.Module):
    """Two convolutions after group norm and SiLU, with the time step added between them."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, channels), nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.norm2, self.conv2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.across = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.across(x)


class Mixing(nn.Module):
    """Attention of all places of an image to each other."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(8, channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, 3, self.heads, channels // self.heads, height * width)
        q, k, v = parts.transpose(-1, -2).unbind(1)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2)
        return x + self.out(mixed.reshape(batch, channels, height, width))


class UNet(nn.Module):
    """Predicts the noise in an image at a time step."""

    def __init__(self, channels: int = 3, width: int = 128, levels: int = 3, heads: int = 4) -> None:
        super().__init__()
        time = 4 * width
        widths = [width * 2**level for level in range(levels)]
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.down = nn.ModuleList(
            TimedBlock(before, after, time) for before, after in zip([width, *widths], widths, strict=False)
        )
        self.shrink = nn.ModuleList(nn.Conv2d(each, each, 3, 2, 1) for each in widths)
        self.bottom, self.mixing = TimedBlock(widths[-1], widths[-1], time), Mixing(widths[-1], heads)
        self.up = nn.ModuleList(
            TimedBlock(below + skip, skip, time)
            for below, skip in zip([widths[-1], *widths[:0:-1]], widths[::-1], strict=False)
        )
        self.norm, self.last = nn.GroupNorm(8, width), nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, image: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        time = self.time(waves(step, self.first.out_channels))
        x = self.first(image)
        skips: list[torch.Tensor] = []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            skips.append(block(x, time))
            x = shrink(skips[-1])
        x = self.mixing(self.bottom(x, time))
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), skips.pop()], 1), time)
        return self.last(F.silu(self.norm(x)))


def waves(step: torch.Tensor, width: int) -> torch.Tensor:
    """The time step as sines and cosines of many lengths."""
    speeds = torch.exp(torch.arange(width // 2) * (-math.log(10000) / (width // 2)))
    angles = step[:, None].float() * speeds
    return torch.cat([angles.sin(), angles.cos()], 1)


def example(*, full: bool) -> Example:
    if full:
        return Example(UNet().eval(), (torch.randn(1, 3, 64, 64), torch.tensor([500])))
    return Example(UNet(width=16, levels=2, heads=2).eval(), (torch.randn(1, 3, 16, 16), torch.tensor([500])))
