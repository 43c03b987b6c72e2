"""The map of mappings: the text of each cell, the strength of its colour, and the picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from workbench.explaining.views.scratchpads.tile_grids import strength
from workbench.ground.basics.picture import LETTER, Axis, Box, Entry, Mark, Picture, Tick, Told, Words

_CLOCK = "machine.clock_mhz"
_FEW_MORE = 1.1
"""A gain below this is given as a share: "1.00 times as fast" says nothing."""
_WIDE, _HIGH = 62, 30
_HUE = "k-LOAD"
_LEGEND = (
    Entry("fast", _HUE, strength(1)),
    Entry("slow", _HUE, strength(0)),
    Entry("refused", hatch="soft"),
    Entry("best", edge="ink"),
    Entry("today's", edge="ink", dash=True),
)


@dataclass(frozen=True, slots=True)
class Spot:
    """One setting: its cost, or the reason of its refusal."""

    cycles: int | None
    bytes: int | None
    refused: str
    microseconds: float = 0.0


@dataclass(frozen=True)
class HeatMap:
    """Settings of one knob or two: values of the first down, of the last across."""

    knobs: tuple[str, ...]
    kernel: str
    """The kernel of the knobs; empty if they are the whole journey's."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    spots: tuple[tuple[Spot | None, ...], ...]
    """Settings by row; None where not known yet."""
    today: tuple[int, int] | None
    """Row and column of the reference setting, with which the best is compared, if it is on the map."""
    best: tuple[int, int] | None
    called: str = "today's"
    """Name of the reference setting."""

    def with_spot(self, at: tuple[int, int], spot: Spot) -> HeatMap:
        """The map with one more setting that is known."""
        rows = [list(row) for row in self.spots]
        rows[at[0]][at[1]] = spot
        faster = self.best is None or self.cost(spot) < self.cost(rows[self.best[0]][self.best[1]] or spot)
        return replace(self, spots=tuple(map(tuple, rows)), best=at if faster else self.best)

    @property
    def across(self) -> str:
        return self.knobs[-1]

    @property
    def down(self) -> str:
        return self.knobs[0] if len(self.knobs) > 1 else ""

    @property
    def by_time(self) -> bool:
        """True if cycles are of different lengths, so that time is compared instead."""
        return _CLOCK in self.knobs

    def cost(self, spot: Spot) -> float:
        """The compared number: cycles, or the time where cycles are of different lengths."""
        return max(spot.microseconds, 1e-6) if self.by_time else max(spot.cycles or 0, 1)

    @cached_property
    def _costs(self) -> list[float]:
        return [self.cost(spot) for row in self.spots for spot in row if spot and spot.cycles is not None]

    def colour(self, spot: Spot) -> float:
        """Opacity of a setting's colour: highest for the fastest; it falls by the same step each time the cycles
        double."""
        least, most = math.log(min(self._costs)), math.log(max(self._costs))
        return strength((most - math.log(self.cost(spot))) / (most - least) if most > least else 1.0)

    def written(self, spot: Spot) -> str:
        """The text of a setting's cell."""
        if spot.cycles is None:
            return ""
        return f"{spot.microseconds:,.4g} µs" if self.by_time else short(spot.cycles)

    def cell_text(self, row: int, column: int) -> str:
        """A cell in words."""
        values = [(self.across, self.columns[column])]
        if self.down:
            values.insert(0, (self.down, self.rows[row]))
        where, spot = ", ".join(f"{knob} {value}" for knob, value in values), self.spots[row][column]
        if spot is None:
            return f"{where}: not known yet"
        if spot.cycles is None:
            return f"{where}: refused: {spot.refused}"
        marked = (("best", self.best), (self.called, self.today))
        marks = "".join(f", {name}" for name, at in marked if at == (row, column))
        time = f", {spot.microseconds:,.2f} µs" if self.by_time else ""
        return f"{where}: {spot.cycles:,} cycles{time}, {spot.bytes or 0:,} bytes{marks}"


def short(cycles: int) -> str:
    """`13.6k`: a number cut to a cell's room."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if cycles >= 10 * size or (cycles >= size and unit != "k"):
            return f"{cycles / size:.1f}{unit}"
    return f"{cycles:,}"


def summary(view: HeatMap) -> str:
    """The best setting, compared with the reference setting."""
    known = sum(spot is not None for row in view.spots for spot in row)
    every = len(view.rows) * len(view.columns)
    partly = "" if known == every else f" of the {known} of {every} settings that are known"
    if view.best is None:
        return "every setting was refused" if known else "nothing is known yet"
    row, column = view.best
    told = f"best{partly}: {view.cell_text(row, column).partition(', best')[0]}"
    if view.today is None or (spot := view.spots[view.today[0]][view.today[1]]) is None or spot.cycles is None:
        return told
    if view.today == view.best:
        return f"{told}: {view.called}"
    beside = view.spots[row][column]
    assert beside is not None, "the best is known"
    ratio = view.cost(spot) / view.cost(beside)
    now = f"{spot.microseconds:,.2f} µs" if view.by_time else f"{spot.cycles:,}"
    if ratio == 1:
        return f"{told}: the same as {view.called}"
    if ratio < _FEW_MORE:
        return f"{told}: {1 - 1 / ratio:.2%} less than {view.called}, {now}"
    return f"{told}: {ratio:.2f} times as fast as {view.called}, {now}"


def heat_map_picture(view: HeatMap, width: float = 0) -> Picture:
    """The picture, the best setting in words, and what the marks mean; cells are at least as wide as their texts."""
    rows, columns = len(view.rows), len(view.columns)
    title = f"cycles by {' and '.join(view.knobs)}" + (f" of {view.kernel}" if view.kernel else "")
    cell = max(_WIDE, 14 + LETTER * max(map(len, view.columns)), width / columns)
    return Picture(
        f"{title}: {summary(view)}",
        cell * columns,
        _HIGH * rows,
        Axis(0, columns, view.across, tuple(Tick(at + 0.5, text) for at, text in enumerate(view.columns))),
        Axis(rows, 0, view.down, tuple(Tick(at + 0.5, text) for at, text in enumerate(view.rows))),
        (*(_cell(view, row, column) for row in range(rows) for column in range(columns)), *_frames(view, cell)),
        _LEGEND,
        title,
        notes=(summary(view),),
        grows=False,
    )


def _cell(view: HeatMap, row: int, column: int) -> Told:
    spot, marks = view.spots[row][column], list[Box | Words]()
    place = column, column + 1, row, row + 1
    if spot is not None and spot.cycles is not None:
        marks.append(Box(*place, _HUE, view.colour(spot), "ground"))
        marks.append(Words(column + 0.5, row + 0.5, view.written(spot), "middle", dy=4, size=12))
    else:
        marks.append(Box(*place, "ground", edge="ground", hatch="soft" if spot else ""))
    return Told(view.cell_text(row, column), tuple(marks))


def _frames(view: HeatMap, cell: float) -> Iterator[Mark]:
    """The frames of the reference and the best setting: the former is dashed and a little smaller, so that both are
    seen around one cell."""
    for at, inset, stroke in ((view.today, 4.5, 1.4), (view.best, 1.5, 2.5)):
        if at is not None:
            (row, column), x, y = at, inset / cell, inset / _HIGH
            sides = column + x, column + 1 - x, row + y, row + 1 - y
            yield Box(*sides, edge="ink", stroke=stroke, dash=at == view.today and inset > 2)
