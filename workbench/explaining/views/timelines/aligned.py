"""Timelines of several journeys in one picture: the same nodes begin at the same place in all of them.

The picture is cut into columns, one for each group of kernels that meet. A column is as wide as the longest of the
journeys is there; the others leave the rest of it empty, so that what takes longer is seen where it does. Within a
column time runs as it does, and a microsecond is as wide everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from workbench.explaining.views.graphs.kernel_groups import Group, Matching, Run
from workbench.explaining.views.timelines.gantt import F64, I64, Gantt, occupancy
from workbench.explaining.views.timelines.timeline import gantt_of
from workbench.ground.basics.common_parts import merged

READ: Final = (
    "A column begins where the same nodes begin, and is as wide as its longest journey. A bar is as high as the "
    "share of its time in which some unit of the class works; the percentage is that of the whole journey."
)
SLOWER, FASTER, AS_LONG = "longer than the first", "shorter than the first", "as long as the first"


@dataclass(frozen=True)
class Stay:
    """How long a journey is in a column, in microseconds of the picture."""

    launching: float
    """When the launch of its first kernel there begins."""
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
    """One a journey; None where it has no work of the group here."""


@dataclass(frozen=True, eq=False)
class Lane:
    """All units of one class in one journey."""

    run: int
    name: str
    busy: float
    """Share of the journey's time in which some of them works."""
    start: F64
    end: F64
    kind: I64

    def shares(self, edges: F64, kinds: int) -> F64:
        """For each kind (rows) its part of the share of each interval in which some unit works."""
        each = occupancy(self.start, self.end, self.kind, kinds, edges)
        start, end = _together(self.start, self.end)
        some = occupancy(start, end, np.zeros(len(start), np.int64), 1, edges)[0]
        return each * some / np.maximum(each.sum(axis=0), 1e-12)


def _together(start: F64, end: F64) -> tuple[F64, F64]:
    """Pieces of time that overlap, as longer ones that do not."""
    order = np.argsort(start, kind="stable")
    start, last = start[order], np.maximum.accumulate(end[order])
    opens = np.concatenate([[True], start[1:] > last[:-1]])[: len(start)]
    closes = np.concatenate([opens[1:], [True]])[: len(start)]
    return start[opens], last[closes]


@dataclass(frozen=True, eq=False)
class Aligned:
    """The data of the picture."""

    runs: tuple[Run, ...]
    columns: tuple[Column, ...]
    lanes: tuple[Lane, ...]
    """In the order of the journeys."""
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
        """Where a journey is, and how long beside the first."""
        return [(stay, pace(stay, column.stays[0])) for column in self.columns if (stay := column.stays[run])]

    def told(self, column: Column) -> str:
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
    """How long a journey is in a column beside the first one."""
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
    """Launches of the same group one after the other, together."""
    runs = groupby(range(len(groups)), key=lambda launch: groups[launch])
    return [(group, tuple(launches)) for group, launches in runs]


def _column(matching: Matching, group: Group, start: float, launches: Sequence[tuple[int, ...] | None]) -> Column:
    """The column that begins here: room for the longest launch before it, then for the longest work."""
    before: list[float] = []
    lengths: list[float] = []
    for run, mine in zip(matching.runs, launches, strict=True):
        if mine is not None:
            begin, end = run.spans[mine[0]][1], run.spans[mine[-1]][2]
            since = run.spans[mine[0] - 1][2] if mine[0] else 0
            before.append(run.microseconds(begin - since))
            lengths.append(run.microseconds(end - begin))
    first = start + max(before)
    measured = iter(zip(before, lengths, strict=True))
    stays: list[Stay | None] = []
    for mine in launches:
        if mine is None:
            stays.append(None)
            continue
        lead, length = next(measured)
        stays.append(Stay(first - lead, first, first + length, mine))
    return Column(group, start, first + max(lengths), tuple(stays))


def _lanes(at: int, run: Run, view: Gantt, columns: Sequence[Column]) -> list[Lane]:
    """The journey's spans by class of unit, each moved to where its launch stands in the picture."""
    moved = np.zeros(len(run.launches))
    for column in columns:
        if (stay := column.stays[at]) is not None:
            moved[list(stay.launches)] = stay.start - run.microseconds(run.spans[stay.launches[0]][1])
    shift = moved[run.trace.launch[view.row]]
    clock = view.clock_mhz
    made: list[Lane] = []
    for name in dict.fromkeys(lane.group for lane in view.lanes):
        units = [number for number, lane in enumerate(view.lanes) if lane.group == name]
        mine = np.isin(view.lane, units)
        start, end = (each[mine] / clock + shift[mine] for each in (view.work_start, view.end))
        begins, ends = _together(start, end)
        busy = float((ends - begins).sum()) / (run.microseconds(view.makespan) or 1)
        made.append(Lane(at, name, busy, start, end, view.kind[mine]))
    return made
