"""Kernels that users write: templates, builders, hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.kernels import handwritten as handwritten

__getattr__ = submodules(__name__, "handwritten")
