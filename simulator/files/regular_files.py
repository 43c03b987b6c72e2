"""Checks of paths: only regular files are read or replaced. A device has no end, and a pipe may never send a byte."""

from __future__ import annotations

import os
import stat

_KINDS = {stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}


def kind(path: str | os.PathLike[str]) -> str:
    """The kind of file that a path names, in words, if it is no regular file."""
    mode = os.stat(path).st_mode
    return next((name for fits, name in _KINDS.items() if fits(mode)), "no regular file")


def check_readable(path: str | os.PathLike[str]) -> None:
    """Raises `OSError` for a device, a pipe or a socket. `open` itself raises for a missing file or a folder."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(f"it is {kind(path)}")
