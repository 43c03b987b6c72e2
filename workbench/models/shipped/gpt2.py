"""GPT-2, of `transformers`: the logits and a cache of what later tokens look at."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from workbench.models.example import Example
from workbench.models.from_transformers import made

SMALL: Mapping[str, object] = {
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 100,
    "n_positions": 64,
    "bos_token_id": 0,
    "eos_token_id": None,
}
FULL: Mapping[str, object] = {}


def example(*, full: bool) -> Example:
    model = made("gpt2", "GPT2LMHeadModel", "GPT2Config", **(FULL if full else SMALL))
    return Example(model, (torch.randint(0, model.config.vocab_size, (1, 128 if full else 16)),))
