"""Reads TOML files of machines and memories; each mistake in a file raises a `MachineError` that names the file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from simulator.did_you_mean import not_there
from simulator.errors import MachineError
from simulator.files.regular_files import check_readable
from simulator.files.visible_text import visible

_BYTE_ORDER_MARK = "\ufeff"
"""A mark with which some editors begin a file; it is no part of the text."""
_MOST_PARTS: Final = 100
_LONG_KEY: Final = re.compile(rf"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){{{_MOST_PARTS}}}""")
_LARGEST: Final = 2**63
"""The bound of TOML's whole numbers, which have 64 bits. Python reads longer ones, but cannot print very long ones."""


def read_text(what: str, path: Path) -> str:
    """The text of a file; `what` is the kind of file, for messages."""
    try:
        check_readable(path)
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise MachineError(f"the {what} cannot be read: {not_there(path)}") from None
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or no path
        raise MachineError(f"the {what} {str(path)!r} cannot be read: {error}") from None


def toml_of(text: str) -> dict[str, object]:
    """The table that a text describes; raises ValueError for a text that is no TOML or would take hours to read."""
    if _LONG_KEY.search(text):  # tomllib takes time with the square of a key's parts
        raise ValueError(f"a key of more than {_MOST_PARTS} parts")
    found: dict[str, object] = tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    left: list[object] = [found]
    while left:
        each = left.pop()
        if isinstance(each, int) and not -_LARGEST <= each < _LARGEST:
            raise ValueError("a whole number of more than 64 bits")
        left += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return visible(found)


def parse_toml(where: str, text: str) -> dict[str, object]:
    """The table that a text describes; raises `MachineError` if the text is no TOML. `where` names the file."""
    try:
        return toml_of(text)
    except (ValueError, RecursionError) as error:  # of TOML, and of numbers and nesting beyond what Python reads
        raise MachineError(f"{where}: not TOML: {error}") from None
