"""What somebody may have meant by a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest of the known names, and nothing where none is near."""
    spelt = {name.lower(): name for name in known}
    close = difflib.get_close_matches(given.lower(), spelt, n=1)
    return f"; did you mean {spelt[close[0]]!r}?" if close else ""


def sentences(*parts: str) -> str:
    """One after the other, with a full stop where neither that nor a question mark stands."""
    return " ".join(part if part.endswith(("?", ".")) else f"{part}." for part in parts[:-1]) + " " + parts[-1]


def not_there(path: Path) -> str:
    """That there is no such file, where it was looked for, and what is there that is called almost so."""
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    near = did_you_mean(path.name, (other.name for other in path.parent.iterdir()))
    looked = "" if path.is_absolute() else f" in {Path.cwd()}"
    return f"there is no file {str(path)!r}{looked}{near}"
