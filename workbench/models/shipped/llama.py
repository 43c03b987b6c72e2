"""Llama, of `transformers`: grouped queries, rotated positions; as large as TinyLlama in full."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from workbench.models.example import Example
from workbench.models.from_transformers import made

SMALL: Mapping[str, object] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": None,
}
FULL: Mapping[str, object] = {
    "hidden_size": 2048,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "intermediate_size": 5632,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}


def example(*, full: bool) -> Example:
    model = made("llama", "LlamaForCausalLM", "LlamaConfig", **(FULL if full else SMALL))
    return Example(model, (torch.randint(0, model.config.vocab_size, (1, 128 if full else 16)),))
