"""`workbench new-op`: the files of a new operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.new_op import write_files as write_files

__getattr__ = submodules(__name__, "write_files")
