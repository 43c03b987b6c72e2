"""Timelines of several journeys in one picture: the same nodes begin at the same place in all of them.

The picture is cut into columns, one for each group of kernels that meet. A column is as wide as its longest journey;
the others leave the rest of it empty, so that a reader sees where a journey takes longer. Within a column time is to
scale, and a microsecond is as wide everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np

from workbench.explaining.views.graphs.kernel_groups import Group, Matching, Run
from workbench.explaining.views.timelines.gantt import F64, I64, LAUNCH, NOTHING, Gantt, occupancy, together
from workbench.explaining.views.timelines.timeline import gantt_of
from workbench.ground.basics.common_parts import merged
from workbench.ground.basics.picture import LETTER, Axis, Box, Entry, Line, Mark, Picture, Tick, Told, Words, stacked

READ: Final = (
    "A column begins where the same nodes begin, and is as wide as its longest journey. A bar is as high as the "
    "share of its time in which some unit of the class works; the percentage is that of the whole journey."
)
SLOWER, FASTER, AS_LONG = "longer than the first", "shorter than the first", "as long as the first"

_HEAD, _NAME, _STRIP, _GAP = 18, 17, 4, 10
_HIGH, _LOW, _BETWEEN = 16, 8, 3
"""Heights of a lane, of a lane if there are many, and of the gap between lanes."""
_MANY = 16
_COLUMN = 2
"""Pixels of an interval for which shares are drawn."""
_COLOURS = {SLOWER: "bad", FASTER: "good", AS_LONG: "c-data"}


@dataclass(frozen=True)
class Stay:
    """The stretch of a journey in a column, in microseconds of the picture."""

    launching: float
    """Begin of the launch of the journey's first kernel in the column."""
    start: float
    end: float
    launches: tuple[int, ...]

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Column:
    """A stretch of the picture for one group."""

    group: Group
    start: float
    end: float
    stays: tuple[Stay | None, ...]
    """One stay for each journey; None if the journey has no work of the group here."""


@dataclass(frozen=True, eq=False)
class Lane:
    """All units of one class in one journey."""

    run: int
    name: str
    busy: float
    """Share of the journey's time in which a unit of the class works."""
    start: F64
    end: F64
    kind: I64

    def shares(self, edges: F64, kinds: int) -> F64:
        """For each kind (row) and interval (column): the kind's part of the time in which some unit works."""
        each = occupancy(self.start, self.end, self.kind, kinds, edges)
        start, end = together(self.start, self.end)
        some = occupancy(start, end, np.zeros(len(start), np.int64), 1, edges)[0]
        return each * some / np.maximum(each.sum(axis=0), 1e-12)


@dataclass(frozen=True, eq=False)
class Aligned:
    """The data of the picture."""

    runs: tuple[Run, ...]
    columns: tuple[Column, ...]
    lanes: tuple[Lane, ...]
    """The lanes in the order of the journeys."""
    kinds: tuple[str, ...]

    @property
    def whole(self) -> float:
        """Microseconds from edge to edge."""
        return self.columns[-1].end if self.columns else 0.0

    def lanes_of(self, run: int) -> list[Lane]:
        return [lane for lane in self.lanes if lane.run == run]

    def used_kinds(self) -> list[int]:
        return sorted({int(kind) for lane in self.lanes for kind in np.unique(lane.kind)})

    @property
    def launching(self) -> bool:
        """True if some launch takes time before its kernel begins."""
        return any(stay and stay.launching < stay.start for column in self.columns for stay in column.stays)

    @property
    def paces(self) -> set[str]:
        return {pace(stay, column.stays[0]) for column in self.columns for stay in column.stays if stay}

    def stays_of(self, run: int) -> list[tuple[Stay, str]]:
        """The stretches of a journey, each compared with the first journey's."""
        return [(stay, pace(stay, column.stays[0])) for column in self.columns if (stay := column.stays[run])]

    def column_text(self, column: Column) -> str:
        """The title of a column, and each journey's time in it."""
        first = column.stays[0]
        parts = [f"{column.group.title}:"]
        for run, stay in zip(self.runs, column.stays, strict=True):
            if stay is None:
                parts.append(f"{run.name}: not here")
                continue
            more = f" ({stay.length - first.length:+,.2f})" if first is not None and stay is not first else ""
            parts.append(f"{run.name}: {stay.length:,.2f} µs{more}")
        return "\n".join(parts)


def pace(stay: Stay, first: Stay | None) -> str:
    """Compares a journey's length in a column with the first one's."""
    if first is None or math.isclose(stay.length, first.length, rel_tol=1e-9):
        return AS_LONG
    return SLOWER if stay.length > first.length else FASTER


def aligned(matching: Matching) -> Aligned:
    """The picture's geometry."""
    columns = tuple(_columns(matching))
    lanes: list[Lane] = []
    kinds: tuple[str, ...] = ()
    for at, run in enumerate(matching.runs):
        view = gantt_of(run.trace)
        kinds = view.kinds
        lanes += _lanes(at, run, view, columns)
    return Aligned(matching.runs, columns, tuple(lanes), kinds)


def _columns(matching: Matching) -> list[Column]:
    of_launch = [[-1] * len(run.launches) for run in matching.runs]
    for number, group in enumerate(matching.groups):
        for places, part in zip(of_launch, group.parts, strict=True):
            for launch in part.launches:
                places[launch] = number
    blocks = [_blocks(places) for places in of_launch]
    columns: list[Column] = []
    end = 0.0
    for row in merged([[[group for group, _ in mine]] for mine in blocks]):
        here = [None if place is None else mine[place] for mine, place in zip(blocks, row, strict=True)]
        group = next(block[0] for block in here if block is not None)
        column = _column(matching, matching.groups[group], end, [block and block[1] for block in here])
        columns.append(column)
        end = column.end
    return columns


def _blocks(groups: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Groups with their adjacent launches, in the order of the run."""
    runs = groupby(range(len(groups)), key=lambda launch: groups[launch])
    return [(group, tuple(launches)) for group, launches in runs]


def _column(matching: Matching, group: Group, start: float, launches: Sequence[tuple[int, ...] | None]) -> Column:
    """The column that begins here: room for the longest launch before it, then for the longest work."""
    measured: list[tuple[float, float, tuple[int, ...]] | None] = []
    for run, mine in zip(matching.runs, launches, strict=True):
        if mine is None:
            measured.append(None)
            continue
        begin, end = run.spans[mine[0]][1], run.spans[mine[-1]][2]
        since = run.spans[mine[0] - 1][2] if mine[0] else 0
        measured.append((run.microseconds(begin - since), run.microseconds(end - begin), mine))
    first = start + max(each[0] for each in measured if each)
    stays = tuple(each and Stay(first - each[0], first, first + each[1], each[2]) for each in measured)
    return Column(group, start, max(stay.end for stay in stays if stay), stays)


def _lanes(at: int, run: Run, view: Gantt, columns: Sequence[Column]) -> list[Lane]:
    """The journey's spans by class of unit, each moved to where its launch stands in the picture."""
    moved = np.zeros(len(run.launches))
    for column in columns:
        if (stay := column.stays[at]) is not None:
            moved[list(stay.launches)] = stay.start - run.microseconds(run.spans[stay.launches[0]][1])
    shift = moved[run.trace.launch[view.row]]
    clock = view.clock_mhz
    lanes: list[Lane] = []
    for name in dict.fromkeys(lane.group for lane in view.lanes):
        units = [number for number, lane in enumerate(view.lanes) if lane.group == name]
        mine = np.isin(view.lane, units)
        start, end = (each[mine] / clock + shift[mine] for each in (view.work_start, view.end))
        begins, ends = together(start, end)
        busy = float((ends - begins).sum()) / (run.microseconds(view.makespan) or 1)
        lanes.append(Lane(at, name, busy, start, end, view.kind[mine]))
    return lanes


def aligned_picture(view: Aligned, width: float = 850) -> Picture:
    """The picture, its legend, and a note for its readers."""
    label = f"aligned timelines of {', '.join(run.name for run in view.runs)}"
    if not view.lanes:
        return Picture(label, nothing=NOTHING)
    marks, ticks, y = list[Mark](), list[Tick](), _HEAD
    height, edges = _LOW if len(view.lanes) > _MANY else _HIGH, np.linspace(0, view.whole, int(width / _COLUMN) + 1)
    kinds = [(f"k-{kind}", 1.0) for kind in view.kinds]
    for number, run in enumerate(view.runs):
        figures = f"{run.trace.makespan:,} cycles, {run.microseconds(run.trace.makespan):,.2f} µs"
        marks.append(Words(0, y + 11, f"{run.name}:", size=11.5, bold=True, soft=figures))
        marks += _strips(view, number, y + _NAME)
        y += _NAME + _STRIP + 2
        for lane in view.lanes_of(number):
            ticks.append(Tick(y + height / 2, lane.name, f"{lane.busy:.0%}"))
            marks += [Box(stay.start, stay.end, y, y + height, "faint") for stay, _ in view.stays_of(number)]
            marks += stacked(edges, lane.shares(edges, len(view.kinds)), kinds, y + height, -height)
            y += height + _BETWEEN
        y += _GAP
    for column in view.columns:
        marks.append(_titled(view, column, y - _GAP, width))
    x, rows = Axis(0, view.whole or 1, "µs", None), Axis(y - _GAP, 0, ticks=tuple(ticks))
    return Picture(label, width, y - _GAP, x, rows, tuple(marks), tuple(_entries(view)), notes=(READ,))


def _strips(view: Aligned, run: int, y: int) -> Iterator[Box]:
    """For each column a line as long as the journey takes there, and before it a line for the launch overhead."""
    for stay, how in view.stays_of(run):
        strip = partial(Box, top=y, bottom=y + _STRIP)
        if stay.launching < stay.start:
            yield strip(stay.launching, stay.start, fill=f"c-{LAUNCH}")
        if stay.start < stay.end:
            yield strip(stay.start, stay.end, fill=_COLOURS[how])


def _titled(view: Aligned, column: Column, bottom: int, width: float) -> Told:
    """The edge of a column, its title where that fits, and a box that explains it."""
    room = int(((column.end - column.start) / (view.whole or 1) * width - 6) / LETTER)
    title = column.group.title
    shown = title if len(title) <= room else f"{title[: room - 1]}…" if room > 5 else ""
    edge = Line(((column.start, 4), (column.start, bottom)), "line", 0.8)
    named = (Words(column.start, 12, shown, dx=3, colour="soft"),) if shown else ()
    return Told(view.column_text(column), (edge, *named, Box(column.start, column.end, 4, bottom, "ground", 0.0)))


def _entries(view: Aligned) -> Iterator[Entry]:
    for kind in view.used_kinds():
        yield Entry(view.kinds[kind].lower(), f"k-{view.kinds[kind]}")
    if view.launching:
        yield Entry(LAUNCH, f"c-{LAUNCH}")
    for pace in (pace for pace in _COLOURS if pace in view.paces):
        yield Entry(pace, _COLOURS[pace])
