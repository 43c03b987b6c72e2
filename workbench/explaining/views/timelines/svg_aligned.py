"""Aligned timelines as inline SVG: the journeys below each other, a row for every class of unit."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from workbench.explaining.views.timelines.aligned import AS_LONG, FASTER, READ, SLOWER, Aligned, Column
from workbench.explaining.views.timelines.gantt import F64, LAUNCH, NOTHING
from workbench.explaining.views.timelines.svg_gantt import ticks_to
from workbench.ground.basics.html_builder import NO_HTML, html, joined, plain
from workbench.ground.basics.markup import legend

_LABEL, _PLOT, _HEAD, _NAME, _STRIP, _GAP = 104, 850, 18, 17, 4, 10
_HIGH, _LOW, _BETWEEN = 16, 8, 3
"""Heights of a lane, of one where there are many, and between lanes."""
_MANY = 16
_STEPS = 425
"""Columns in which shares are drawn."""
_VISIBLE = 0.005
"""Less of a share is not to be seen."""
_LETTER = 6.0
"""Width of a letter of a title, at most as a rule."""
_COLOURS = {SLOWER: "var(--bad)", FASTER: "var(--good)", AS_LONG: "var(--line)"}


def aligned_svg(view: Aligned) -> Markup:
    """The picture, its legend, and how it is read."""
    if not view.lanes:
        return html('<p class="soft">{nothing}</p>', nothing=NOTHING)
    parts, y, height = list[Markup](), _HEAD, _LOW if len(view.lanes) > _MANY else _HIGH
    for number, run in enumerate(view.runs):
        figures = f"{run.trace.makespan:,} cycles, {run.microseconds(run.trace.makespan):,.2f} µs"
        parts.append(_heading(f"{run.name}: ", figures, y))
        parts.append(_stays(view, number, y + _NAME))
        y += _NAME + _STRIP + 2
        edges = np.linspace(0, view.whole, _STEPS + 1)
        for lane in view.lanes_of(number):
            at = html('x="{}" y="{:g}" text-anchor="end" font-size="11"', _LABEL - 8, y + height / 2 + 4)
            parts.append(html('<text {at}>{} <tspan class="soft">{:.0%}</tspan></text>', lane.name, lane.busy, at=at))
            shares = lane.shares(edges, len(view.kinds))
            parts += [_grounds(view, number, y, height), _shares(shares, view.kinds, y + height, height)]
            y += height + _BETWEEN
        y += _GAP
    columns = joined(_column(view, column, y - _GAP) for column in view.columns)
    names = ", ".join(run.name for run in view.runs)
    return html(
        '<div class="scroll" tabindex="0"><svg role="img" aria-label="aligned timelines of {names}" '
        'viewBox="0 0 {} {}" style="width:100%;min-width:700px;max-width:1150px">'
        "{}{columns}{}</svg></div>{}"
        '<p class="soft">{read}</p>',
        _LABEL + _PLOT + 14,
        y + 18,
        joined(parts),
        _scale(view, y + 2),
        legend(_entries(view)),
        names=names,
        columns=columns,
        read=READ,
    )


def _x(view: Aligned, time: float) -> float:
    return _LABEL + time / (view.whole or 1) * _PLOT


def _heading(name: str, figures: str, y: int) -> Markup:
    return html(
        '<text x="{label}" y="{}" font-size="11.5" font-weight="600">{name}'
        '<tspan class="soft" font-weight="400">{figures}</tspan></text>',
        y + 11,
        label=_LABEL,
        name=name,
        figures=figures,
    )


def _stays(view: Aligned, run: int, y: int) -> Markup:
    """A line as long as the journey is in each column, and what its launches take before."""
    return joined(
        _box(view, stay.launching, stay.start, y, _STRIP, f"var(--c-{LAUNCH})")
        + _box(view, stay.start, stay.end, y, _STRIP, _COLOURS[how])
        for stay, how in view.stays_of(run)
    )


def _grounds(view: Aligned, run: int, y: int, height: int) -> Markup:
    """The part of each column that the journey is in."""
    return joined(_box(view, stay.start, stay.end, y, height, "var(--faint)") for stay, _ in view.stays_of(run))


def _box(view: Aligned, start: float, end: float, y: int, height: int, fill: str) -> Markup:
    left, width = _x(view, start), (end - start) / (view.whole or 1) * _PLOT
    if not width:
        return NO_HTML
    return html('<rect x="{:.1f}" y="{}" width="{:.1f}" height="{}" style="fill:{}"/>', left, y, width, height, fill)


def _shares(shares: F64, kinds: tuple[str, ...], base: int, height: int) -> Markup:
    """Steps as high as the share of the units that work, a colour a kind; each kind's cover the next one's foot."""
    width, parts = _PLOT / shares.shape[1], list[Markup]()
    tops = np.cumsum(shares, axis=0) * height
    for kind, own, heights in reversed(list(zip(kinds, shares > _VISIBLE, tops, strict=True))):
        steps, last = list[str](), -1
        for place in np.flatnonzero(own).tolist():
            if place != last + 1 or not steps:
                steps.append(f"{f'V{base}' if steps else ''}M{_LABEL + place * width:.1f} {base}")
            steps.append(f"V{base - heights[place]:.1f}h{width:.2f}")
            last = place
        if steps:
            parts.append(
                html('<path d="{}V{base}" style="fill:var(--k-{kind})"/>', plain("".join(steps)), base=base, kind=kind)
            )
    return joined(parts)


def _column(view: Aligned, column: Column, bottom: int) -> Markup:
    """Its edge, its title where that fits, and what it is when pointed at."""
    left, right = _x(view, column.start), _x(view, column.end)
    room = int((right - left - 6) / _LETTER)
    title = column.group.title
    shown = title if len(title) <= room else f"{title[: room - 1]}…" if room > 5 else ""
    return html(
        "<g><title>{}</title>"
        '<line x1="{left:.1f}" x2="{left:.1f}" y1="4" y2="{bottom}" style="stroke:var(--line)" stroke-width=".8"/>'
        '<text x="{:.1f}" y="12" font-size="10.5" class="soft">{shown}</text>'
        '<rect x="{left:.1f}" y="4" width="{:.1f}" height="{}" fill="transparent"/></g>',
        view.told(column),
        left + 3,
        right - left,
        bottom - 4,
        left=left,
        bottom=bottom,
        shown=shown,
    )


def _scale(view: Aligned, y: int) -> Markup:
    """How wide a round number of microseconds is."""
    step = ticks_to(view.whole)[1] if view.whole else 0
    left, right = _x(view, 0), _x(view, step)
    return html(
        '<path d="M{left:.1f} {y}v6M{right:.1f} {y}v6M{left:.1f} {}H{right:.1f}" style="stroke:var(--soft)" '
        'fill="none"/><text x="{:.1f}" y="{}" font-size="10.5" class="soft">{step:,.6g} µs</text>',
        y + 3,
        right + 6,
        y + 7,
        left=left,
        y=y,
        right=right,
        step=step,
    )


def _entries(view: Aligned) -> list[tuple[str, str]]:
    work = [(view.kinds[kind].lower(), f"var(--k-{view.kinds[kind]})") for kind in view.used_kinds()]
    launch = [(LAUNCH, f"var(--c-{LAUNCH})")] if view.launching else []
    return [*work, *launch, *((told, colour) for told, colour in _COLOURS.items() if told in view.paces)]
