"""The one way modules load late: a package's `__getattr__` (PEP 562), which imports a submodule at its first use.

PyTorch, MLIR, Numba, pandas and matplotlib take from a fifth of a second to a whole one each. Files below a package
import at their top, as usual; importing the package alone costs nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType


def submodules(package: str, *names: str) -> Callable[[str], ModuleType]:
    """A `__getattr__` for `package` that imports its submodules `names` on first use."""

    def __getattr__(name: str) -> ModuleType:  # noqa: N807
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__


def modules_of(package: str, rooms: dict[str, tuple[str, ...]]) -> Callable[[str], ModuleType]:
    """A `__getattr__` for `package` that imports modules in the folders of `package` on first use."""
    room_of = {name: room for room, names in rooms.items() for name in names}

    def __getattr__(name: str) -> ModuleType:  # noqa: N807
        if name in room_of:
            return importlib.import_module(f"{package}.{room_of[name]}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__
