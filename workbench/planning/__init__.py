"""Where tensors lie: in DRAM, in the common memory, on chiplets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.planning import chiplet_plan as chiplet_plan
    from workbench.planning import common_memory_plan as common_memory_plan

__getattr__ = submodules(__name__, "chiplet_plan", "common_memory_plan")
