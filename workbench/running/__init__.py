"""Kernels as native code, and a graph run with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.running import native_store as native_store
    from workbench.running import run_program as run_program

__getattr__ = submodules(__name__, "native_store", "run_program")
