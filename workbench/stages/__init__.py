"""The verbs, one module each, in pipeline order: capture, lower, render, schedule, simulate.

A stage module is loaded when it is first named, for each brings its own heavy library.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.stages import capture as capture
    from workbench.stages import lower as lower
    from workbench.stages import render as render
    from workbench.stages import schedule as schedule
    from workbench.stages import simulate as simulate

STAGES = ("capture", "lower", "render", "schedule", "simulate")


def __getattr__(name: str) -> ModuleType:
    if name in STAGES:
        return importlib.import_module(f"workbench.stages.{name}")
    raise AttributeError(f"module 'workbench.stages' has no attribute {name!r}")
