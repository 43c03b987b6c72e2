"""The language model GPT-2, in plain torch.nn."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from workbench.models.example import Example


class Attention(nn.Module):
    """Causal attention: each token attends to itself and to the tokens before it."""

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
    """GPT-2's layer: attention and two linear layers, each behind a norm and with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

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


def example(*, full: bool) -> Example:
    if full:
        return Example(GPT2().eval(), (torch.randint(0, 50257, (1, 128)),))
    return Example(GPT2(layers=2, width=64, heads=4, words=256, longest=64).eval(), (torch.randint(0, 256, (1, 16)),))
