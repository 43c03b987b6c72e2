"""What schedules a kernel anew. It loads late, since a kernel that is kept on disk needs none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.scheduling import schedule_kernel as schedule_kernel
    from workbench.scheduling import user_scripts as user_scripts

__getattr__ = submodules("workbench.scheduling", "schedule_kernel", "user_scripts")
