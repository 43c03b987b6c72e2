"""The verbs, one module each, in pipeline order: capture, lower, render, schedule, simulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.stages import capture as capture
    from workbench.stages import lower as lower
    from workbench.stages import render as render
    from workbench.stages import schedule as schedule
    from workbench.stages import simulate as simulate

__getattr__ = submodules(__name__, "capture", "lower", "render", "schedule", "simulate")
