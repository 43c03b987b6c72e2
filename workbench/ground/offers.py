"""Loads the drawing modules and the shipped operators for packages that must not import them.

`workbench/__init__.py` registers the names of their packages, before any other package is loaded; each is loaded at its
first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_PACKAGES: Final[dict[str, str]] = {}


def offer(*, drawing: str, operators: str) -> None:
    """Registers the names of the packages with the drawing modules and with the shipped operators."""
    _PACKAGES.update(drawing=drawing, operators=operators)


def drawing_module(name: str) -> ModuleType:
    """Returns the drawing module of this name."""
    return import_module(f"{_PACKAGES['drawing']}.{name}")


def shipped_operators() -> Callable[[Any], None]:
    """Returns the function that registers the shipped operators in a registry."""
    return import_module(_PACKAGES["operators"]).builtin
