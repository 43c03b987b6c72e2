"""One matmul on its systolic array as inline SVG: the wave front in the array, and its tiles over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from simulator import Trace
from simulator.analysis.array_steps import ArrayWalk
from workbench.explaining.views.timelines.arrays import facts, parts_table, share, sum_text, symbols, title
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.markup import table
from workbench.ground.basics.picture import Axis, Box, Entry, Line, Picture, Tick, Told
from workbench.ground.basics.svg_painter import side_by_side
from workbench.ir import Launches

_SIDE: Final = 220
"""Pixels of the array's longer side."""
_WIDE, _HIGH = 560, 13
_MOST_TILES: Final = 14
_MOVES, _WORKS, _LEAVES = "k-LOAD", "k-MATMUL", "k-STORE"
_LEGEND: Final = (
    Entry("weights or sums move in", _MOVES),
    Entry("multiplies", _WORKS),
    Entry("results on their way out", _LEAVES),
)
_FADED: Final = 0.35


def array_svg(walk: ArrayWalk, trace: Trace, launches: Launches) -> Markup:
    """Facts, formulas, and both pictures."""
    told = joined(html("<dt>{name}</dt><dd>{text}</dd>", name=name, text=text) for name, text in facts(walk))
    grid = "display:grid;grid-template-columns:max-content minmax(0,1fr);gap:1px 14px;margin:6px 0"
    return html(
        "<p><b>{}</b></p><dl style='{}'>{}</dl>{}<p>{}<br><span class='soft'>{}</span></p>{}",
        *(title(walk, trace, launches), grid, told, table(parts_table(walk), wide=("formula", "numbers"))),
        *(sum_text(walk), symbols(walk), side_by_side([_front(walk), _time(walk)])),
    )


def shown_cycle(walk: ArrayWalk) -> int:
    """When the front of the first tile has come half across the array."""
    tiles = walk.tiles
    return int(tiles.enters[0] + (tiles.rows[0] + tiles.columns[0]) // 2)


def _front(walk: ArrayWalk) -> Picture:
    """The array at a cycle: the rows and columns that the tile takes, and the elements that multiply."""
    high, wide = walk.machine.array.rows, walk.machine.array.columns
    scale, cycle, tiles = _SIDE / max(high, wide), shown_cycle(walk), walk.tiles
    rows, columns, reached = int(tiles.rows[0]), int(tiles.columns[0]), cycle - int(tiles.enters[0])
    corners = _band(columns, rows, reached - int(tiles.streams[0]) + 1, reached + 1)
    used = Box(0, columns, 0, rows, _MOVES, _FADED) if walk.holds else Box(0, columns, 0, rows, edge="soft", dash=True)
    told = f"cycle {cycle:,} of the array: {walk.at_work(cycle):,} of {high * wide:,} elements multiply"
    return Picture(
        told,
        wide * scale,
        high * scale,
        Axis(0, wide, f"{wide} columns"),
        Axis(high, 0, f"{high} rows"),
        (Box(0, wide, 0, high, "raised", edge="line"), used, Line(tuple(corners), "", fill=_WORKS)),
        _LEGEND,
        notes=(told,),
        grows=False,
    )


def _band(width: float, height: float, low: float, high: float) -> list[tuple[float, float]]:
    """The corners of what lies in a rectangle between two lines on which x and y add up to `low` and to `high`."""
    low, high = (min(max(each, 0.0), width + height) for each in (low, high))

    def right(total: float) -> tuple[float, float]:
        return min(total, width), total - min(total, width)

    def left(total: float) -> tuple[float, float]:
        return total - min(total, height), min(total, height)

    above = [(width, 0.0)] if low < width < high else []
    below = [(0.0, height)] if low < height < high else []
    return [right(low), *above, right(high), left(high), *below, left(low)]


def _time(walk: ArrayWalk) -> Picture:
    """Tile below tile: moving in, streaming, draining."""
    count, tiles = len(walk.tiles), walk.tiles
    shown = min(count, _MOST_TILES)
    last = max(int(tiles.out[:shown].max()), 1)
    rest = f"; {count - shown:,} more tiles follow" if shown < count else ""
    told = f"tiles over time, {last - walk.first:,} cycles of the array, {share(walk):.0%} of it at work{rest}"
    ends = Tick(walk.first, "", f"{walk.first:,}"), Tick(last, "", f"{last:,}")
    rows = tuple(Tick(place * _HIGH + 6, "", f"{place}") for place in range(shown))
    return Picture(
        told,
        _WIDE,
        shown * _HIGH,
        Axis(walk.first, last, ticks=ends),
        Axis(shown * _HIGH, 0, ticks=rows),
        tuple(part for place in range(shown) for part in _row(walk, place)),
        _LEGEND,
        notes=(told,),
        grows=False,
    )


def _row(walk: ArrayWalk, place: int) -> Iterator[Told]:
    tiles, top = walk.tiles, place * _HIGH
    moves, enters = int(tiles.moves_in[place]), int(tiles.enters[place])
    over, out = enters + int(tiles.streams[place]), int(tiles.out[place])
    for begin, end, colour, what in (
        (moves, moves + int(tiles.moved_in[place]), _MOVES, "moves in"),
        (enters, over, _WORKS, "streams"),
        (over, out, _LEAVES, "drains"),
    ):
        if end > begin:
            told = f"tile {place} {what}: cycles {begin:,} to {end:,}"
            yield Told(told, (Box(begin, end, top + 1, top + _HIGH - 2, colour),))
