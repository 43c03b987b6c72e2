"""Stacks of identical layers, like a transformer's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Plain(nn.Module):
    """The feed-forward half: normalise, widen, bend, narrow, add."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Attentive(nn.Module):
    """Softmax attention written out, then the feed-forward half."""

    def __init__(self, width: int, hidden: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.ffn = Plain(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, width = x.shape
        depth = width // self.heads
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (part.reshape(rows, self.heads, depth).transpose(0, 1) for part in parts)
        scores = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / depth**0.5, -1)
        mixed = torch.bmm(scores, v).transpose(0, 1).reshape(rows, width)
        return self.ffn(x + self.out(mixed))


def stack(kind: type[Plain] | type[Attentive], layers: int = 12, width: int = 32, hidden: int = 64) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[kind(width, hidden) for _ in range(layers)]).eval()
