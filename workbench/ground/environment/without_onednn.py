"""PyTorch without oneDNN, which computes recurrent layers and others whole, so that nobody sees their parts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import torch


@contextmanager
def without_onednn() -> Generator[None]:
    """Does what `torch.backends.mkldnn.flags` does, without its warning of cards that are not there.

    In turn (`workbench.ground.environment.turns`): the switch is one for all threads, and each puts back what it found.
    """
    native = cast(Any, torch)._C
    before = native._get_mkldnn_enabled()
    native._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        native._set_mkldnn_enabled(before)
