"""One matmul on its systolic array as inline SVG: the wave front in the array, and its tiles over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simulator import Trace
from simulator.analysis.array_steps import ArrayWalk
from workbench.ir import Launches
from workbench.views.basics.markup import escape, legend, table
from workbench.views.timelines.arrays import facts, parts_table, share, sum_text, symbols, title

_SIDE: Final = 220
"""Pixels of the array's longer side."""
_LEFT, _TOP = 30, 18
_WIDE, _HIGH = 560, 13
_MOST_TILES: Final = 14
_MOVES, _WORKS, _LEAVES = "var(--k-LOAD)", "var(--k-MATMUL)", "var(--k-STORE)"
_FADED: Final = 0.35


def array_svg(walk: ArrayWalk, trace: Trace, launches: Launches) -> str:
    """Facts, formulas, and both pictures."""
    told = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts(walk))
    grid = "display:grid;grid-template-columns:max-content minmax(0,1fr);gap:1px 14px;margin:6px 0"
    pictures = f'<div style="display:flex;flex-wrap:wrap;gap:10px 26px">{_front(walk)}{_time(walk)}</div>'
    names = [("weights or sums move in", _MOVES), ("multiplies", _WORKS), ("results on their way out", _LEAVES)]
    return (
        f"<p><b>{escape(title(walk, trace, launches))}</b></p><dl style='{grid}'>{told}</dl>"
        f"{table(parts_table(walk), wide=('formula', 'numbers'))}<p>{escape(sum_text(walk))}<br>"
        f"<span class='soft'>{escape(symbols(walk))}</span></p>"
        f"{pictures}{legend(names)}"
    )


def shown_cycle(walk: ArrayWalk) -> int:
    """When the front of the first tile has come half across the array."""
    tiles = walk.tiles
    return int(tiles.enters[0] + (tiles.rows[0] + tiles.columns[0]) // 2)


def _front(walk: ArrayWalk) -> str:
    """The array at a cycle: the rows and columns that the tile takes, and the elements that multiply."""
    high, wide = walk.machine.array.rows, walk.machine.array.columns
    scale, cycle = _SIDE / max(high, wide), shown_cycle(walk)
    tiles, width, height = walk.tiles, wide * scale, high * scale
    rows, columns = int(tiles.rows[0]) * scale, int(tiles.columns[0]) * scale
    reached = cycle - int(tiles.enters[0])
    corners = " ".join(
        f"{_LEFT + x:.1f},{_TOP + y:.1f}"
        for x, y in _band(columns, rows, (reached - int(tiles.streams[0]) + 1) * scale, (reached + 1) * scale)
    )
    held = f"fill:{_MOVES};opacity:{_FADED}" if walk.holds else "fill:none;stroke:var(--soft);stroke-dasharray:3 3"
    used = f'x="{_LEFT}" y="{_TOP}" width="{columns:.1f}" height="{rows:.1f}"'
    told = f"cycle {cycle:,} of the array: {walk.at_work(cycle):,} of {high * wide:,} elements multiply"
    small = 'class="soft" font-size="11"'
    return (
        f'<div><svg role="img" aria-label="{escape(told)}" '
        f'viewBox="0 0 {_LEFT + width + 6:.0f} {_TOP + height + 4:.0f}" '
        f'style="width:{_LEFT + width + 6:.0f}px;max-width:100%">'
        f'<text x="{_LEFT}" y="12" {small}>{wide} columns</text>'
        f'<text x="12" y="{_TOP + height / 2:.0f}" text-anchor="middle" {small} '
        f'transform="rotate(-90 12 {_TOP + height / 2:.0f})">{high} rows</text>'
        f'<rect x="{_LEFT}" y="{_TOP}" width="{width:.1f}" height="{height:.1f}" style="fill:var(--raised);'
        f'stroke:var(--line)"/><rect {used} style="{held}"/>'
        f'<polygon points="{corners}" style="fill:{_WORKS}"/>'
        f'</svg><div class="soft" style="max-width:{_LEFT + width + 6:.0f}px;font-size:12px">{escape(told)}</div></div>'
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


def _time(walk: ArrayWalk) -> str:
    """Tile below tile: moving in, streaming, draining."""
    count, tiles = len(walk.tiles), walk.tiles
    shown = min(count, _MOST_TILES)
    last = max(int(tiles.out[:shown].max()), 1)
    scale = _WIDE / (last - walk.first)
    height = _TOP + shown * _HIGH + 20
    rows = "".join(part for place in range(shown) for part in _row(walk, place, scale))
    rest = f"; {count - shown:,} more tiles follow" if shown < count else ""
    small = 'class="soft" font-size="11"'
    told = f"tiles over time, {last - walk.first:,} cycles of the array, {share(walk):.0%} of it at work{rest}"
    return (
        f'<div class="scroll" tabindex="0"><svg role="img" aria-label="{escape(told)}" '
        f'viewBox="0 0 {_LEFT + _WIDE + 6} {height}" style="width:{_LEFT + _WIDE + 6}px">'
        f'<text x="{_LEFT}" y="12" {small}>{escape(told)}</text>{rows}'
        f'<text x="{_LEFT}" y="{height - 6}" {small}>{walk.first:,}</text>'
        f'<text x="{_LEFT + _WIDE}" y="{height - 6}" text-anchor="end" {small}>{last:,}</text></svg></div>'
    )


def _row(walk: ArrayWalk, place: int, scale: float) -> Iterator[str]:
    tiles, top = walk.tiles, _TOP + place * _HIGH
    moves, enters = int(tiles.moves_in[place]), int(tiles.enters[place])
    over, out = enters + int(tiles.streams[place]), int(tiles.out[place])
    yield f'<text x="{_LEFT - 5}" y="{top + 9}" text-anchor="end" class="soft" font-size="10">{place}</text>'
    for begin, end, colour, what in (
        (moves, moves + int(tiles.moved_in[place]), _MOVES, "moves in"),
        (enters, over, _WORKS, "streams"),
        (over, out, _LEAVES, "drains"),
    ):
        if end > begin:
            at = f'x="{_LEFT + (begin - walk.first) * scale:.1f}" width="{(end - begin) * scale:.1f}"'
            yield (
                f'<g><title>tile {place} {what}: cycles {begin:,} to {end:,}</title><rect {at} y="{top + 1}" '
                f'height="{_HIGH - 3}" style="fill:{colour}"/></g>'
            )
