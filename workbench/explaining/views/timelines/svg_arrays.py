"""One matmul on its systolic array as inline SVG: the wave front in the array, and its tiles over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from simulator import Trace
from simulator.analysis.array_steps import ArrayWalk
from workbench.explaining.views.timelines.arrays import facts, parts_table, share, sum_text, symbols, title
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.markup import legend, table
from workbench.ir import Launches

_SIDE: Final = 220
"""Pixels of the array's longer side."""
_LEFT, _TOP = 30, 18
_WIDE, _HIGH = 560, 13
_MOST_TILES: Final = 14
_MOVES, _WORKS, _LEAVES = "var(--k-LOAD)", "var(--k-MATMUL)", "var(--k-STORE)"
_FADED: Final = 0.35


def array_svg(walk: ArrayWalk, trace: Trace, launches: Launches) -> Markup:
    """Facts, formulas, and both pictures."""
    told = joined(html("<dt>{name}</dt><dd>{text}</dd>", name=name, text=text) for name, text in facts(walk))
    grid = "display:grid;grid-template-columns:max-content minmax(0,1fr);gap:1px 14px;margin:6px 0"
    pictures = html('<div style="display:flex;flex-wrap:wrap;gap:10px 26px">{}{}</div>', _front(walk), _time(walk))
    names = [("weights or sums move in", _MOVES), ("multiplies", _WORKS), ("results on their way out", _LEAVES)]
    return html(
        "<p><b>{}</b></p><dl style='{grid}'>{told}</dl>{}<p>{}<br><span class='soft'>{}</span></p>{pictures}{}",
        title(walk, trace, launches),
        table(parts_table(walk), wide=("formula", "numbers")),
        sum_text(walk),
        symbols(walk),
        legend(names),
        grid=grid,
        told=told,
        pictures=pictures,
    )


def shown_cycle(walk: ArrayWalk) -> int:
    """When the front of the first tile has come half across the array."""
    tiles = walk.tiles
    return int(tiles.enters[0] + (tiles.rows[0] + tiles.columns[0]) // 2)


def _front(walk: ArrayWalk) -> Markup:
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
    used = html(
        'x="{left}" y="{top}" width="{columns:.1f}" height="{rows:.1f}"',
        left=_LEFT,
        top=_TOP,
        columns=columns,
        rows=rows,
    )
    told = f"cycle {cycle:,} of the array: {walk.at_work(cycle):,} of {high * wide:,} elements multiply"
    small = html('class="soft" font-size="11"')
    return html(
        '<div><svg role="img" aria-label="{told}" '
        'viewBox="0 0 {:.0f} {:.0f}" '
        'style="width:{:.0f}px;max-width:100%">'
        '<text x="{left}" y="12" {small}>{wide} columns</text>'
        '<text x="12" y="{:.0f}" text-anchor="middle" {small} '
        'transform="rotate(-90 12 {:.0f})">{high} rows</text>'
        '<rect x="{left}" y="{top}" width="{width:.1f}" height="{height:.1f}" style="fill:var(--raised);'
        'stroke:var(--line)"/><rect {used} style="{held}"/>'
        '<polygon points="{corners}" style="fill:{works}"/>'
        '</svg><div class="soft" style="max-width:{:.0f}px;font-size:12px">{told}</div></div>',
        _LEFT + width + 6,
        _TOP + height + 4,
        _LEFT + width + 6,
        _TOP + height / 2,
        _TOP + height / 2,
        _LEFT + width + 6,
        told=told,
        left=_LEFT,
        small=small,
        wide=wide,
        high=high,
        top=_TOP,
        width=width,
        height=height,
        used=used,
        held=held,
        corners=corners,
        works=_WORKS,
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


def _time(walk: ArrayWalk) -> Markup:
    """Tile below tile: moving in, streaming, draining."""
    count, tiles = len(walk.tiles), walk.tiles
    shown = min(count, _MOST_TILES)
    last = max(int(tiles.out[:shown].max()), 1)
    scale = _WIDE / (last - walk.first)
    height = _TOP + shown * _HIGH + 20
    rows = joined(part for place in range(shown) for part in _row(walk, place, scale))
    rest = f"; {count - shown:,} more tiles follow" if shown < count else ""
    small = html('class="soft" font-size="11"')
    told = f"tiles over time, {last - walk.first:,} cycles of the array, {share(walk):.0%} of it at work{rest}"
    return html(
        '<div class="scroll" tabindex="0"><svg role="img" aria-label="{told}" '
        'viewBox="0 0 {} {height}" style="width:{}px">'
        '<text x="{left}" y="12" {small}>{told}</text>{rows}'
        '<text x="{left}" y="{}" {small}>{:,}</text>'
        '<text x="{}" y="{}" text-anchor="end" {small}>{last:,}</text></svg></div>',
        _LEFT + _WIDE + 6,
        _LEFT + _WIDE + 6,
        height - 6,
        walk.first,
        _LEFT + _WIDE,
        height - 6,
        told=told,
        height=height,
        left=_LEFT,
        small=small,
        rows=rows,
        last=last,
    )


def _row(walk: ArrayWalk, place: int, scale: float) -> Iterator[Markup]:
    tiles, top = walk.tiles, _TOP + place * _HIGH
    moves, enters = int(tiles.moves_in[place]), int(tiles.enters[place])
    over, out = enters + int(tiles.streams[place]), int(tiles.out[place])
    yield html(
        '<text x="{}" y="{}" text-anchor="end" class="soft" font-size="10">{place}</text>',
        _LEFT - 5,
        top + 9,
        place=place,
    )
    for begin, end, colour, what in (
        (moves, moves + int(tiles.moved_in[place]), _MOVES, "moves in"),
        (enters, over, _WORKS, "streams"),
        (over, out, _LEAVES, "drains"),
    ):
        if end > begin:
            at = html('x="{:.1f}" width="{:.1f}"', _LEFT + (begin - walk.first) * scale, (end - begin) * scale)
            yield (
                html(
                    '<g><title>tile {place} {what}: cycles {begin:,} to {end:,}</title><rect {at} y="{}" '
                    'height="{}" style="fill:{colour}"/></g>',
                    top + 1,
                    _HIGH - 3,
                    place=place,
                    what=what,
                    begin=begin,
                    end=end,
                    at=at,
                    colour=colour,
                )
            )
