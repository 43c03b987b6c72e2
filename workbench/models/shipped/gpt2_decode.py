"""One more token by gpt2: the call reads the cache that earlier tokens left, and leaves its own there."""

from __future__ import annotations

from typing import Any

import torch

from workbench.models.example import Example
from workbench.models.from_transformers import transformers
from workbench.models.shipped import gpt2


def example(*, full: bool) -> Example:
    prefill = gpt2.example(full=full)
    model: Any = prefill.module
    cache = transformers("gpt2_decode").DynamicCache(config=model.config)
    with torch.no_grad():
        model(*prefill.inputs, cache=cache)
    return Example(model, (torch.randint(0, model.config.vocab_size, (1, 1)),), {"cache": cache})
