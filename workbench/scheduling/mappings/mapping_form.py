"""The form of a mapping of one kernel, as users give it: its keys, and the kinds of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from simulator.did_you_mean import did_you_mean, sentences
from workbench.ground.argument_types import plain_value

OF_A_KERNEL: Final = ("tile", "order", "buffers", "cores")
"""The keys of a mapping."""


def mistake_in(key: object, value: object) -> str:
    """Says what is wrong with a key of a mapping or with its value; empty if nothing is."""
    if key not in OF_A_KERNEL:
        what = f"unknown key {key!r}{did_you_mean(str(key), OF_A_KERNEL)}"
        return sentences(what, "Expected tile, order, buffers or cores")
    if key == "buffers":
        return "" if _is_count(value) else f"buffers = {value!r}: expected a whole number of slots, 1 or more"
    if key == "order":
        dims = cast("list[object]", value) if isinstance(value, list | tuple) else None  # a text is one of letters too
        right = dims is not None and all(isinstance(dim, str) for dim in dims) and len(set(dims)) == len(dims)
        told = f"order = {value!r}: expected a list of the kernel's dims, outermost first, each of them once"
        return "" if right else told
    if not isinstance(value, Mapping):
        return f"{key} = {value!r}: expected {{dim: {'size' if key == 'tile' else 'how many'}}}"
    for dim, size in cast("Mapping[object, object]", value).items():
        if not isinstance(dim, str):
            return f"{key} of {dim!r} = {size!r}: expected the name of a dim"
        if not _is_count(size):
            return f"{key} of {dim} = {size!r}: expected a whole number, 1 or more"
    return ""


def _is_count(value: object) -> bool:
    return isinstance(plain_value(value), int) and not isinstance(value, bool) and cast("int", value) >= 1
