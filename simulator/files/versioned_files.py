"""Versioned files: an npz of plain arrays with a JSON header inside; never a pickle.

Writing is atomic: a reader sees the old file or the new one. Reading refuses what this version did not write.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from simulator.did_you_mean import not_there
from simulator.errors import FileFormatError, NoFile, NoFolder
from simulator.files import unpacking

Array = npt.NDArray[Any]
Json = dict[str, Any]

_HEADER = "header"


def write(path: str | os.PathLike[str], format: str, version: int, header: Json, arrays: Mapping[str, Array]) -> None:
    """Writes a file of `format` and `version`."""
    replace_file(path, pack(format, version, header, arrays))


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file all or nothing: a reader sees the old one or the new one."""
    target = check_folder(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")  # with the rights of any new file
    try:
        opened = open(temporary, "xb")  # noqa: SIM115 - the next block closes it
    except OSError as error:
        raise NoFolder(f"{target} cannot be written: {error.strerror}") from None
    try:
        with opened as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_folder(path: str | os.PathLike[str]) -> Path:
    """The path, if there is a folder to write it into."""
    target = Path(path)
    if not os.path.isdir(target.parent):
        raise NoFolder(f"{target} cannot be written: there is no folder {target.parent}. Make it first")
    if os.path.isdir(target):
        raise NoFolder(f"{target} cannot be written: it is a folder. Name a file in it")
    return target


def pack(format: str, version: int, header: Json, arrays: Mapping[str, Array]) -> bytes:
    """What a file of `format` and `version` holds."""
    text = json.dumps({"format": format, "version": version, **header}, sort_keys=True)
    file = io.BytesIO()
    np.savez_compressed(file, **{_HEADER: np.frombuffer(text.encode(), np.uint8)}, **cast(Any, arrays))
    return file.getvalue()


def read(path: str | os.PathLike[str] | BinaryIO, format: str, *versions: int) -> tuple[Json, dict[str, Array]]:
    """Header and arrays of a file that `write` made with the same format and one of these versions."""
    try:
        with contextlib.ExitStack() as opened:
            file = opened.enter_context(open(path, "rb")) if isinstance(path, (str, os.PathLike)) else path
            arrays = unpacking.arrays_of(file)
    except FileNotFoundError:
        raise NoFile(not_there(Path(cast("str", path)))) from None
    except (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(f"{path}: not a whole {format} file: {error}") from None
    try:
        header = cast(Json, json.loads(arrays.pop(_HEADER).tobytes()))
        unpacking.check_nesting(header)
        found = header.pop("format"), header.pop("version")
    except (KeyError, ValueError, AttributeError, TypeError, RecursionError):
        raise FileFormatError(f"{path}: not a {format} file: it has no header") from None
    if found not in [(format, version) for version in versions]:
        wanted = " or ".join(map(str, versions))
        raise FileFormatError(f"{path}: expected {format} version {wanted}, found {found[0]!r} version {found[1]!r}")
    return header, arrays


Layout = tuple[type, tuple[int | None, ...]]
"""Element type and extents of an array; None is any extent."""


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
    """Raises unless `starts` divides `count` entries among its rows, in order."""
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != count or np.any(np.diff(starts) < 0):
        raise FileFormatError(f"{path}: {name} does not divide {count} entries")
