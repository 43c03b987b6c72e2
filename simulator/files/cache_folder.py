"""The folder of all caches; its contents can be made again. `ATEN_WORKBENCH_CACHE`, an absolute path, moves it.

Each part of the folder (kernels, machine code, compiled simulators) takes at most `ATEN_WORKBENCH_CACHE_MB`; the
subfolders that were unused for longest are removed first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from simulator.errors import BadSetting

FOLDER = "ATEN_WORKBENCH_CACHE"
"""Environment variable with the path of the folder, which must be absolute: a relative one depends on where you are."""

LIMIT = "ATEN_WORKBENCH_CACHE_MB"
"""Environment variable with the most megabytes of each part."""

USUAL_MEGABYTES = 256
_MOST_MEGABYTES = 1 << 30

_IN_USE_SECONDS = 24 * 3600
"""A folder that was used within this time may still be in use by a process of another version of the sources."""


def user_cache() -> Path:
    """The folder of the workbench's caches, which may not exist or be writable."""
    if named := os.environ.get(FOLDER):
        if not os.path.isabs(named):
            raise BadSetting(
                f"{FOLDER}={named!r} is no whole path of a folder; expected one like {_usual()}. Unset it for that "
                "one; ATEN_WORKBENCH_KERNEL_CACHE=off keeps no kernels"
            )
        return Path(named)
    return _usual()


def _usual() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")  # by its standard, relative paths are ignored
    return Path(named if os.path.isabs(named) else _home() / ".cache") / "aten-workbench"


def _home() -> Path:
    """The user's home folder; the temporary folder if the system knows no home."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())


def limit_bytes() -> int:
    """The most bytes that each part of the caches may take."""
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
    """The total size of the files below a folder, without files that another process removes meanwhile."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(where, name)).st_size
    return total


def drop_unused(folder: Path, pattern: str) -> None:
    """Removes folders of this pattern beside `folder`, the longest unused first, until all together keep to the limit.

    The modification time of a folder is its last use. Folders that may be in use, or cannot be removed, stay.
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
                path.rename(gone)  # so that no process finds half of it
                shutil.rmtree(gone, ignore_errors=True)
