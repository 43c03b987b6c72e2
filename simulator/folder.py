"""The folder for what can be made again: one place for all caches, moved by `ATEN_WORKBENCH_CACHE`."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Where the workbench keeps its caches. Nobody promises that it exists or can be written."""
    named = os.environ.get("ATEN_WORKBENCH_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aten-workbench"
