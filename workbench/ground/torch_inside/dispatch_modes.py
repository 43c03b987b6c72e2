"""Modes that see each call of PyTorch's, and the ways past them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from workbench.ground.torch_inside.needs import takes

_torch = cast(Any, torch)

with takes(
    "torch.utils._python_dispatch.TorchDispatchMode",
    use="The base of our modes: each op that a block computes comes to them.",
    instead="none; PyTorch's own notes on extending it name this class at this place",
):
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode


@takes("torch.utils._python_dispatch._disable_current_modes", instead="none")
def no_modes() -> AbstractContextManager[object]:
    """Within the block ops are computed past all modes of dispatch."""
    from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]

    return cast("AbstractContextManager[object]", _disable_current_modes())


@takes("torch.utils._python_dispatch._get_current_dispatch_mode_stack", instead="none")
def dispatch_modes() -> list[TorchDispatchMode]:
    """Returns the modes of dispatch at work, outermost first."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack  # pyright: ignore[reportPrivateUsage]

    return _get_current_dispatch_mode_stack()


@takes("torch.overrides._get_current_function_mode_stack", instead="none")
def function_modes() -> list[TorchFunctionMode]:
    """Returns the modes of functions at work, outermost first."""
    return _torch.overrides._get_current_function_mode_stack()


@takes("torch._C._len_torch_function_stack", "torch._C._len_torch_dispatch_stack", instead="none")
def any_mode() -> bool:
    """True if a mode of functions or of dispatch is at work."""
    return bool(_torch._C._len_torch_function_stack() or _torch._C._len_torch_dispatch_stack())


@takes("torch._C._EnableTorchFunction", instead="none: PyTorch turns it off below a mode")
def functions_seen() -> AbstractContextManager[object]:
    """Within the block modes of functions see calls, also below a mode of dispatch."""
    return _torch._C._EnableTorchFunction()


@takes("torch._C.DisableTorchFunction", instead="torch._C.DisableTorchFunctionSubclass leaves modes on")
def functions_unseen() -> AbstractContextManager[object]:
    """Within the block no mode of functions and no class of tensors sees calls."""
    return _torch._C.DisableTorchFunction()


@takes("torch._C._AutoDispatchBelowAutograd", instead="none: torch.no_grad leaves its rules of ops with graphs")
def below_autograd() -> AbstractContextManager[object]:
    """Within the block ops are computed by the kernels below autograd."""
    return _torch._C._AutoDispatchBelowAutograd()
