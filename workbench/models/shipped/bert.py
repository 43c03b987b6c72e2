"""BERT's encoder, of `transformers`."""

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
    "vocab_size": 100,
    "max_position_embeddings": 64,
}
FULL: Mapping[str, object] = {}


def example(*, full: bool) -> Example:
    model = made("bert", "BertModel", "BertConfig", **(FULL if full else SMALL))
    return Example(model, (torch.randint(0, model.config.vocab_size, (1, 128 if full else 16)),))
