"""The roofline as inline SVG, from the same geometry as `jupyter/plot_roofline.py`."""

from __future__ import annotations

import math

from markupsafe import Markup

from workbench.explaining.views.timelines import roof_chart
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.explaining.views.timelines.roof_chart import COLOURS, Chart, Line, Mark, chart, number_text
from workbench.explaining.views.timelines.roofline import WHOLE, Point, Roofline
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.markup import legend

_LEFT, _TOP, _BELOW, _RIGHT = 62, 8, 40, 10
_WIDTH, _HEIGHT = 860, 430


def roofline_svg(found: Roofline) -> Markup:
    """The picture, its legend, and what has no place in it."""
    notes = joined(html('<p class="soft">{note}</p>', note=note) for note in found.notes())
    if found.whole is None:
        return html('<p class="soft">{nothing}</p>{notes}', nothing=NOTHING, notes=notes)
    made = chart(found, _WIDTH, _HEIGHT)
    parts = [_axes(made), *(_line(made, line) for line in made.lines), *(_mark(made, mark) for mark in made.marks)]
    wide, high = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BELOW
    told = {mark.point.ceiling: f"var(--{COLOURS[mark.point.ceiling]})" for mark in made.marks if mark.point.ceiling}
    return (
        html(
            '<div class="scroll" tabindex="0"><svg role="img" aria-label="roofline on {}" '
            'viewBox="0 0 {wide} {high}" style="width:100%;min-width:640px;max-width:1000px">{}</svg></div>',
            found.machine,
            joined(parts),
            wide=wide,
            high=high,
        )
        + legend([(f"under the roof of {roof}", colour) for roof, colour in told.items()])
        + (html('<p class="soft">{}</p>', roof_chart.READING) if made.marks else "")
        + notes
    )


def _at(made: Chart, x: float, y: float) -> tuple[float, float]:
    across, up = made.place(x, y)
    return _LEFT + across, _TOP + _HEIGHT - up


def _axes(made: Chart) -> Markup:
    small = html('font-size="10.5" class="soft"')
    right, bottom = _LEFT + _WIDTH, _TOP + _HEIGHT
    parts = [
        html(
            '<rect x="{left}" y="{top}" width="{width}" height="{height}" style="fill:none;stroke:var(--line)"/>',
            left=_LEFT,
            top=_TOP,
            width=_WIDTH,
            height=_HEIGHT,
        )
    ]
    for tick in roof_chart.decades(made.x):
        x, _ = _at(made, tick, made.y[0])
        parts.append(
            html(
                '<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" style="stroke:var(--faint)"/>'
                '<text x="{x:.1f}" y="{}" text-anchor="middle" {small}>{}</text>',
                bottom + 14,
                number_text(tick),
                x=x,
                top=_TOP,
                bottom=bottom,
                small=small,
            )
        )
    for tick in roof_chart.decades(made.y):
        _, y = _at(made, made.x[0], tick)
        parts.append(
            html(
                '<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" style="stroke:var(--faint)"/>'
                '<text x="{}" y="{:.1f}" text-anchor="end" {small}>{}</text>',
                _LEFT - 5,
                y + 3.5,
                number_text(tick),
                left=_LEFT,
                right=right,
                y=y,
                small=small,
            )
        )
    middle = _TOP + _HEIGHT / 2
    return joined(parts) + (
        html(
            '<text x="{}" y="{}" text-anchor="middle" font-size="11.5">'
            "{}</text>"
            '<text x="12" y="{middle}" text-anchor="middle" font-size="11.5" transform="rotate(-90 12 {middle})">'
            "{}</text>",
            _LEFT + _WIDTH / 2,
            bottom + 32,
            roof_chart.X_LABEL,
            roof_chart.Y_LABEL,
            middle=middle,
        )
    )


def _line(made: Chart, line: Line) -> Markup:
    """A roof with its name along it: a slope's from its lower end on, a flat one's at its right end."""
    (x1, y1), (x2, y2) = _at(made, *line.start), _at(made, *line.end)
    angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
    at, anchor = ((x1, y1), "start") if angle else ((x2, y2), "end")
    dash = html(' stroke-dasharray="6 4"') if line.roof == roof_chart.SHORT else ""
    return html(
        '<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="2"{dash} '
        'style="stroke:var(--{})"/>'
        '<text transform="translate({:.1f} {:.1f}) rotate({angle:.2f})" '
        'x="{}" y="-5" text-anchor="{anchor}" font-size="10.5">{}</text>',
        COLOURS[line.roof],
        at[0],
        at[1],
        8 if angle else -6,
        line.label,
        x1=x1,
        y1=y1,
        x2=x2,
        y2=y2,
        dash=dash,
        angle=angle,
        anchor=anchor,
    )


def _mark(made: Chart, mark: Mark) -> Markup:
    (x, y), (least, _) = _at(made, mark.x, mark.y), _at(made, mark.x_least, mark.y)
    _, top = _at(made, mark.x, mark.top)
    colour = f"var(--{COLOURS.get(mark.point.ceiling, 'soft')})"
    parts = [html("<title>{}</title>", told(mark.point))]
    if mark.name:
        parts.append(
            html(
                '<line x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{top:.1f}" stroke-dasharray="1 3" '
                'style="stroke:var(--soft)"/>'
                '<line x1="{:.1f}" x2="{:.1f}" y1="{top:.1f}" y2="{top:.1f}" style="stroke:var(--soft)"/>',
                x - 5,
                x + 5,
                x=x,
                y=y,
                top=top,
            )
        )
    parts.append(
        html(
            '<line x1="{x:.1f}" x2="{least:.1f}" y1="{y:.1f}" y2="{y:.1f}" style="stroke:var(--soft)" '
            'stroke-width=".8"/><circle cx="{least:.1f}" cy="{y:.1f}" r="4" '
            'style="fill:var(--ground);stroke:var(--soft)"/>{}',
            _shape(mark, x, y, f"fill:{colour};stroke:var(--ink)"),
            x=x,
            least=least,
            y=y,
        )
    )
    if mark.name:
        across, up = mark.label
        if mark.leader:
            to, high = mark.leader
            parts.append(
                html(
                    '<path d="M{x:.1f} {y:.1f}l{to:.1f} {:.1f}" style="stroke:var(--soft)" stroke-width=".5"/>',
                    -high,
                    x=x,
                    y=y,
                    to=to,
                )
            )
        parts.append(
            html(
                '<text x="{:.1f}" y="{:.1f}" font-size="{:g}">{}</text>',
                x + across,
                y - up - 3,
                roof_chart.FONT,
                mark.name,
            )
        )
    return html("<g>{}</g>", joined(parts))


def _shape(mark: Mark, x: float, y: float, look: str) -> Markup:
    """A disc for a kernel, a diamond for the whole."""
    if mark.point.kernel != WHOLE:
        return html('<circle cx="{x:.1f}" cy="{y:.1f}" r="5" style="{look}"/>', x=x, y=y, look=look)
    return html('<path d="M{:.1f} {y:.1f}l7 -7 7 7 -7 7z" style="{look}"/>', x - 7, y=y, look=look)


def told(point: Point) -> str:
    """A mark in words."""
    return (
        f"{point.kernel}: {point.operations:,} operations in {point.cycles:,} cycles, {point.attained:,.4g} a cycle"
        f", {point.share:.0%} of {point.ceiling or 'no roof'}; "
        f"{point.moved:,} bytes moved, {point.least_bytes:,} would do"
    )
