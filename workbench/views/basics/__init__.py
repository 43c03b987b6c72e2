"""Building blocks of all views: tables, HTML, colours, diffs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.views.basics import data_frames as data_frames

__getattr__ = submodules(__name__, "data_frames")
