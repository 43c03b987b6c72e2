"""What is known of ATen ops: their record form, their execution with PyTorch, their routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.ops import compare as compare
    from workbench.ops import execute as execute
    from workbench.ops import reference as reference
    from workbench.ops import trees as trees

__getattr__ = submodules(__name__, "compare", "execute", "reference", "trees")
