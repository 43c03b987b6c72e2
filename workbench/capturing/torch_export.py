"""`torch.export`, seen by this thread alone.

PyTorch notes in a global that it exports, and `torch.compile` gives functions back as they are while it does: one that
another thread compiles at that moment would run without the backend it asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast
from unittest import mock

import torch
from torch import nn
from torch.export import ExportedProgram


def export(module: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, object] | None = None) -> ExportedProgram:
    """The exported graph of one call. The caller has the turn (`workbench.environment.turns`)."""
    with exporting_here_alone():
        return torch.export.export(module, inputs, kwargs, strict=False)


@contextmanager
def exporting_here_alone() -> Generator[None]:
    """Within the block other threads are not told that PyTorch exports."""
    compiler = cast(Any, torch.compiler)
    told, exporter = compiler.is_exporting, threading.get_ident()

    def is_exporting() -> bool:
        return threading.get_ident() == exporter and told()

    with mock.patch.object(compiler, "is_exporting", is_exporting):
        yield
