"""The roofline as inline SVG, from the same geometry as `jupyter/plot_roofline.py`."""

from __future__ import annotations

import math

from workbench.views.basics.markup import escape, legend
from workbench.views.timelines import roof_chart
from workbench.views.timelines.gantt import NOTHING
from workbench.views.timelines.roof_chart import COLOURS, Chart, Line, Mark, chart, number_text
from workbench.views.timelines.roofline import WHOLE, Point, Roofline

_LEFT, _TOP, _BELOW, _RIGHT = 62, 8, 40, 10
_WIDTH, _HEIGHT = 860, 430


def roofline_svg(found: Roofline) -> str:
    """The picture, its legend, and what has no place in it."""
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in found.notes())
    if found.whole is None:
        return f'<p class="soft">{escape(NOTHING)}</p>{notes}'
    made = chart(found, _WIDTH, _HEIGHT)
    parts = [_axes(made), *(_line(made, line) for line in made.lines), *(_mark(made, mark) for mark in made.marks)]
    wide, high = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BELOW
    told = {mark.point.ceiling: f"var(--{COLOURS[mark.point.ceiling]})" for mark in made.marks if mark.point.ceiling}
    return (
        f'<div class="scroll" tabindex="0"><svg role="img" aria-label="roofline on {escape(found.machine)}" '
        f'viewBox="0 0 {wide} {high}" style="width:100%;min-width:640px;max-width:1000px">{"".join(parts)}</svg></div>'
        + legend([(f"under the roof of {roof}", colour) for roof, colour in told.items()])
        + (f'<p class="soft">{escape(roof_chart.READING)}</p>' if made.marks else "")
        + notes
    )


def _at(made: Chart, x: float, y: float) -> tuple[float, float]:
    across, up = made.place(x, y)
    return _LEFT + across, _TOP + _HEIGHT - up


def _axes(made: Chart) -> str:
    small = 'font-size="10.5" class="soft"'
    right, bottom = _LEFT + _WIDTH, _TOP + _HEIGHT
    parts = [f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" style="fill:none;stroke:var(--line)"/>']
    for tick in roof_chart.decades(made.x):
        x, _ = _at(made, tick, made.y[0])
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}" style="stroke:var(--faint)"/>'
            f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle" {small}>{number_text(tick)}</text>'
        )
    for tick in roof_chart.decades(made.y):
        _, y = _at(made, made.x[0], tick)
        parts.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" style="stroke:var(--faint)"/>'
            f'<text x="{_LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end" {small}>{number_text(tick)}</text>'
        )
    middle = _TOP + _HEIGHT / 2
    return "".join(parts) + (
        f'<text x="{_LEFT + _WIDTH / 2}" y="{bottom + 32}" text-anchor="middle" font-size="11.5">'
        f"{roof_chart.X_LABEL}</text>"
        f'<text x="12" y="{middle}" text-anchor="middle" font-size="11.5" transform="rotate(-90 12 {middle})">'
        f"{roof_chart.Y_LABEL}</text>"
    )


def _line(made: Chart, line: Line) -> str:
    """A roof with its name along it: a slope's from its lower end on, a flat one's at its right end."""
    (x1, y1), (x2, y2) = _at(made, *line.start), _at(made, *line.end)
    angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
    at, anchor = ((x1, y1), "start") if angle else ((x2, y2), "end")
    dash = ' stroke-dasharray="6 4"' if line.roof == roof_chart.SHORT else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="2"{dash} '
        f'style="stroke:var(--{COLOURS[line.roof]})"/>'
        f'<text transform="translate({at[0]:.1f} {at[1]:.1f}) rotate({angle:.2f})" '
        f'x="{8 if angle else -6}" y="-5" text-anchor="{anchor}" font-size="10.5">{escape(line.label)}</text>'
    )


def _mark(made: Chart, mark: Mark) -> str:
    (x, y), (least, _) = _at(made, mark.x, mark.y), _at(made, mark.x_least, mark.y)
    _, top = _at(made, mark.x, mark.top)
    colour = f"var(--{COLOURS.get(mark.point.ceiling, 'soft')})"
    parts = [f"<title>{escape(told(mark.point))}</title>"]
    if mark.name:
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{top:.1f}" stroke-dasharray="1 3" '
            f'style="stroke:var(--soft)"/>'
            f'<line x1="{x - 5:.1f}" x2="{x + 5:.1f}" y1="{top:.1f}" y2="{top:.1f}" style="stroke:var(--soft)"/>'
        )
    parts.append(
        f'<line x1="{x:.1f}" x2="{least:.1f}" y1="{y:.1f}" y2="{y:.1f}" style="stroke:var(--soft)" stroke-width=".8"/>'
        f'<circle cx="{least:.1f}" cy="{y:.1f}" r="4" style="fill:var(--ground);stroke:var(--soft)"/>'
        f"{_shape(mark, x, y, f'fill:{colour};stroke:var(--ink)')}"
    )
    if mark.name:
        across, up = mark.label
        if mark.leader:
            to, high = mark.leader
            parts.append(
                f'<path d="M{x:.1f} {y:.1f}l{to:.1f} {-high:.1f}" style="stroke:var(--soft)" stroke-width=".5"/>'
            )
        parts.append(
            f'<text x="{x + across:.1f}" y="{y - up - 3:.1f}" font-size="{roof_chart.FONT:g}">'
            f"{escape(mark.name)}</text>"
        )
    return f"<g>{''.join(parts)}</g>"


def _shape(mark: Mark, x: float, y: float, look: str) -> str:
    """A disc for a kernel, a diamond for the whole."""
    if mark.point.kernel != WHOLE:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" style="{look}"/>'
    return f'<path d="M{x - 7:.1f} {y:.1f}l7 -7 7 7 -7 7z" style="{look}"/>'


def told(point: Point) -> str:
    """A mark in words."""
    return (
        f"{point.kernel}: {point.operations:,} operations in {point.cycles:,} cycles, {point.attained:,.4g} a cycle"
        f", {point.share:.0%} of {point.ceiling or 'no roof'}; "
        f"{point.moved:,} bytes moved, {point.least_bytes:,} would do"
    )
