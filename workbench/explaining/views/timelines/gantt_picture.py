"""The timeline as a picture: a row for every hardware unit, time to the right.

A bar is work, coloured by its kind, and faded where its span only holds the unit and waits on its way. The thin strip
below says why the unit stood idle. Where a lane holds more spans than pixels, its bars are as high as the share of the
time they fill. Launches are shaded in turn and named on top; the strip between their names and the lanes shows the
launch overhead.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.explaining.views.timelines.gantt import BUSY, LAUNCH, NOTHING, OTHER, WAITING, Gantt, fitting
from workbench.ground.basics.colours import HELD
from workbench.ground.basics.picture import LETTER, Axis, Box, Entry, Line, Mark, Picture, Tick, Told, Words, stacked

_LANE, _BAR, _STRIP, _GAP, _HEAD = 27, 17, 4, 9, 20
_COLUMN = 2
"""Pixels of a column of a lane that is drawn as shares."""
_SPANS_TOLD = 1500
"""Up to so many spans, each has a tooltip."""


def gantt_picture(view: Gantt, width: float = 860, *, scale: int = 0, part: str = "") -> Picture:
    """The picture, of a run or of a part of one. `scale` is the number of cycles from edge to edge: the makespan when
    it is 0."""
    whole = max(scale or view.makespan, 1)
    tops, bottom = _tops(view)
    label = f"{part or 'timeline'}: {view.makespan:,} cycles"
    if not view.lanes:
        return Picture(label, nothing=NOTHING)
    marks = list[Mark](_launching(view))
    for lane, top in enumerate(tops):
        marks += _lane(view, lane, top, width / whole, whole)
    return Picture(
        label,
        width,
        bottom,
        Axis(0, whole, "cycles", None, "line", whole=True),
        Axis(bottom, 0, ticks=(Tick(8, "", BUSY), *_names(view, tops))),
        tuple(marks),
        tuple(_entries(view)),
        f"{label}, {view.makespan / view.clock_mhz:,.2f} µs" if part else "",
        notes=(f"idle throughout: {', '.join(view.unused)}",) if view.unused else (),
        behind=tuple(_bands(view, width / whole, bottom)),
        above=Axis(0, whole / view.clock_mhz, f"µs at {view.clock_mhz:g} MHz", None),
    )


def _names(view: Gantt, tops: list[int]) -> list[Tick]:
    return [Tick(top + _BAR / 2, lane.name, f"{lane.busy:.0%}") for lane, top in zip(view.lanes, tops, strict=True)]


def _tops(view: Gantt) -> tuple[list[int], int]:
    """Upper edge of every lane, and the lower edge of the last; a gap stands between groups of units."""
    tops, y, group = list[int](), _HEAD, view.lanes[0].group if view.lanes else ""
    for lane in view.lanes:
        y += _GAP if lane.group != group else 0
        group = lane.group
        tops.append(y)
        y += _LANE
    return tops, y


def _bands(view: Gantt, pixels: float, bottom: int) -> Iterator[Mark]:
    """Every second launch shaded, each named where the name fits; `pixels` are those of a cycle."""
    for index, band in enumerate(view.bands):
        name = fitting(band.kernel, (band.end - band.start) * pixels / LETTER)
        shade = Box(band.start, band.end, 0, bottom, "band", float(index % 2 == 0))
        words = Words((band.start + band.end) / 2, 11, name, "middle")
        title = f"{band.kernel}: cycles {band.start:,} to {band.end:,}"
        yield Told(title, (shade, words) if name else (shade,))
        yield Line(((band.start, 0), (band.start, bottom)), "line", 0.7)


def _launching(view: Gantt) -> Iterator[Told]:
    for launch in view.launching:
        cycles = f"{launch.end - launch.start:,} cycles, {launch.start:,} to {launch.end:,}"
        strip = Box(launch.start, launch.end, _HEAD - 6, _HEAD - 6 + _STRIP, f"c-{LAUNCH}")
        yield Told(f"launch of {launch.kernel}: {cycles}", (strip,))


def _lane(view: Gantt, lane: int, top: int, pixels: float, whole: int) -> Iterator[Mark]:
    yield Box(0, whole, top, top + _BAR, "faint", 0.55)
    part, base = view.of_lane(lane), top + _BAR
    columns = int(whole * pixels / _COLUMN)
    if part.stop - part.start > columns / 2:
        edges = np.linspace(0, whole, columns + 1)
        both = np.concatenate([view.busy(lane, edges), view.held(lane, edges)])
        kinds = [(f"k-{kind}", opacity) for opacity in (1.0, HELD) for kind in view.kinds]
        causes = [(f"c-{cause}", 1.0) for cause in view.causes]
        yield from stacked(edges, both, kinds, base, -_BAR)
        yield from stacked(edges, view.idle(lane, edges), causes, base + 2, _STRIP)
        return
    for span in zip(*(column[part].tolist() for column in _columns(view)), strict=True):
        yield from _bar(view, span, top)
    found, idle = view.idle_time, view.idle_time.of_lane(lane)
    for start, end, cause in zip(*(each[idle].tolist() for each in (found.start, found.end, found.cause)), strict=True):
        yield Box(start, end, base + 2, base + 2 + _STRIP, f"c-{view.causes[cause]}")


def _columns(view: Gantt) -> tuple[np.ndarray, ...]:
    return view.start, view.work_start, view.end, view.kind, view.cause, view.row


def _bar(view: Gantt, span: tuple[int, ...], top: int) -> Iterator[Mark]:
    start, works, end, kind, cause, row = span
    bar = Box(works, end, top, top + _BAR, f"k-{view.kinds[kind]}", apart=True)
    held = Box(start, works, top, top + _BAR, bar.fill, HELD)
    marks = (held, bar) if start < works else (bar,)
    if len(view.start) > _SPANS_TOLD:
        yield from marks
        return
    cycles = f"{end - start:,} cycles" + (f", {works - start:,} of them on its way" if start < works else "")
    where = f"span {row}: {view.kinds[kind]} {start:,} to {end:,}"
    yield Told(f"{where}, {cycles}; waited for {view.causes[cause]}", marks)


def _entries(view: Gantt) -> Iterator[Entry]:
    for kind in view.used_kinds():
        name = view.kinds[kind]
        yield Entry("not selected" if name == OTHER else name.lower(), f"k-{name}")
    for kind in view.waiting_kinds()[:1]:
        yield Entry(f"faded: {WAITING}", f"k-{view.kinds[kind]}", HELD)
    if view.launching:
        yield Entry(LAUNCH, f"c-{LAUNCH}")
    for cause in view.used_causes():
        yield Entry(f"idle: {view.causes[cause].replace('_', ' ')}", f"c-{view.causes[cause]}")
