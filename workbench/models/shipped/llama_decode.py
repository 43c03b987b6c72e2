"""One more token by llama: the call reads the cache that earlier tokens left, and leaves its own there."""

from __future__ import annotations

from typing import Any

import torch

from workbench.models.example import Example
from workbench.models.from_transformers import transformers
from workbench.models.shipped import llama


def example(*, full: bool) -> Example:
    prefill = llama.example(full=full)
    model: Any = prefill.module
    cache = transformers("llama_decode").DynamicCache(config=model.config)
    with torch.no_grad():
        model(*prefill.inputs, cache=cache)
    return Example(model, (torch.randint(0, model.config.vocab_size, (1, 1)),), {"cache": cache})
