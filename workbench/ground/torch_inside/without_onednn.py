"""PyTorch without oneDNN, which computes recurrent layers and others whole, so that nobody sees their parts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import torch

from workbench.ground.torch_inside.needs import takes


@contextmanager
@takes(
    "torch._C._get_mkldnn_enabled",
    "torch._C._set_mkldnn_enabled",
    instead="torch.backends.mkldnn.flags, which warns of cards that are not there",
)
def without_onednn() -> Generator[None]:
    """Within the block PyTorch computes without oneDNN.

    In turn (`workbench.ground.environment.turns`): the switch is one for all threads, and each puts back what it found.
    """
    native = cast(Any, torch)._C
    before = native._get_mkldnn_enabled()
    native._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        native._set_mkldnn_enabled(before)
