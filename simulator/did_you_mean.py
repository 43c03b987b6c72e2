"""Names: guesses for an unknown one, and labels that distinguish things of one name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

_LEAST_LETTERS = 3
"""Fewer letters may begin anything."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known name that is near, if one is."""
    close = nearest(given, known)
    return f"; did you mean {close[0]!r}?" if close else ""


def nearest(given: str, known: Iterable[str], *, most: int = 1, alike: float = 0.6) -> list[str]:
    """The shortest known names that begin so, else the nearest of those that are `alike` enough: 1 is the same."""
    spelt, lower = {name.lower(): name for name in known}, given.lower()
    longer = [name for name in spelt if len(lower) >= _LEAST_LETTERS and name.startswith(lower)]
    close = sorted(longer, key=len)[:most] or difflib.get_close_matches(lower, spelt, n=most, cutoff=alike)
    return [spelt[name] for name in close]


_MOST_FIGURES, _MOST_LETTERS = 3, 60
"""The most figures and letters that a label spells out; beyond these it counts."""


def labelled(name: str, figures: Mapping[str, object]) -> str:
    """`tpu-v3 (vector_lanes=64)`: a name with figures that tell it from others; of many, `tpu-v3 (+5 figures)`."""
    if not figures:
        return name
    written = ", ".join(f"{figure}={value}" for figure, value in figures.items())
    if len(figures) > _MOST_FIGURES or len(written) > _MOST_LETTERS:
        written = f"+{len(figures)} figure{'s' * (len(figures) != 1)}"
    return f"{name} ({written})"


def sentences(*parts: str) -> str:
    """One after the other, with a full stop where neither that nor a question mark stands."""
    return " ".join(part if part.endswith(("?", ".")) else f"{part}." for part in parts[:-1]) + " " + parts[-1]


def not_there(path: Path) -> str:
    """The message for a missing file: where it was looked for, and files there with a similar name."""
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    near = did_you_mean(path.name, (other.name for other in path.parent.iterdir()))
    looked = "" if path.is_absolute() else f" in {Path.cwd()}"
    return f"there is no file {str(path)!r}{looked}{near}"
