"""Dynamo for a function that is compiled for one call: without work that pays off only over many calls."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any, cast
from unittest import mock

import torch
import torch._dynamo as dynamo
from torch._dynamo import eval_frame, guards

_STATIC = {"automatic_dynamic_shapes": False, "specialize_float": True, "disable": False}
"""Capture needs Dynamo also where the user has turned it off for their own programs."""
_NO_SEARCH = {"run_gc_after_compile": False}
"""PyTorch looks for garbage after each graph, among all that the process holds that is not old."""


@contextmanager
def static_graphs(**more: object) -> Generator[None]:
    """Settings of Dynamo: every number and shape is that of the call, and it compiles in spite of other settings."""
    stance = cast(Any, eval_frame)._stance.stance
    default = nullcontext() if stance == "default" else torch.compiler.set_stance("default")
    with cast(Any, dynamo.config).patch(**_STATIC, **_NO_SEARCH, **more), default:
        yield


@contextmanager
def unmeasured_guards() -> Generator[None]:
    """Within the block PyTorch does not measure how long it takes to see that a graph may be used again.

    It empties the processor's caches for that, and writes the figure to its log. The caller has the turn
    (`workbench.environment.turns`).
    """
    with mock.patch.object(guards, "profile_guard_manager", _not_measured):
        yield


def _not_measured(*_: object) -> float:
    return 0.0
