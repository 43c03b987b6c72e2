"""Everything that touches MLIR: contexts, passes, the scheduled form, native code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.mlir import kernel_store as kernel_store
    from workbench.mlir import native_store as native_store
    from workbench.mlir import runtime as runtime
    from workbench.mlir import user_mapping as user_mapping

__getattr__ = submodules(__name__, "kernel_store", "native_store", "runtime", "user_mapping")
