"""ViT, of `transformers`: an image as a sequence of patches."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from workbench.models.example import Example
from workbench.models.from_transformers import made

SMALL: Mapping[str, object] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 8,
}
FULL: Mapping[str, object] = {}


def example(*, full: bool) -> Example:
    model = made("vit", "ViTModel", "ViTConfig", **(FULL if full else SMALL))
    size = model.config.image_size
    return Example(model, (torch.randn(1, 3, size, size),))
