"""The map of mappings as a picture."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.explaining.views.comparisons.heat_map import HeatMap, summary
from workbench.explaining.views.scratchpads.tile_grids import strength
from workbench.ground.basics.picture import LETTER, Axis, Box, Entry, Mark, Picture, Tick, Told, Words

_WIDE, _HIGH = 62, 30
_HUE = "k-LOAD"
_LEGEND = (
    Entry("fast", _HUE, strength(1)),
    Entry("slow", _HUE, strength(0)),
    Entry("refused", hatch="soft"),
    Entry("best", edge="ink"),
    Entry("today's", edge="ink", dash=True),
)


def heat_map_picture(view: HeatMap, width: float = 0) -> Picture:
    """The picture, the best setting in words, and what the marks mean; cells are as wide as they must be, or more."""
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
    return Told(view.told(row, column), tuple(marks))


def _frames(view: HeatMap, cell: float) -> Iterator[Mark]:
    """Today's is dashed and a little smaller, so that both are seen where they are one."""
    for at, inset, stroke in ((view.today, 4.5, 1.4), (view.best, 1.5, 2.5)):
        if at is not None:
            (row, column), x, y = at, inset / cell, inset / _HIGH
            sides = column + x, column + 1 - x, row + y, row + 1 - y
            yield Box(*sides, edge="ink", stroke=stroke, dash=at == view.today and inset > 2)
