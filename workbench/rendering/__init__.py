"""Stage 3, render: every kernel as verified MLIR on whole tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.rendering import module_store as module_store
    from workbench.rendering import render as render
    from workbench.rendering import write_templates as write_templates

__getattr__ = submodules(__name__, "module_store", "render", "write_templates")
