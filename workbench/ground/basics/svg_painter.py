"""Pictures as inline SVG in the colours of the style sheet: no script, no drawing library."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

import numpy as np
from markupsafe import Markup

from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import NO_HTML, html, joined, plain
from workbench.ground.basics.picture import (
    LETTER,
    Box,
    Dot,
    Entry,
    Line,
    Mark,
    Picture,
    Steps,
    Tick,
    Told,
    Words,
    shapes,
)

_SMALL = html('font-size="10.5" class="soft"')
_LEAST = 0.4
"""The least width and height of a box in pixels, so that it can be seen."""


def svg_of(picture: Picture) -> Markup:
    """The picture as HTML: title, drawing, legend and notes."""
    legend = markup.legend(map(_entry, picture.legend)) if picture.legend else NO_HTML
    return _drawn(picture) + legend + _notes(picture)


def side_by_side(pictures: Sequence[Picture]) -> Markup:
    """Pictures beside each other as far as there is room, with one legend."""
    panels = (
        html(
            '<div style="min-width:0;max-width:{:.0f}px;font-size:12px">{}{}</div>',
            *(max(each.width + 50, 310), _drawn(each), _notes(each)),
        )
        for each in pictures
    )
    entries = dict.fromkeys(entry for each in pictures for entry in each.legend)
    row = html('<div style="display:flex;flex-wrap:wrap;gap:14px 26px">{}</div>', joined(panels))
    return row + markup.legend(map(_entry, entries))


def _drawn(picture: Picture) -> Markup:
    soft = html(' <span class="soft">{}</span>', picture.subtitle) if picture.subtitle else NO_HTML
    title = html('<div style="margin-top:8px"><b>{}</b>{}</div>', picture.title, soft) if picture.title else NO_HTML
    return title + (html('<p class="soft">{}</p>', picture.nothing) if picture.nothing else _svg(picture))


def _notes(picture: Picture) -> Markup:
    return joined(html('<div class="soft">{}</div>', line) for line in picture.notes)


def _svg(picture: Picture) -> Markup:
    left, right = (_room(axis.all_ticks() if axis else ()) for axis in (picture.y, picture.beside))
    left = max(left + (18 if picture.y.label else 0), _room([Tick(0, each) for each in _units(picture)]))
    top, foot = 22 if picture.above else 6, 2
    foot += 16 * (picture.x.ticks != ()) + 16 * bool(picture.x.label and picture.x.ticks is not None)
    wide, high = left + picture.width + max(right, 24), top + picture.height + foot
    size = "width:100%;min-width:700px;max-width:1150px" if picture.grows else f"width:{wide:.0f}px"
    return html(
        '<div class="scroll" tabindex="0"><svg role="img" aria-label="{}" viewBox="{:.0f} {} {:.0f} {:.0f}" style="{}">'
        "{}{}{}{}</svg></div>",
        *(picture.label, -left, -top, wide, high, size, _hatches(picture)),
        *(_marks(picture, picture.behind), _axes(picture, left), _marks(picture, picture.marks)),
    )


def _room(ticks: Iterable[Tick]) -> float:
    """Pixels that the longest text beside an axis takes."""
    return max((len(tick.text + tick.soft) * LETTER + 14 for tick in ticks), default=2)


def _units(picture: Picture) -> list[str]:
    """The names of the scales below and above the picture, which are written to the left of them."""
    return [axis.label for axis in (picture.x, picture.above) if axis and axis.ticks is None]


def _x(picture: Picture, value: float) -> float:
    return picture.x.part(value) * picture.width


def _y(picture: Picture, value: float) -> float:
    return (1 - picture.y.part(value)) * picture.height


def _axes(picture: Picture, left: float) -> Markup:
    wide, high = picture.width, picture.height
    parts = [_box(0, 0, wide, high, f"fill:none;stroke:var(--{picture.frame})")] if picture.frame else []
    for tick in picture.x.all_ticks():
        x = _x(picture, tick.at)
        parts += [_line(x, x, 0, high, picture.x.grid), _text(x, high + 14, tick, "middle")]
    for tick in picture.above.all_ticks() if picture.above else ():
        x = picture.above.part(tick.at) * wide if picture.above else 0
        parts += [_line(x, x, -3.5, 0, "soft"), _text(x, -6, tick, "middle")]
    for tick in picture.y.all_ticks():
        y = _y(picture, tick.at)
        parts += [_line(0, wide, y, y, picture.y.grid), _text(-8, y + 3.5, tick, "end")]
    for tick in picture.beside.all_ticks() if picture.beside else ():
        parts.append(_text(wide + 6, _y(picture, tick.at) + 3.5, tick, "start"))
    if picture.x.ticks is None:
        parts.append(_text(-8, high + 14, Tick(0, "", picture.x.label), "end"))
    elif picture.x.label:
        y = high + (30 if picture.x.ticks else 14)
        parts.append(_text(wide / 2, y, Tick(0, picture.x.label), "middle"))
    if picture.above:
        parts.append(_text(-8, -6, Tick(0, "", picture.above.label), "end"))
    if picture.y.label:
        turn = html('transform="translate({:.1f} {:.1f}) rotate(-90)"', 12 - left, high / 2)
        parts.append(html('<text {} text-anchor="middle" font-size="11">{}</text>', turn, picture.y.label))
    return joined(parts)


def _line(x1: float, x2: float, y1: float, y2: float, colour: str) -> Markup:
    if not colour:
        return NO_HTML
    place = html('x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"', x1, x2, y1, y2)
    return html('<line {} style="stroke:var(--{});stroke-width:.8"/>', place, colour)


def _text(x: float, y: float, tick: Tick, anchor: str) -> Markup:
    paler = html(' <tspan class="soft" font-size="10.5">{}</tspan>', tick.soft) if tick.soft else NO_HTML
    colour = html(' style="fill:var(--{})"', tick.colour) if tick.colour != "ink" else NO_HTML
    place = html('x="{:.1f}" y="{:.1f}" text-anchor="{}"', x, y, anchor)
    return html('<text {} font-size="11"{}>{}{}</text>', place, colour, tick.text, paler)


def _marks(picture: Picture, marks: Iterable[Mark]) -> Markup:
    return joined(_mark(picture, mark) for mark in marks)


def _mark(picture: Picture, mark: Mark) -> Markup:
    match mark:
        case Told():
            name = html(' data-name="{}"', mark.name) if mark.name else NO_HTML
            title = html("<title>{}</title>", mark.title) if mark.title else NO_HTML
            return html("<g{}>{}{}</g>", name, title, _marks(picture, mark.marks))
        case Box():
            return _boxed(picture, mark)
        case Steps():
            return _steps(picture, mark)
        case Line():
            return _way(picture, mark)
        case Words():
            return _words(picture, mark)
        case Dot():
            return _dot(picture, mark)


def _boxed(picture: Picture, box: Box) -> Markup:
    x, y = _x(picture, box.left), _y(picture, box.top)
    wide, high = _x(picture, box.right) - x, _y(picture, box.bottom) - y
    edge, stroke = ("ground", 0.6) if box.apart and wide > 3 and high > 3 else (box.edge, box.stroke)
    style = f"fill:var(--{box.fill})" if box.fill else "fill:none"
    if box.hatch:
        style = f"fill:url(#{_hatch_of(picture, box.hatch)})"
    if box.opacity < 1:
        style += f";fill-opacity:{box.opacity:.3g}"
    if edge:
        style += f";stroke:var(--{edge});stroke-width:{stroke:g}{';stroke-dasharray:4 3' if box.dash else ''}"
    return _box(x, y, max(wide, _LEAST), max(high, _LEAST), style, box.corner)


def _box(x: float, y: float, wide: float, high: float, style: str, corner: float = 0) -> Markup:
    rounded = html(' rx="{:g}"', corner) if corner else NO_HTML
    return html(
        '<rect x="{:.1f}" y="{:g}" width="{:.1f}" height="{:g}" style="{}"{}/>',
        *(x, round(y, 1), wide, round(high, 1), style, rounded),
    )


def _steps(picture: Picture, steps: Steps) -> Markup:
    """An area as a path: each connected piece goes along its upper levels and back along its lower levels."""
    x = [f"{_x(picture, each):.1f}" for each in steps.edges.tolist()]
    lower, upper = ([f"{_y(picture, each):.1f}" for each in side.tolist()] for side in (steps.lower, steps.upper))
    seen = np.flatnonzero([low != high for low, high in zip(lower, upper, strict=True)])
    way = list[str]()
    for piece in np.split(seen, np.flatnonzero(np.diff(seen) > 1) + 1) if len(seen) else ():
        places: list[int] = piece.tolist()
        way.append(f"M{x[places[0]]} {lower[places[0]]}")
        way += [f"V{level}H{x[max(same) + 1]}" for level, same in groupby(places, key=upper.__getitem__)]
        way += [f"V{level}H{x[min(same)]}" for level, same in groupby(reversed(places), key=lower.__getitem__)]
    faded = f";fill-opacity:{steps.opacity:.3g}" if steps.opacity < 1 else ""
    return html('<path d="{}" style="fill:var(--{}){}"/>', plain("".join(way)), steps.fill, faded) if way else NO_HTML


def _way(picture: Picture, line: Line) -> Markup:
    points = [(_x(picture, x), _y(picture, y)) for x, y in line.points]
    style = f"fill:{f'var(--{line.fill})' if line.fill else 'none'}"
    style += f";stroke:var(--{line.colour});stroke-width:{line.stroke:g}" if line.colour else ""
    style += f";stroke-dasharray:{' '.join(f'{each:g}' for each in line.dash)}" if line.dash else ""
    way = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (y1 - y0) / 2
        curve = f"C{x0:.1f} {y0 + half:.1f} {x1:.1f} {y1 - half:.1f} {x1:.1f} {y1:.1f}"
        way += curve if line.smooth and x0 != x1 else f"L{x1:.1f} {y1:.1f}"
    return html('<path d="{}" style="{}"/>', plain(way), style)


def _words(picture: Picture, words: Words) -> Markup:
    x, y = _x(picture, words.x), _y(picture, words.y)
    place = html('x="{:.1f}" y="{:.1f}"', x + words.dx, y + words.dy)
    if words.angle:
        turned = html('transform="translate({:.1f} {:.1f}) rotate({:.2f})"', x, y, -words.angle)
        place = html('{} x="{:g}" y="{:g}"', turned, words.dx, words.dy)
    look = html(' style="fill:var(--{})"', words.colour) if words.colour != "ink" else NO_HTML
    look += html(' font-weight="600"') if words.bold else NO_HTML
    look += html(' text-anchor="{}"', words.anchor) if words.anchor != "start" else NO_HTML
    paler = html(' <tspan class="soft" font-weight="400">{}</tspan>', words.soft) if words.soft else NO_HTML
    return html('<text {} font-size="{:g}"{}>{}{}</text>', place, words.size, look, words.text, paler)


def _dot(picture: Picture, dot: Dot) -> Markup:
    x, y, r = _x(picture, dot.x), _y(picture, dot.y), dot.radius
    look = f"fill:var(--{dot.fill});stroke:var(--{dot.edge})"
    if not dot.diamond:
        return html('<circle cx="{:.1f}" cy="{:.1f}" r="{:g}" style="{}"/>', x, y, r, look)
    return html('<path d="M{:.1f} {:.1f}l{r:g} -{r:g} {r:g} {r:g} -{r:g} {r:g}z" style="{}"/>', x - r, y, look, r=r)


def _hatches(picture: Picture) -> Markup:
    colours = dict.fromkeys(mark.hatch for mark in shapes(picture.marks) if isinstance(mark, Box) and mark.hatch)
    made = (
        html(
            '<pattern id="{}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            '<line x1="0" y1="0" x2="0" y2="6" style="stroke:var(--{});stroke-width:1.4;opacity:.55"/></pattern>',
            *(_hatch_of(picture, colour), colour),
        )
        for colour in colours
    )
    return html("<defs>{}</defs>", joined(made)) if colours else NO_HTML


def _hatch_of(picture: Picture, colour: str) -> str:
    """The name of a hatching, different in each picture: a shared one would vanish with the picture that defines it."""
    return f"wb-{colour}-{zlib.crc32(repr((picture.label, picture.width, picture.height)).encode()):08x}"


def _entry(entry: Entry) -> tuple[str, str]:
    """A text of the legend, and the CSS of its sign."""
    sign = f"var(--{entry.fill})" if entry.fill else "none"
    if entry.hatch:
        sign = f"repeating-linear-gradient(45deg,var(--{entry.hatch}) 0 1px,transparent 1px 4px)"
    sign += f";opacity:{entry.opacity:.3g}" if entry.opacity < 1 else ""
    return entry.text, sign + (
        f";border:1px {'dashed' if entry.dash else 'solid'} var(--{entry.edge})" if entry.edge else ""
    )
