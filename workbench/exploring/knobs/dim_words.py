"""Explanations of a kernel's dims, for readers who see their short names for the first time."""

from __future__ import annotations

from typing import Final

_WORDS: Final = {
    "b": "batch",
    "g": "groups",
    "c": "channels",
    "m": "rows of the result",
    "n": "columns of the result",
    "k": "terms of each sum",
    "oc": "channels of the result",
    "ic": "channels that are summed",
    "od": "planes of the result",
    "oh": "rows of the result",
    "ow": "columns of the result",
    "kd": "planes of the window",
    "kh": "rows of the window",
    "kw": "columns of the window",
}
"""The names that `mlir/linalg_loops.py` gives to loops."""


def dim_words(dim: str) -> str:
    """`oh` is rows of the result, `d1` axis 1; several of one name are numbered. Empty for a name that a template or a
    user gave."""
    name, number = dim.rstrip("0123456789"), dim[len(dim.rstrip("0123456789")) :]
    if name == "d" and number:
        return f"axis {number}"
    return _WORDS.get(name, "")
