"""The offers of the library's edge to rooms that may not know it by name: drawings, and the shipped operators.

`workbench/__init__.py` says where each lies, before any room is loaded; it loads when a room first asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_PACKAGES: Final[dict[str, str]] = {}


def offer(*, drawing: str, operators: str) -> None:
    """Says in which package each lies."""
    _PACKAGES.update(drawing=drawing, operators=operators)


def drawing_module(name: str) -> ModuleType:
    """Returns the module of this name that draws."""
    return import_module(f"{_PACKAGES['drawing']}.{name}")


def shipped_operators() -> Callable[[Any], None]:
    """Returns what registers the shipped operators in a registry."""
    return import_module(_PACKAGES["operators"]).builtin
