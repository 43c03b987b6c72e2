"""The user's lines of Python that the nodes of a graph come from, as text."""

from __future__ import annotations

import linecache
import re
import sys
from typing import Any, cast

from workbench.ir import AtenGraph

_CELL = re.compile(r"In\[(\d+)\]")


def source_lines(graph: AtenGraph) -> dict[str, str]:
    """`file:line` -> the line, for every place of the graph whose text can be found."""
    found: dict[str, str] = {}
    for origin in (node.origin for node in graph.nodes):
        if origin.file is not None and origin.line is not None and origin.place not in found:
            text = linecache.getline(_on_disk(origin.file), origin.line)
            if text.strip():
                found[origin.place] = text.rstrip("\n")
    return found


def _on_disk(file: str) -> str:
    """The name under which Python keeps a notebook cell's text; any other file as it is."""
    cell = _CELL.fullmatch(file)
    if cell is None or (ipython := sys.modules.get("IPython")) is None:
        return file
    shell = cast(Any, ipython).get_ipython()
    names = cast("dict[str, int]", getattr(getattr(shell, "compile", None), "_filename_map", {}))
    return next((name for name, number in reversed(names.items()) if number == int(cell.group(1))), file)
