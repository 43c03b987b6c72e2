"""Stage 2, lower: from the graph to kernels, by routes, formulas and fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.lowering import layouts as layouts
    from workbench.lowering import lower as lower

__getattr__ = submodules(__name__, "layouts", "lower")
