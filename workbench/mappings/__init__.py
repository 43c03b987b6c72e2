"""Mappings from files: a person's own, and those that tuning found; which of them are for which kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.mappings import asked_mappings as asked_mappings
    from workbench.mappings import mapping_file as mapping_file
    from workbench.mappings import tuned_table as tuned_table

__getattr__ = submodules(__name__, "asked_mappings", "mapping_file", "tuned_table")
