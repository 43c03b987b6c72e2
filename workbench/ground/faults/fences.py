"""Memory pages without access, where the system supports them."""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

_NO_ACCESS: Final = {"mprotect": 0, "VirtualProtect": 1}

Forbid: TypeAlias = Callable[[int, int], None]
"""Forbids access to memory, given by address and bytes in whole pages: an access ends the process."""


@cache
def fence() -> tuple[str, Forbid] | None:
    """The function that forbids pages on this system, with its name; None if there is none, so that a read past an end
    goes unnoticed.

    A write past an end is still detected, up to the width of the watched zones.
    """
    return _by_virtual_protect() if sys.platform == "win32" else _by_mprotect()


def _by_mprotect() -> tuple[str, Forbid] | None:
    try:
        protect = ctypes.CDLL(None, use_errno=True).mprotect
    except (OSError, AttributeError, TypeError):
        return None
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def forbid(address: int, size: int) -> None:
        if protect(address, size, _NO_ACCESS["mprotect"]):
            raise OSError(ctypes.get_errno(), "mprotect")

    return "mprotect", forbid


def _by_virtual_protect() -> tuple[str, Forbid] | None:
    types: Any = importlib.import_module("ctypes.wintypes")
    protect = getattr(ctypes, "WinDLL")("kernel32", use_last_error=True).VirtualProtect  # noqa: B009
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, types.DWORD, ctypes.POINTER(types.DWORD)]

    def forbid(address: int, size: int) -> None:
        before = types.DWORD()
        if not protect(address, size, _NO_ACCESS["VirtualProtect"], ctypes.byref(before)):
            raise OSError(getattr(ctypes, "get_last_error")(), "VirtualProtect")  # noqa: B009

    return "VirtualProtect", forbid
