"""The folder for what can be made again: one place for all caches, moved by `ATEN_WORKBENCH_CACHE`.

Each part of it (kernels, machine code, compiled simulators) takes `ATEN_WORKBENCH_CACHE_MB` at most; what was unused
for longest goes first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from simulator.errors import BadSetting

LIMIT = "ATEN_WORKBENCH_CACHE_MB"
"""Environment variable: how many megabytes each part may take."""

USUAL_MEGABYTES = 256
_MOST_MEGABYTES = 1 << 30

_IN_USE_SECONDS = 24 * 3600
"""A folder used within this time may be in use, by a process of another version of the sources."""


def user_cache() -> Path:
    """Where the workbench keeps its caches. Nobody promises that it exists or can be written."""
    named = os.environ.get("ATEN_WORKBENCH_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "aten-workbench"


def _home() -> Path:
    """The user's folder; where the system knows none, the one for what is temporary."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())


def limit_bytes() -> int:
    """What each part of the caches may take."""
    given = os.environ.get(LIMIT, "")
    try:
        megabytes = float(given or USUAL_MEGABYTES)
    except ValueError:
        megabytes = 0.0
    if not 0 < megabytes <= _MOST_MEGABYTES:
        raise BadSetting(
            f"{LIMIT}={given!r} is no size; expected megabytes, a number above 0. Unset it for {USUAL_MEGABYTES}"
        )
    return int(megabytes * (1 << 20))


def bytes_in(folder: Path) -> int:
    """What the files below a folder take; those that another process removes meanwhile, nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(where, name)).st_size
    return total


def drop_unused(folder: Path, pattern: str) -> None:
    """Removes folders beside this one, those longest unused first, until all together keep to the limit.

    The time of a folder is that of its last use. What may be in use stays, and what cannot be removed does.
    """
    room, now = limit_bytes() - bytes_in(folder), time.time()
    others: list[tuple[float, Path]] = []
    for path in folder.parent.glob(pattern):
        with contextlib.suppress(OSError):  # another process removed it
            others += [(path.stat().st_mtime, path)] if path != folder else []
    for used, path in sorted(others, reverse=True):
        room -= bytes_in(path)
        if room < 0 and now - used > _IN_USE_SECONDS:
            gone = path.with_name(f".{path.name}-{os.getpid()}")
            with contextlib.suppress(OSError):  # another process was faster
                path.rename(gone)  # so that nobody finds half of it
                shutil.rmtree(gone, ignore_errors=True)
