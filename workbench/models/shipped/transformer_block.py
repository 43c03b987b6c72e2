"""PyTorch's own encoder layer: attention and two linear layers, each with a residual connection and a norm."""

from __future__ import annotations

import torch
from torch import nn

from workbench.models.example import Example


def example(*, full: bool) -> Example:
    width, heads, tokens = (768, 12, 128) if full else (64, 4, 16)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu", batch_first=True)
    return Example(layer.eval(), (torch.randn(1, tokens, width),))
