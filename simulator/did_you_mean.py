"""Guesses at misspelt names, and labels that tell apart things with the same name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

_LEAST_LETTERS = 3
"""The fewest letters that count as the beginning of a name: with fewer, too many names would match."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'x'?` with the nearest known name; empty if no known name is near."""
    close = nearest(given, known)
    return f"; did you mean {close[0]!r}?" if close else ""


def nearest(given: str, known: Iterable[str], *, most: int = 1, alike: float = 0.6) -> list[str]:
    """The known names that begin with `given`, shortest first; else the nearest names, `alike` or more (1 is equal)."""
    spelt, lower = {name.lower(): name for name in known}, given.lower()
    longer = [name for name in spelt if len(lower) >= _LEAST_LETTERS and name.startswith(lower)]
    close = sorted(longer, key=len)[:most] or difflib.get_close_matches(lower, spelt, n=most, cutoff=alike)
    return [spelt[name] for name in close]


_MOST_FIGURES, _MOST_LETTERS = 3, 60
"""The most figures and letters that a label spells out; a longer label gives only the number of figures."""


def labelled(name: str, figures: Mapping[str, object]) -> str:
    """A name with the figures that tell it from others: `tpu-v3 (vector_lanes=64)`; for many, `tpu-v3 (+5 figures)`."""
    if not figures:
        return name
    written = ", ".join(f"{figure}={value}" for figure, value in figures.items())
    if len(figures) > _MOST_FIGURES or len(written) > _MOST_LETTERS:
        written = f"+{len(figures)} figure{'s' * (len(figures) != 1)}"
    return f"{name} ({written})"


def sentences(*parts: str) -> str:
    """Joins parts of a message; each but the last gets a full stop unless it ends in a full stop or a question mark."""
    return " ".join(part if part.endswith(("?", ".")) else f"{part}." for part in parts[:-1]) + " " + parts[-1]


def not_there(path: Path) -> str:
    """The message for a missing file: the folder that was searched, and a file there with a similar name."""
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    near = did_you_mean(path.name, (other.name for other in path.parent.iterdir()))
    looked = "" if path.is_absolute() else f" in {Path.cwd()}"
    return f"there is no file {str(path)!r}{looked}{near}"
