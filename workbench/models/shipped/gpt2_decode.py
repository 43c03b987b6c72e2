"""A decode step of gpt2: one more token, with the cache of earlier ones."""

from __future__ import annotations

from workbench.models.example import Example
from workbench.models.from_transformers import one_more_token
from workbench.models.shipped import gpt2


def example(*, full: bool) -> Example:
    return one_more_token("gpt2_decode", gpt2.example(full=full))
