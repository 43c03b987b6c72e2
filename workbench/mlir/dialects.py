"""Dialects of MLIR whose Python classes take long to load, loaded at their first use.

That of linalg brings the language that its named ops are written in, 60 ms; a journey whose kernels are kept on disk
makes no op of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from torch_mlir.dialects import linalg as linalg
else:
    __getattr__ = submodules("torch_mlir.dialects", "linalg")
