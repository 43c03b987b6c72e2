"""The lock that Dynamo holds for `torch.compile`. PyTorch is not loaded with this file."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any, cast

from workbench.ground.torch_inside.needs import takes


@takes("torch._dynamo.convert_frame.compile_lock", instead="none")
def compile_lock() -> AbstractContextManager[object]:
    """Returns the lock under which `torch.compile` reads and compiles; loads Dynamo."""
    from torch._dynamo import convert_frame

    return cast(Any, convert_frame).compile_lock


def compile_lock_if_loaded() -> Any:
    """Returns the lock of `compile_lock`, None as long as nothing has loaded Dynamo."""
    return getattr(sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None)
