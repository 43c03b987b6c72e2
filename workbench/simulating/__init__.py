"""Stage 5, simulate: the launches of a program on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.simulating import nonzero_tiles as nonzero_tiles
    from workbench.simulating import simulate as simulate

__getattr__ = submodules(__name__, "nonzero_tiles", "simulate")
