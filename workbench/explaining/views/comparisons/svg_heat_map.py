"""The map of mappings as inline SVG; `jupyter/plot_heat_map.py` draws the same geometry."""

from __future__ import annotations

import zlib

from markupsafe import Markup

from workbench.explaining.views.comparisons.heat_map import HeatMap, summary
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.markup import legend

_WIDE, _HIGH = 62, 30
_LETTER = 6.6
"""Pixels that a letter of a label is wide, as a rule."""
_TOP, _FOOT, _TITLE = 8, 22, 20
_HUE = "--k-LOAD"


def heat_map_svg(view: HeatMap) -> Markup:
    """The picture, the best setting in words, and what the marks mean."""
    left = 12 + _LETTER * max(map(len, view.rows)) + (_TITLE if view.down else 0)
    wide = max(_WIDE, 14 + _LETTER * max(map(len, view.columns)))
    width, height = left + wide * len(view.columns) + 8, _TOP + _HIGH * len(view.rows) + _FOOT + _TITLE
    places = [(row, column) for row in range(len(view.rows)) for column in range(len(view.columns))]
    cells = [_cell(view, row, column, left + column * wide, _TOP + row * _HIGH, wide) for row, column in places]
    frames = [
        _frame(mark, left + at[1] * wide, _TOP + at[0] * _HIGH, wide)
        for mark, at in (("today", view.today), ("best", view.best))
        if at is not None
    ]
    name = f"cycles by {' and '.join(view.knobs)}" + (f" of {view.kernel}" if view.kernel else "")
    hatch = _hatch_of(view)
    pattern = html(
        '<pattern id="{hatch}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">',
        hatch=hatch,
    )
    line = html('<line x1="0" y1="0" x2="0" y2="6" style="stroke:var(--soft)" stroke-width="1" opacity=".55"/>')
    picture = html(
        '<div class="scroll" tabindex="0"><svg role="img" aria-label="{name}: {}" '
        'viewBox="0 0 {width:.0f} {height}" style="width:{width:.0f}px">'
        "<defs>{pattern}{line}</pattern></defs>{}</svg></div>",
        summary(view),
        joined([*cells, *frames, _axes(view, left, wide)]),
        name=name,
        width=width,
        height=height,
        pattern=pattern,
        line=line,
    )
    return html("<p><b>{name}</b></p>{picture}{}<p>{}</p>", _legend(), summary(view), name=name, picture=picture)


def _hatch_of(view: HeatMap) -> str:
    """The name of its hatching: another map's may be taken off the page, and this one's would go with it."""
    return f"wb-refused-{zlib.crc32(repr(view).encode()):08x}"


def _cell(view: HeatMap, row: int, column: int, x: float, y: float, wide: float) -> Markup:
    spot = view.spots[row][column]
    look, text = "fill:none", ""
    if spot is not None and spot.cycles is not None:
        part = 100 * view.colour(spot)
        look, text = f"fill:color-mix(in srgb,var({_HUE}) {part:.0f}%,var(--ground))", view.written(spot)
    elif spot is not None:
        look = f"fill:url(#{_hatch_of(view)})"
    at = html('x="{:.1f}" y="{:.1f}" text-anchor="middle" font-size="12"', x + wide / 2, y + _HIGH / 2 + 4)
    return html(
        "<g><title>{}</title>"
        '<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high}" style="{look};stroke:var(--ground)"/>'
        "<text {at}>{text}</text></g>",
        view.told(row, column),
        x=x,
        y=y,
        wide=wide,
        high=_HIGH,
        look=look,
        at=at,
        text=text,
    )


def _frame(mark: str, x: float, y: float, wide: float) -> Markup:
    """Today's is dashed and a little smaller, so that both are seen where they are one."""
    inset, dash = (1.5, "") if mark == "best" else (4.5, html(' stroke-dasharray="4 3"'))
    return html(
        '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"'
        ' style="fill:none;stroke:var(--ink)" stroke-width="{}"{dash}/>',
        x + inset,
        y + inset,
        wide - 2 * inset,
        _HIGH - 2 * inset,
        2.5 if mark == "best" else 1.4,
        dash=dash,
    )


def _axes(view: HeatMap, left: float, wide: float) -> Markup:
    bottom, parts = _TOP + _HIGH * len(view.rows), list[Markup]()
    for number, text in enumerate(view.columns):
        x = left + (number + 0.5) * wide
        parts.append(
            html(
                '<text x="{x:.1f}" y="{}" text-anchor="middle" font-size="11.5">{text}</text>',
                bottom + 15,
                x=x,
                text=text,
            )
        )
    for number, text in enumerate(view.rows):
        y = _TOP + (number + 0.5) * _HIGH + 4
        parts.append(
            html(
                '<text x="{:.1f}" y="{y:.1f}" text-anchor="end" font-size="11.5">{text}</text>',
                left - 6,
                y=y,
                text=text,
            )
        )
    middle = left + wide * len(view.columns) / 2
    title = html('font-size="11.5" class="soft" text-anchor="middle"')
    parts.append(
        html(
            '<text x="{middle:.1f}" y="{}" {title}>{}</text>',
            bottom + _FOOT + 13,
            view.across,
            middle=middle,
            title=title,
        )
    )
    if view.down:
        at = _TOP + _HIGH * len(view.rows) / 2
        parts.append(
            html(
                '<text x="13" y="{at}" transform="rotate(-90 13 {at})" {title}>{}</text>', view.down, at=at, title=title
            )
        )
    return joined(parts)


def _legend() -> Markup:
    shades = "linear-gradient(to right," + ",".join(
        f"color-mix(in srgb,var({_HUE}) {part}%,var(--ground))" for part in (62, 12)
    )
    hatch = "repeating-linear-gradient(45deg,var(--soft) 0 1px,transparent 1px 4px)"
    return legend(
        [
            ("fast to slow", f"{shades})"),
            ("refused", f"{hatch};border:1px solid var(--line)"),
            ("best", "none;border:2px solid var(--ink)"),
            ("today's", "none;border:1px dashed var(--ink)"),
        ]
    )
