"""The journey's environment: processor, disk, threads, progress, the user's own lines and cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.environment import call_sites as call_sites
    from workbench.environment import registered as registered

__getattr__ = submodules(__name__, "call_sites", "registered")
