"""One matmul instruction on its systolic array: its time part by part, the tiles that the array holds, one cycle,
and the wave front and the tiles over time as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

import numpy as np
from markupsafe import Markup

from simulator import Trace
from simulator.analysis.array_steps import ArrayWalk, Tiles, array_walk
from simulator.tileprogram.program import I64, Opcode
from workbench.explaining.views.timelines.columns import Columns, packed
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.picture import Axis, Box, Entry, Line, Picture, Tick, Told
from workbench.ground.basics.svg_painter import side_by_side
from workbench.ground.basics.table import Table
from workbench.ground.errors import BadOption
from workbench.ir import Launches

PARTS: Final = ("preload", "stream", "drain")
PART_COLUMNS = ("part", "formula", "numbers", "cycles", "hidden", "begin", "end")
TILE_COLUMNS = (
    "tile", "batch", "product", "down", "across", "rows", "columns", "moves_in", "moved_in", "first_row", "rows_in",
    "complete", "out",
)  # fmt: skip
_OF_TILES = tuple(field.name for field in fields(Tiles))
"""The columns of `Tiles`, in the order of `TILE_COLUMNS`, whose first one is the tile's number."""
CYCLE_COLUMNS = ("cycle", "doing", "tile", "rows_moved_in", "rows_streamed", "at_work", "elements")

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


def matmuls(trace: Trace) -> list[int]:
    """Rows of the spans that an array works on, in the order in which they start."""
    rows = np.flatnonzero((trace.kind == Opcode.MATMUL) & (trace.done > trace.start))
    return rows[np.argsort(trace.start[rows], kind="stable")].tolist()


def matmul_columns(trace: Trace) -> Columns:
    """The matmuls in the order of their starts; and for every span the matmul that pictures show for it, the last one
    begun."""
    found = np.array(matmuls(trace), np.int64)
    before = np.zeros(0, np.int64)
    if len(found):
        place = np.searchsorted(trace.start[found], trace.start, side="right") - 1
        before = found[np.maximum(place, 0)]
        before[found] = found
    return packed({}, {"row": found, "before": before})


def walk_of(trace: Trace, span: int | None) -> ArrayWalk:
    """A span's matmul on its array; without a span, the longest matmul."""
    found = matmuls(trace)
    if not found:
        raise BadOption("no array works in this run: it has no matmul")
    if span is None:
        span = max(found, key=lambda row: int(trace.done[row] - trace.start[row]))
    if not 0 <= span < len(trace):
        raise BadOption(f"array({span}): rows of j.simulated.events are 0 to {len(trace) - 1}")
    walk = array_walk(trace, span) if trace.kind[span] == Opcode.MATMUL else None
    if walk is None:
        kind = Opcode(trace.kind[span]).name
        why = "was left out, because a factor is zero" if kind == "MATMUL" else f"is a {kind}"
        near = matmul_columns(trace).column("before")[span]
        raise BadOption(f"array({span}): span {span} {why}; the nearest matmul is span {near}")
    return walk


def parts_table(walk: ArrayWalk) -> Table:
    """One row a part, from `begin` to `end` on the timeline; the span ends with the stream."""
    edges = (walk.start, walk.phase, walk.end, walk.done)
    hidden = (walk.hidden, 0, 0)
    rows = tuple(
        (part.name, part.formula, part.numbers, part.cycles, hidden[place], edges[place], edges[place + 1])
        for place, part in enumerate(walk.parts)
    )
    return Table(PART_COLUMNS, rows)


def tiles_table(walk: ArrayWalk) -> Table:
    """One row a tile that the array holds, in order; cycles of the array's clock, 0 is the cycle of the first streamed
    row."""
    columns = (getattr(walk.tiles, name).tolist() for name in _OF_TILES)
    return Table(TILE_COLUMNS, tuple(zip(range(len(walk.tiles)), *columns, strict=True)))


def cycle_table(walk: ArrayWalk, cycle: int) -> Table:
    """One row: the array's activity in a cycle of its clock."""
    if not walk.first <= cycle <= walk.last:
        raise BadOption(f"at({cycle}): it works from cycle {walk.first} to {walk.last}, where 0 is the first row's")
    tiles, number = walk.tiles, last_begun(walk.tiles.enters, cycle)
    moving = int(np.clip(cycle - tiles.moves_in + 1, 0, tiles.moved_in)[last_begun(tiles.moves_in, cycle)])
    streamed = int(np.clip(cycle - tiles.enters + 1, 0, tiles.streams)[number])
    elements = walk.machine.array.rows * walk.machine.array.columns
    doing = ", ".join(doing_at(walk, cycle))
    return Table(CYCLE_COLUMNS, ((cycle, doing, number, moving, streamed, walk.at_work(cycle), elements),))


def last_begun(begins: I64, cycle: int) -> int:
    """The last tile that has begun to stream, or to move in, by a cycle; before the first one, the first."""
    return max(int(np.searchsorted(begins, cycle, side="right")) - 1, 0)


def doing_at(walk: ArrayWalk, cycle: int) -> list[str]:
    """The `PARTS` that go on in a cycle; `switch` if none does, `done` in the last cycle."""
    tiles = walk.tiles
    preload = (tiles.moves_in <= cycle) & (cycle < tiles.moves_in + tiles.moved_in)
    stream = (tiles.enters <= cycle) & (cycle < tiles.enters + tiles.streams)
    drain = (tiles.enters + tiles.streams <= cycle) & (cycle < tiles.out) & ~stream.any()  # beside streams it is free
    going = [name for name, each in zip(PARTS, (preload, stream, drain), strict=True) if each.any()]
    return going or ["switch" if cycle < walk.last else "done"]


def share(walk: ArrayWalk) -> float:
    """The multiplications of the array, as a share of those possible between the span's start and its last result."""
    elements = walk.machine.array.rows * walk.machine.array.columns
    return math.prod(walk.extent) * walk.times / (elements * walk.span_cycles * float(walk.ratio))


def title(walk: ArrayWalk, trace: Trace, launches: Launches) -> str:
    kernel, unit = launches.launches[int(trace.launch[walk.span])].name, trace.unit_names[int(trace.unit[walk.span])]
    return f"span {walk.span}: MATMUL of {kernel} on {unit}"


def facts(walk: ArrayWalk) -> list[tuple[str, str]]:
    """The product, the operand that stays in the array, and the part of the array that it fills."""
    (batch, m, n, k), machine, tiles = walk.extent, walk.machine, walk.tiles
    product = f"{m:,} x {k:,} by {k:,} x {n:,}"
    staying = {0: "the left operand", 1: "the right operand", 2: "sums"}[walk.stationary]
    depth = machine.array.preload_depth
    sets = f"{min(depth, len(tiles))} of {depth} {'sets of sums' if walk.stationary == 2 else 'sets of weights'}"
    found = [
        ("product", f"{batch:,} of {product}" if batch > 1 else product),
        ("stays", f"{staying}, in {len(tiles):,} tile{'s' * (len(tiles) != 1)}"),
        ("rows", f"{int(tiles.rows.max())} of {machine.array.rows}{_least(tiles.rows.tolist())}"),
        ("columns", f"{int(tiles.columns.max())} of {machine.array.columns}{_least(tiles.columns.tolist())}"),
        ("sets held", sets),
        ("share at work", f"{share(walk):.0%} of its elements' peak from start to last result"),
    ]
    if walk.times > 1:
        found.insert(1, ("precision", f"{walk.times} products, {machine.array.matmul_precision}"))
    if walk.ratio != 1:
        found.append(("clock", f"{float(walk.ratio):g} of the machine's: {walk.last - walk.first:,} cycles of its own"))
    return found


def _least(used: list[int]) -> str:
    return f", {min(used)} at least" if min(used) < max(used) else ""


def sum_text(walk: ArrayWalk) -> str:
    """Adds the parts up to the span, after which the next matmul may begin, and says when the last result is there."""
    preload, stream, drain = (part.cycles for part in walk.parts)
    hidden = f" - {walk.hidden:,} hidden" if walk.hidden else ""
    own = walk.end - walk.start
    return f"preload {preload:,}{hidden} + stream {stream:,} = {own:,} cycles, the last result {drain:,} later"


def symbols(walk: ArrayWalk) -> str:
    """The meaning of the formulas' letters."""
    ends = "r and c: rows and columns that the matmul takes of the array"
    if walk.stationary == 2:
        return f"T: tiles · k: columns and rows that stream · rₜ: rows of tile t · {ends}"
    switch = "switch: cycles from one set of weights to the next"
    return f"T: tiles · S: rows that stream through each · kₜ: rows of weights of tile t · {switch} · {ends}"


def walk_text(walk: ArrayWalk, trace: Trace, launches: Launches) -> str:
    """The facts, the parts with their formulas, and how they add up."""
    lines = [f"{name:<14} {text}" for name, text in facts(walk)]
    parts = [f"{part.name:<8} {part.cycles:>9,} = {part.formula} = {part.numbers}" for part in walk.parts]
    return "\n".join([title(walk, trace, launches), *lines, "", *parts, symbols(walk), "", sum_text(walk)])


def walk_columns(walk: ArrayWalk, trace: Trace, launches: Launches) -> Columns:
    """The matmul as columns for a picture that is drawn elsewhere. Times are cycles of the array's clock since its
    first one."""
    tiles, begin = walk.tiles, walk.first
    found = matmuls(trace)
    unit = [row for row in found if trace.unit[row] == trace.unit[walk.span]]
    place = unit.index(walk.span)
    header = {
        "span": walk.span,
        "title": title(walk, trace, launches),
        "facts": facts(walk),
        "parts": [(part.name, part.formula, part.numbers, part.cycles) for part in walk.parts],
        "sum": sum_text(walk),
        "symbols": symbols(walk),
        "rows": walk.machine.array.rows,
        "wide": walk.machine.array.columns,
        "sums_stay": walk.stationary == 2,
        "holds": walk.holds,
        "zero": -begin,
        "length": walk.last - begin,
        "phase": walk.phase,
        "clock": [walk.ratio.numerator, walk.ratio.denominator],
        "before": unit[place - 1] if place else None,
        "after": unit[place + 1] if place + 1 < len(unit) else None,
    }
    times = {name: getattr(tiles, name) - begin for name in ("moves_in", "enters", "complete", "out")}
    return packed(header, {name: times.get(name, getattr(tiles, name)) for name in _OF_TILES})


def array_svg(walk: ArrayWalk, trace: Trace, launches: Launches) -> Markup:
    """Facts, formulas, and both pictures."""
    listed = joined(html("<dt>{name}</dt><dd>{text}</dd>", name=name, text=text) for name, text in facts(walk))
    grid = "display:grid;grid-template-columns:max-content minmax(0,1fr);gap:1px 14px;margin:6px 0"
    return html(
        "<p><b>{}</b></p><dl style='{}'>{}</dl>{}<p>{}<br><span class='soft'>{}</span></p>{}",
        *(title(walk, trace, launches), grid, listed, markup.table(parts_table(walk), wide=("formula", "numbers"))),
        *(sum_text(walk), symbols(walk), side_by_side([_front(walk), _time(walk)])),
    )


def shown_cycle(walk: ArrayWalk) -> int:
    """The cycle in which the front of the first tile has come half across the array."""
    tiles = walk.tiles
    return int(tiles.enters[0] + (tiles.rows[0] + tiles.columns[0]) // 2)


def _front(walk: ArrayWalk) -> Picture:
    """The array at a cycle: the rows and columns that the tile takes, and the elements that multiply."""
    high, wide = walk.machine.array.rows, walk.machine.array.columns
    scale, cycle, tiles = _SIDE / max(high, wide), shown_cycle(walk), walk.tiles
    rows, columns, reached = int(tiles.rows[0]), int(tiles.columns[0]), cycle - int(tiles.enters[0])
    corners = _band(columns, rows, reached - int(tiles.streams[0]) + 1, reached + 1)
    used = Box(0, columns, 0, rows, _MOVES, _FADED) if walk.holds else Box(0, columns, 0, rows, edge="soft", dash=True)
    label = f"cycle {cycle:,} of the array: {walk.at_work(cycle):,} of {high * wide:,} elements multiply"
    return Picture(
        label,
        wide * scale,
        high * scale,
        Axis(0, wide, f"{wide} columns"),
        Axis(high, 0, f"{high} rows"),
        (Box(0, wide, 0, high, "raised", edge="line"), used, Line(tuple(corners), "", fill=_WORKS)),
        _LEGEND,
        notes=(label,),
        grows=False,
    )


def _band(width: float, height: float, low: float, high: float) -> list[tuple[float, float]]:
    """The corners of the part of a rectangle between two lines, on which x and y add up to `low` and to `high`."""
    low, high = (min(max(each, 0.0), width + height) for each in (low, high))

    def right(total: float) -> tuple[float, float]:
        return min(total, width), total - min(total, width)

    def left(total: float) -> tuple[float, float]:
        return total - min(total, height), min(total, height)

    above = [(width, 0.0)] if low < width < high else []
    below = [(0.0, height)] if low < height < high else []
    return [right(low), *above, right(high), left(high), *below, left(low)]


def _time(walk: ArrayWalk) -> Picture:
    """The picture of the tiles over time, one below the other: moving in, streaming, draining."""
    count, tiles = len(walk.tiles), walk.tiles
    shown = min(count, _MOST_TILES)
    last = max(int(tiles.out[:shown].max()), 1)
    rest = f"; {count - shown:,} more tiles follow" if shown < count else ""
    label = f"tiles over time, {last - walk.first:,} cycles of the array, {share(walk):.0%} of it at work{rest}"
    ends = Tick(walk.first, "", f"{walk.first:,}"), Tick(last, "", f"{last:,}")
    rows = tuple(Tick(place * _HIGH + 6, "", f"{place}") for place in range(shown))
    return Picture(
        label,
        _WIDE,
        shown * _HIGH,
        Axis(walk.first, last, ticks=ends),
        Axis(shown * _HIGH, 0, ticks=rows),
        tuple(part for place in range(shown) for part in _row(walk, place)),
        _LEGEND,
        notes=(label,),
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
            label = f"tile {place} {what}: cycles {begin:,} to {end:,}"
            yield Told(label, (Box(begin, end, top + 1, top + _HIGH - 2, colour),))
