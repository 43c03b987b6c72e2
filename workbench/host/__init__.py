"""The host route: PyTorch computes records and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.host import host_steps as host_steps
    from workbench.host import run_graph as run_graph

__getattr__ = submodules(__name__, "host_steps", "run_graph")
