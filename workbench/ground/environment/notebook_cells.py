"""Notebook cells as places of code: a cell has a number instead of a file, and Python keeps its text for tracebacks."""

from __future__ import annotations

import linecache
import sys
from typing import Any, cast

_KERNEL_FOLDER = "ipykernel_"


def cell_name(file: str) -> str:
    """`In[3]` for the temporary file of cell 3 in a notebook kernel; other files unchanged."""
    if _KERNEL_FOLDER not in file or (ipython := sys.modules.get("IPython")) is None:
        return file
    shell = cast(Any, ipython).get_ipython()
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"In[{cells[file]}]" if file in cells else file


def cell_with(text: str) -> tuple[str, int] | None:
    """The most recently run cell that has this text, and the number of its lines before the text."""
    if not text:
        return None
    for file, entry in reversed(list(cast("dict[str, Any]", linecache.cache).items())):
        if _KERNEL_FOLDER in file and len(entry) > 2:
            source = "".join(entry[2])
            found = source.find(text)
            if found >= 0:
                return file, source.count("\n", 0, found)
    return None
