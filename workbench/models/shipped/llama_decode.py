"""A decode step of llama: one more token, with the cache of earlier ones."""

from __future__ import annotations

from workbench.models.example import Example
from workbench.models.from_transformers import one_more_token
from workbench.models.shipped import llama


def example(*, full: bool) -> Example:
    return one_more_token("llama_decode", llama.example(full=full))
