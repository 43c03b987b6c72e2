"""Hooks into an IPython session that imports the workbench: the display of plain records, the current cell."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

from workbench.ground.packages import own_name
from workbench.jupyter import cell_line, short_tracebacks
from workbench.jupyter.loading_ahead import LoadingAhead

_OPERATORS = "workbench.operators.ops"


def begin() -> None:
    """Gives machines, tile programs and `wb.ops` their views, slow cells their line, and errors the user's lines; loads
    ahead what a trace needs."""
    shell = cast(Any, sys.modules["IPython"]).get_ipython()
    if shell is None:  # a program that only imported IPython
        return
    html, plain = (shell.display_formatter.formatters[kind] for kind in ("text/html", "text/plain"))
    machines, programs = own_name("simulator.machine.machine"), own_name("simulator.tileprogram.program")
    html.for_type_by_name(machines, "Machine", _shown_by("machine_html"))
    html.for_type_by_name(programs, "TileProgram", _shown_by("program_html"))
    html.for_type(ModuleType, _module)
    plain.for_type(ModuleType, _module_text)
    cell_line.watch()
    short_tracebacks.begin(shell)
    LoadingAhead().begin(shell)


def _objects() -> Any:
    return importlib.import_module("workbench.explaining.views.pages.objects")


def _shown_by(function: str) -> Callable[[object], str]:
    return lambda shown: getattr(_objects(), function)(shown)


def _module(module: ModuleType) -> str | None:
    return _objects().operators_html() if module.__name__ == _OPERATORS else None


def _module_text(module: ModuleType, printer: Any, cycle: bool) -> None:
    printer.text(_objects().operators_text() if module.__name__ == _OPERATORS else repr(module))
