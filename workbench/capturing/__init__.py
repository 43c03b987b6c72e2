"""Stage 1, capture: from a PyTorch function to the graph of ATen calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.capturing import capture as capture
    from workbench.capturing import result_aliases as result_aliases
    from workbench.capturing import run_pieces as run_pieces
    from workbench.capturing import tensor_copies as tensor_copies
    from workbench.capturing import user_call as user_call

__getattr__ = submodules(__name__, "capture", "result_aliases", "run_pieces", "tensor_copies", "user_call")
