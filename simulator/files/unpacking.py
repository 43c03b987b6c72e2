"""Reads zips and arrays from untrusted files, within bounds that are known before anything is unpacked.

A zip states the unpacked length of each member. The lengths are added up first, and no member is read beyond its
length. A zip that the workbench writes holds each name once, stored or deflated, and nothing encrypted.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

MOST_BYTES = 1 << 30
"""The most bytes of a file's arrays together. The longest programs that were compiled, of two million instructions,
take 0.7 of this."""

MOST_NESTING = 100
"""The deepest nesting of objects and lists that JSON may have. Our records nest a dozen deep."""

_NPY_BEGINS = np.lib.format.MAGIC_PREFIX + bytes((1, 0))
_KINDS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 1


class TooLarge(ValueError):
    """Reading the file would take more memory than files of its kind may take."""


class NotOurs(ValueError):
    """A zip or an array has a form that the workbench never writes."""


def members_of(file: zipfile.ZipFile, most_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The members of a zip, by name; raises if they unpack to more than `most_bytes`, or the zip is not ours."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in file.infolist():
        if info.filename in found:
            raise NotOurs(f"it holds {info.filename!r} twice")
        if info.compress_type not in _KINDS or info.flag_bits & _ENCRYPTED:
            raise NotOurs(f"{info.filename!r} is packed in a way that the workbench does not use")
        found[info.filename] = info
    total = sum(info.file_size for info in found.values())
    if total > most_bytes:
        raise TooLarge(f"it unpacks to {total:,} bytes; at most {most_bytes:,} may be read")
    return found


def member(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member's unpacked bytes; raises if there are fewer or more than the zip states."""
    with file.open(info) as stream:
        data = stream.read(info.file_size + 1)  # without a length, zipfile would unpack everything first
    if len(data) != info.file_size:
        raise NotOurs(f"{info.filename!r} has {len(data)} bytes and not the {info.file_size} it should")
    return data


def arrays_of(source: BinaryIO, most_bytes: int = MOST_BYTES) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an npz. Compares the sizes in headers with the actual bytes before numpy allocates memory."""
    with zipfile.ZipFile(source) as file:
        found = members_of(file, most_bytes)
        return {name.removesuffix(".npy"): _array(name, member(file, info)) for name, info in found.items()}


def unpacked_bytes(data: bytes) -> int:
    """The number of bytes that a zip's members would have unpacked, by its headers."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return sum(info.file_size for info in file.infolist())


def _array(name: str, data: bytes) -> npt.NDArray[Any]:
    if not data.startswith(_NPY_BEGINS):
        raise NotOurs(f"{name!r} is no array as the workbench writes them")
    stream = io.BytesIO(data)
    np.lib.format.read_magic(stream)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    content = data[stream.tell() :]
    if dtype.hasobject or dtype.kind not in "biu":
        raise NotOurs(f"{name!r} holds {dtype}, which no array of a file of ours does")
    if any(extent < 0 for extent in shape) or math.prod(shape) * dtype.itemsize != len(content):
        raise NotOurs(f"{name!r} has {len(content)} bytes, which is no array of {dtype} {shape}")
    flat = np.frombuffer(content, dtype)
    return flat.reshape(shape, order="F" if fortran else "C").copy()


def check_nesting(data: object) -> None:
    """Raises if JSON data is nested deeper than the workbench ever writes; the check itself is no recursion."""
    level: list[object] = [data]
    for _ in range(MOST_NESTING):
        level = [item for each in level for item in _items(each)]
        if not level:
            return
    raise NotOurs(f"its JSON is nested more than {MOST_NESTING} deep")


def _items(data: object) -> list[object]:
    if isinstance(data, dict):
        return [*cast("dict[str, object]", data).values()]
    return cast("list[object]", data) if isinstance(data, list) else []


def inflated(data: bytes, most_bytes: int) -> bytes:
    """Returns the inflated data; raises if it is longer than `most_bytes`."""
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(data, most_bytes + 1)
    if len(found) > most_bytes:
        raise TooLarge(f"unpacked it is more than {most_bytes:,} bytes")
    if not unpacker.eof:
        raise NotOurs("it ends in the middle")
    return found
