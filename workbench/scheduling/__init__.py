"""Stage 4, schedule: tilings, passes, and the scheduled form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.scheduling import foreign_code as foreign_code
    from workbench.scheduling import kernel_store as kernel_store
    from workbench.scheduling import schedule as schedule
    from workbench.scheduling import user_mapping as user_mapping

__getattr__ = submodules(__name__, "foreign_code", "kernel_store", "schedule", "user_mapping")
