"""Versioned files: an npz of plain arrays with a JSON header inside; never a pickle.

Writing is atomic: a reader sees the old file or the new one. Reading refuses files that this version did not write.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import stat
import time
import typing
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from simulator.did_you_mean import not_there
from simulator.errors import FileFormatError, NoFile, NoFolder
from simulator.files import regular_files, unpacking, visible_text

Array = npt.NDArray[Any]
Json = dict[str, Any]

_HEADER = "header"
_ABANDONED_SECONDS = 3600
"""The age from which a temporary file counts as left over: its writer no longer runs."""


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file all or nothing: a reader sees the old one or the new one.

    If the path is a link, its target is replaced, not the link. An existing file keeps its access rights; a new file
    gets the usual rights.
    """
    target = check_folder(path)
    try:
        _replace(target, data)
    except OSError as error:
        raise NoFolder(f"{path} cannot be written: {error.strerror or error}") from None


def _replace(target: Path, data: bytes) -> None:
    rights = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    beginning = f".workbench-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"  # a hash: short
    _sweep(target.parent, beginning)
    temporary = target.with_name(beginning + secrets.token_hex(8))
    try:
        with open(temporary, "xb", opener=_open_for_us if rights is not None else None) as file:
            if rights is not None:
                os.chmod(temporary, rights)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _sweep(folder: Path, beginning: str) -> None:
    """Removes temporary files that killed writers of the same file left; files of live writers are younger."""
    with contextlib.suppress(OSError):  # another process was faster, or the folder cannot be looked through
        for left in folder.glob(f"{beginning}*"):
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                left.unlink()


def check_folder(path: str | os.PathLike[str]) -> Path:
    """Returns the path with all links followed; raises `NoFolder` if no file can be written there."""
    if not os.fspath(path):
        raise NoFolder("nothing can be written: the path is empty. Name a file")
    target = Path(os.path.realpath(path))
    if not os.path.isdir(target.parent):
        led = "" if not os.path.islink(path) else f"it is a link to {target}, and "
        raise NoFolder(
            f"{path} cannot be written: {led}there is no folder {target.parent if led else Path(path).parent}. "
            "Make it first"
        )
    if os.path.isdir(path):
        raise NoFolder(f"{path} cannot be written: it is a folder. Name a file in it")
    if os.path.islink(target):
        raise NoFolder(f"{path} cannot be written: its links lead in a circle. Name a file")
    if os.path.exists(path) and not os.path.isfile(path):
        raise NoFolder(
            f"{path} cannot be written: it is {regular_files.kind(path)}, which no file replaces. Name a file"
        )
    return target


def _open_for_us(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # no other user can read the file until `_replace` sets its final rights


def pack(format: str, version: int, header: Json, arrays: Mapping[str, Array]) -> bytes:
    """Returns the bytes of a file of `format` and `version` with this header and these arrays."""
    text = json.dumps({**header, "format": format, "version": version}, sort_keys=True)
    file = io.BytesIO()
    np.savez_compressed(file, **{_HEADER: np.frombuffer(text.encode(), np.uint8)}, **cast(Any, arrays))
    return file.getvalue()


def read(path: str | os.PathLike[str] | BinaryIO, format: str, version: int) -> tuple[Json, dict[str, Array]]:
    """Reads header and arrays of a file that `pack` made with this format and version."""
    if isinstance(path, (str, os.PathLike)) and not os.fspath(path):
        raise NoFile("nothing can be read: the path is empty. Name a file")
    try:
        with contextlib.ExitStack() as opened:
            if isinstance(path, (str, os.PathLike)):
                regular_files.check_readable(path)
            file = opened.enter_context(open(path, "rb")) if isinstance(path, (str, os.PathLike)) else path
            arrays = unpacking.arrays_of(file)
    except FileNotFoundError:
        raise NoFile(not_there(Path(cast("str", path)))) from None
    except (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(f"{path}: not a whole {format} file: {error}") from None
    try:
        header = cast(Json, visible_text.of_json(arrays.pop(_HEADER).tobytes()))
        unpacking.check_nesting(header)
        found = header.pop("format"), header.pop("version")
    except (KeyError, ValueError, AttributeError, TypeError, RecursionError):
        raise FileFormatError(f"{path}: not a {format} file: it has no header") from None
    if found != (format, version):
        again = ". Make the file again with this version of the workbench" if found[0] == format else ""
        raise FileFormatError(
            f"{path}: expected {format} version {version}, found {found[0]!r} version {found[1]!r}{again}"
        )
    return header, arrays


Layout = tuple[type, tuple[int | None, ...]]
"""Element type and extents of an array; an extent of None allows any."""


def dtypes_of(record: type) -> dict[str, type]:
    """Maps each array field of a record to the element type in its annotation."""
    hints = typing.get_type_hints(record)
    arrays = {name: hint for name, hint in hints.items() if typing.get_origin(hint) is np.ndarray}
    return {name: typing.get_args(typing.get_args(hint)[1])[0] for name, hint in arrays.items()}


def expect(path: object, arrays: Mapping[str, Array], wanted: Mapping[str, Layout]) -> None:
    """Raises unless `arrays` are exactly the wanted ones, each with its element type and (where known) extents."""
    if set(arrays) != set(wanted):
        missing, unknown = sorted(set(wanted) - set(arrays)), sorted(set(arrays) - set(wanted))
        raise FileFormatError(f"{path}: wrong arrays (missing: {missing}, unknown: {unknown})")
    for name, (dtype, shape) in wanted.items():
        array = arrays[name]
        fits = array.ndim == len(shape) and all(w is None or n == w for n, w in zip(array.shape, shape, strict=False))
        if array.dtype != np.dtype(dtype) or not fits:
            raise FileFormatError(
                f"{path}: {name} is {array.dtype} {array.shape}, expected {np.dtype(dtype)} "
                f"{tuple('any' if extent is None else extent for extent in shape)}"
            )


def expect_starts(path: object, name: str, starts: Array, count: int) -> None:
    """Raises unless `starts` is a valid CSR index of `count` entries: from 0 to `count`, never falling."""
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != count or np.any(np.diff(starts) < 0):
        raise FileFormatError(f"{path}: {name} does not divide {count} entries")
