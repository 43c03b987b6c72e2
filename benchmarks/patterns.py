"""Streams of memory requests by name. Any sizes will do.

seq_read, seq_write              one request after another
copy_1r1w, axpy_2r1w             R read and W write streams in turn, each with its part of the span
burst_read_then_write_N          N reads, then N writes half a span further on, then the next N
random_read, random_write        anywhere in the span
tile_nB_rows_stride_s            n contiguous bytes of every s
column_nB_stride_s               one request every s bytes
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Asked = tuple[I64, I64]
"""Addresses, and 1 for each that is written."""


_LIST = (__doc__ or "").partition("\n\n")[2].rstrip()


class UnknownPattern(ValueError):
    """A name that is none of the patterns'."""


def pattern(name: str, count: int, request: int, span: int) -> Asked:
    """The first `count` requests of a pattern, of `request` bytes, within `span` bytes."""
    number = np.arange(count, dtype=np.int64)
    for shape, make in _PATTERNS.items():
        found = re.fullmatch(shape, name)
        if found:
            address, writes = make(found, number, request, span)
            return address % span, writes
    raise UnknownPattern(f"no pattern is called {name!r}; patterns are:\n{_LIST}")


def _sequential(found: re.Match[str], number: I64, request: int, span: int) -> Asked:
    return number * request, np.full_like(number, found[1] == "write")


def _streams(found: re.Match[str], number: I64, request: int, span: int) -> Asked:
    reads, writes = int(found[1]), int(found[2])
    stream = number % (reads + writes)
    base = stream * span // (reads + writes) // request * request
    return base + number // (reads + writes) * request, (stream >= reads).astype(np.int64)


def _bursts(found: re.Match[str], number: I64, request: int, span: int) -> Asked:
    length = int(found[1])
    burst, place = number // (2 * length), number % (2 * length)
    writes = (place >= length).astype(np.int64)
    return (burst * length + place % length) * request + writes * (span // 2), writes


def _random(found: re.Match[str], number: I64, request: int, span: int) -> Asked:
    drawn = np.random.default_rng(0).integers(0, span // request, len(number), dtype=np.int64)
    return drawn * request, np.full_like(number, found[1] == "write")


def _tile(found: re.Match[str], number: I64, request: int, span: int) -> Asked:
    row = -(-_bytes(found[1]) // request)
    return number // row * _bytes(found[2]) + number % row * request, np.zeros_like(number)


def _column(found: re.Match[str], number: I64, request: int, span: int) -> Asked:
    return number * _bytes(found[2]) // request * request, np.zeros_like(number)


def _bytes(text: str) -> int:
    digits = text.rstrip("BKMi")
    return int(digits) * {"": 1, "K": 1 << 10, "M": 1 << 20}[text[len(digits) :].rstrip("B").rstrip("i")]


_SIZE = r"([1-9]\d*(?:[KM]i?)?B?)"
_PATTERNS: dict[str, Callable[[re.Match[str], I64, int, int], Asked]] = {
    r"seq_(read|write)": _sequential,
    r"[a-z]+_(\d)r(\d)w": _streams,
    r"burst_read_then_write_([1-9]\d*)": _bursts,
    r"random_(read|write)": _random,
    rf"tile_{_SIZE}_rows_stride_{_SIZE}": _tile,
    rf"column_{_SIZE}_stride_{_SIZE}": _column,
}
