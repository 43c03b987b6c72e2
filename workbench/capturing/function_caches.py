"""Functions under `functools.lru_cache`, and the tensors in their caches."""

from __future__ import annotations

import gc
from typing import Any, cast

import torch

Cache = Any
"""A function under `functools.lru_cache`."""


def is_cache(value: object) -> bool:
    return hasattr(value, "cache_clear") and hasattr(value, "__wrapped__")


def cached(function: Cache) -> list[torch.Tensor]:
    """The tensors that a function under `functools.lru_cache` has made before and would give again."""
    apart = getattr(function, "__dict__", None)
    left = [each for each in gc.get_referents(function) if each is not apart]
    found = list[torch.Tensor]()
    while left:
        each = left.pop(0)
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif type(each) in (tuple, list, dict):
            left += cast("list[Any]", [*each.values()] if type(each) is dict else [*each])
    return found
