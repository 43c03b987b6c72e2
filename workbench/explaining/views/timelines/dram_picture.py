"""What lies in DRAM while a program runs, as a picture: bytes upwards, time to the right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from workbench.explaining.views.timelines.dram_contents import KINDS, Contents, told
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.ground.basics.picture import Axis, Entry, Line, Mark, Picture, Steps, Told, Words

_TALL, _ABOVE = 220, 1.12
"""Pixels of the plot, and its height as a part of the most bytes: the rest has the names of parts."""
_COLOURS: Final = ("k-LOAD", "k-COPY", "k-HOST", "k-GATHER", "c-data", "k-MATMUL", "k-STORE", "k-VECTOR")
"""Of the kinds, from the bottom to the top."""
_MEGABYTE: Final = 1e6


def dram_picture(found: Contents, width: float = 910) -> Picture:
    """The picture and its legend."""
    label = f"DRAM over time: {told(found)}"
    if found.peak is None:
        return Picture(label, nothing=NOTHING)
    end, most = max(found.stretches[-1].end, 1), max(sum(found.peak.bytes), 1) / _MEGABYTE
    parts = [mark for part in found.parts() for mark in _part(*part, most, width / end)]
    return Picture(
        label,
        width,
        _TALL,
        Axis(0, end, "cycles", None, whole=True),
        Axis(0, most * _ABOVE, "MB in DRAM", None, "line"),
        (*_areas(found), *parts),
        tuple(Entry(KINDS[kind], _COLOURS[kind]) for kind in found.kinds()),
    )


def _areas(found: Contents) -> Iterator[Told]:
    """The bytes of each kind above those of all that come before it."""
    edges = np.array([*(each.begin for each in found.stretches), found.stretches[-1].end], np.float64)
    tops = np.cumsum([(0, *each.bytes) for each in found.stretches], axis=1) / _MEGABYTE
    for kind in found.kinds():
        most = max(each.bytes[kind] for each in found.stretches)
        area = Steps(edges, tops[:, kind], tops[:, kind + 1], _COLOURS[kind])
        yield Told(f"{KINDS[kind]}: at most {most:,} bytes", (area,))


def _part(part: str, begin: int, end: int, most: float, pixels: float) -> Iterator[Mark]:
    yield Line(((begin, 0), (begin, most * _ABOVE)), "soft")
    if (end - begin) * pixels > 7 * len(part):
        yield Words(begin, most * 1.03, part, dx=4, size=11)
