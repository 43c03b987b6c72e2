"""Aligned timelines as a picture: the journeys below each other, a row for every class of unit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from workbench.explaining.views.timelines.aligned import AS_LONG, FASTER, READ, SLOWER, Aligned, Column
from workbench.explaining.views.timelines.gantt import LAUNCH, NOTHING
from workbench.ground.basics.picture import (
    LETTER,
    Axis,
    Box,
    Entry,
    Line,
    Mark,
    Picture,
    Tick,
    Told,
    Words,
    stacked,
)

_HEAD, _NAME, _STRIP, _GAP = 18, 17, 4, 10
_HIGH, _LOW, _BETWEEN = 16, 8, 3
"""Heights of a lane, of one where there are many, and between lanes."""
_MANY = 16
_COLUMN = 2
"""Pixels of a column in which shares are drawn."""
_COLOURS = {SLOWER: "bad", FASTER: "good", AS_LONG: "c-data"}


def aligned_picture(view: Aligned, width: float = 850) -> Picture:
    """The picture, its legend, and how it is read."""
    label = f"aligned timelines of {', '.join(run.name for run in view.runs)}"
    if not view.lanes:
        return Picture(label, nothing=NOTHING)
    marks, ticks, y = list[Mark](), list[Tick](), _HEAD
    height, edges = _LOW if len(view.lanes) > _MANY else _HIGH, np.linspace(0, view.whole, int(width / _COLUMN) + 1)
    kinds = [(f"k-{kind}", 1.0) for kind in view.kinds]
    for number, run in enumerate(view.runs):
        figures = f"{run.trace.makespan:,} cycles, {run.microseconds(run.trace.makespan):,.2f} µs"
        marks.append(Words(0, y + 11, f"{run.name}:", size=11.5, bold=True, soft=figures))
        marks += _stays(view, number, y + _NAME)
        y += _NAME + _STRIP + 2
        for lane in view.lanes_of(number):
            ticks.append(Tick(y + height / 2, lane.name, f"{lane.busy:.0%}"))
            marks += [Box(stay.start, stay.end, y, y + height, "faint") for stay, _ in view.stays_of(number)]
            marks += stacked(edges, lane.shares(edges, len(view.kinds)), kinds, y + height, -height)
            y += height + _BETWEEN
        y += _GAP
    for column in view.columns:
        marks.append(_column(view, column, y - _GAP, width))
    x, rows = Axis(0, view.whole or 1, "µs", None), Axis(y - _GAP, 0, ticks=tuple(ticks))
    return Picture(label, width, y - _GAP, x, rows, tuple(marks), tuple(_entries(view)), notes=(READ,))


def _stays(view: Aligned, run: int, y: int) -> Iterator[Box]:
    """A line as long as the journey is in each column, and what its launches take before."""
    for stay, how in view.stays_of(run):
        strip = partial(Box, top=y, bottom=y + _STRIP)
        if stay.launching < stay.start:
            yield strip(stay.launching, stay.start, fill=f"c-{LAUNCH}")
        if stay.start < stay.end:
            yield strip(stay.start, stay.end, fill=_COLOURS[how])


def _column(view: Aligned, column: Column, bottom: int, width: float) -> Told:
    """Its edge, its title where that fits, and what it is when pointed at."""
    room = int(((column.end - column.start) / (view.whole or 1) * width - 6) / LETTER)
    title = column.group.title
    shown = title if len(title) <= room else f"{title[: room - 1]}…" if room > 5 else ""
    edge = Line(((column.start, 4), (column.start, bottom)), "line", 0.8)
    named = (Words(column.start, 12, shown, dx=3, colour="soft"),) if shown else ()
    return Told(view.told(column), (edge, *named, Box(column.start, column.end, 4, bottom, "ground", 0.0)))


def _entries(view: Aligned) -> Iterator[Entry]:
    for kind in view.used_kinds():
        yield Entry(view.kinds[kind].lower(), f"k-{view.kinds[kind]}")
    if view.launching:
        yield Entry(LAUNCH, f"c-{LAUNCH}")
    for pace in (pace for pace in _COLOURS if pace in view.paces):
        yield Entry(pace, _COLOURS[pace])
