"""TOML files of machines and memories: each mistake in reading one is a `MachineError` that names the file."""

from __future__ import annotations

import tomllib
from pathlib import Path

from simulator.did_you_mean import not_there
from simulator.errors import MachineError
from simulator.files.regular_files import check_readable

_BYTE_ORDER_MARK = "\ufeff"
"""Some editors begin a file with it; it is no part of the text."""


def read_text(what: str, path: Path) -> str:
    """The text of a file; `what` is the kind of file, for messages."""
    try:
        check_readable(path)
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise MachineError(f"the {what} cannot be read: {not_there(path)}") from None
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or no path
        raise MachineError(f"the {what} {str(path)!r} cannot be read: {error}") from None


def parse_toml(where: str, text: str) -> dict[str, object]:
    """The table that a text describes; `where` is the file."""
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as error:  # of TOML, and of numbers and nesting beyond what Python reads
        raise MachineError(f"{where}: not TOML: {error}") from None
