"""torch's tensors and containers: their element types, their memory, and what a record may hold of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.tensors import reachable_tensors as reachable_tensors

__getattr__ = submodules(__name__, "reachable_tensors")
