"""Between capturing and lowering: graph passes and patterns that a person registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.rewriting import lowered_origins as lowered_origins
    from workbench.rewriting import rewrite as rewrite

__getattr__ = submodules(__name__, "lowered_origins", "rewrite")
