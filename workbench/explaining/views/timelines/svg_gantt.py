"""The timeline as inline SVG: a row for every hardware unit, time to the right, no drawing library.

It draws what `jupyter/plot_timeline.py` draws, from the same geometry: bars are work, faded where a span waits on its
way, the thin strip below a bar says why the unit stood idle, and a lane with more spans than pixels is drawn as shares
of time.
"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from workbench.explaining.views.timelines.gantt import BUSY, F64, LAUNCH, NOTHING, OTHER, WAITING, Gantt, fitting
from workbench.ground.basics.colours import HELD
from workbench.ground.basics.html_builder import html, joined, plain
from workbench.ground.basics.markup import legend

_LABEL, _PLOT, _LANE, _BAR, _STRIP, _GAP, _HEAD = 92, 860, 27, 17, 4, 9, 38
_LETTER = 6.6
"""Width of a letter of a lane's name, at most as a rule."""
_COLUMNS = 430
"""Columns of a lane that is drawn as shares."""
_PALE = f"opacity:{HELD}"
_SPANS_TOLD = 1500
"""Up to this many spans say what they are when pointed at."""


def gantt_svg(view: Gantt, *, scale: int = 0, label: str = "timeline") -> Markup:
    """The picture and its legend. `scale` is the number of cycles from edge to edge: the makespan when it is 0."""
    whole = max(scale or view.makespan, 1)
    tops, bottom = _tops(view)
    parts = [_bands(view, whole, bottom), _axis(view, whole, bottom)]
    told = len(view.start) <= _SPANS_TOLD
    for index, top in enumerate(tops):
        lane = view.lanes[index]
        parts.append(
            html(
                '<text x="{}" y="{}" text-anchor="end" font-size="11.5">{} '
                '<tspan class="soft">{:.0%}</tspan></text>'
                '<rect x="{label}" y="{top}" width="{plot}" height="{bar}" style="fill:var(--faint)" opacity=".55"/>',
                _LABEL - 8,
                top + 12,
                lane.name,
                lane.busy,
                label=_LABEL,
                top=top,
                plot=_PLOT,
                bar=_BAR,
            )
        )
        parts.append(_lane(view, index, top, whole, told=told))
    width, height = _LABEL + _PLOT + 14, bottom + 24
    longest = max((len(lane.name) for lane in view.lanes), default=0) + len(" 100%")
    spare = max(0, round(longest * _LETTER) - (_LABEL - 8))  # lanes of several cores have longer names
    if not view.lanes:
        return html('<p class="soft">{nothing}</p>', nothing=NOTHING)
    idle = html('<p class="soft">idle throughout: {}</p>', ", ".join(view.unused)) if view.unused else ""
    return html(
        '<div class="scroll" tabindex="0"><svg role="img" aria-label="{label}: {:,} cycles" '
        'viewBox="{} 0 {} {height}" style="width:100%;min-width:700px;max-width:1150px">'
        "{}</svg></div>"
        "{}{idle}",
        view.makespan,
        -spare,
        width + spare,
        joined(parts),
        legend(_entries(view)),
        label=label,
        height=height,
        idle=idle,
    )


def _tops(view: Gantt) -> tuple[list[int], int]:
    """Upper edge of every lane, and the lower edge of the last; a gap stands between groups of units."""
    tops, y, group = list[int](), _HEAD, view.lanes[0].group if view.lanes else ""
    for lane in view.lanes:
        y += _GAP if lane.group != group else 0
        group = lane.group
        tops.append(y)
        y += _LANE
    return tops, y


def _x(cycles: float, whole: int) -> float:
    return _LABEL + cycles / whole * _PLOT


def _bands(view: Gantt, whole: int, bottom: int) -> Markup:
    """Every second launch shaded, each named where the name fits."""
    parts: list[Markup] = []
    for index, band in enumerate(view.bands):
        left, right = _x(band.start, whole), _x(band.end, whole)
        title = html("<title>{}: cycles {:,} to {:,}</title>", band.kernel, band.start, band.end)
        shade = "var(--band)" if index % 2 == 0 else "none"
        box = html('x="{left:.1f}" y="18" width="{:.1f}" height="{}"', right - left, bottom - 18, left=left)
        name = fitting(band.kernel, (right - left) / 6.2)
        at = html('x="{:.1f}" y="29" text-anchor="middle" font-size="10.5"', (left + right) / 2)
        parts.append(
            html(
                '<g>{title}<rect {box} style="fill:{shade}"/><text {at}>{name}</text></g>',
                title=title,
                box=box,
                shade=shade,
                at=at,
                name=name,
            )
        )
    for launch in view.launching:
        left, width = _x(launch.start, whole), max((launch.end - launch.start) / whole * _PLOT, 0.3)
        cycles = f"{launch.end - launch.start:,} cycles, {launch.start:,} to {launch.end:,}"
        parts.append(
            html(
                '<rect x="{left:.1f}" y="{}" width="{width:.1f}" height="{strip}" '
                'style="fill:var(--c-{launch})"><title>launch of {}: {cycles}</title></rect>',
                _HEAD - 6,
                launch.kernel,
                left=left,
                width=width,
                strip=_STRIP,
                launch=LAUNCH,
                cycles=cycles,
            )
        )
    return joined(parts)


def _axis(view: Gantt, whole: int, bottom: int) -> Markup:
    """Cycles below, microseconds above."""
    small = html('font-size="10.5" class="soft"')
    parts = [
        html(
            '<text x="{}" y="{}" text-anchor="end" {small}>{busy}</text>', _LABEL - 8, _HEAD - 8, small=small, busy=BUSY
        ),
        html('<text x="{}" y="{}" text-anchor="end" {small}>cycles</text>', _LABEL - 8, bottom + 14, small=small),
        html('<text x="{}" y="12" text-anchor="end" {small}>µs</text>', _LABEL - 8, small=small),
    ]
    for tick in ticks_to(whole, least=1):
        x = f"{_x(tick, whole):.1f}"
        parts.append(
            html(
                '<line x1="{x}" x2="{x}" y1="18" y2="{bottom}" style="stroke:var(--line)" stroke-width=".7"/>'
                '<text x="{x}" y="{}" text-anchor="middle" {small}>{tick:,.0f}</text>',
                bottom + 14,
                x=x,
                bottom=bottom,
                small=small,
                tick=tick,
            )
        )
    for tick in ticks_to(whole / view.clock_mhz):
        x = f"{_x(tick * view.clock_mhz, whole):.1f}"
        parts.append(
            html(
                '<line x1="{x}" x2="{x}" y1="14.5" y2="18" style="stroke:var(--soft)" stroke-width=".7"/>'
                '<text x="{x}" y="12" text-anchor="middle" {small}>{tick:,.6g}</text>',
                x=x,
                small=small,
                tick=tick,
            )
        )
    return joined(parts)


def ticks_to(whole: float, *, least: float = 0) -> list[float]:
    """Six to twelve round numbers from 0 to the end, each a whole number of steps."""
    rough = max(whole / 12, least)
    power = 10.0 ** int(np.floor(np.log10(rough)))
    step = next(power * part for part in (1, 2, 5, 10) if power * part >= rough)
    return [step * number for number in range(int(whole / step * (1 + 1e-12)) + 1)]


def _lane(view: Gantt, lane: int, top: int, whole: int, *, told: bool) -> Markup:
    part = view.of_lane(lane)
    if part.stop - part.start > _COLUMNS / 2:
        edges = np.linspace(0, whole, _COLUMNS + 1)
        both = np.concatenate([view.busy(lane, edges), view.held(lane, edges)])
        kinds = [f"fill:var(--k-{kind})" for kind in view.kinds]
        bars = _shares(both, [*kinds, *(f"{kind};{_PALE}" for kind in kinds)], top + _BAR, -_BAR)
        causes = [f"fill:var(--c-{cause})" for cause in view.causes]
        return bars + _shares(view.idle(lane, edges), causes, top + _BAR + 2, _STRIP)
    rows: list[Markup] = []
    columns = (view.start, view.work_start, view.end, view.kind, view.cause, view.row)
    spans: list[list[int]] = [column[part].tolist() for column in columns]
    for span in zip(*spans, strict=True):
        start, works, end, kind, cause, row = map(int, span)
        left, width = _x(works, whole), max((end - works) / whole * _PLOT, 0.4)
        name, why = view.kinds[kind], view.causes[cause]
        waits = f", {works - start:,} of them on its way" if start < works else ""
        cycles = f"{end - start:,} cycles{waits}"
        title = (
            html(
                "<title>span {row}: {name} {start:,} to {end:,}, {cycles}; waited for {why}</title>",
                row=row,
                name=name,
                start=start,
                end=end,
                cycles=cycles,
                why=why,
            )
            if told
            else ""
        )
        if start < works:
            rows.append(_box(_x(start, whole), top, left - _x(start, whole), _BAR, f"var(--k-{name});{_PALE}", title))
        edge = html(' stroke="var(--ground)" stroke-width=".5"') if width > 3 else ""
        rows.append(
            html(
                '<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{bar}" style="fill:var(--k-{name})"{edge}>'
                "{title}</rect>",
                left=left,
                top=top,
                width=width,
                bar=_BAR,
                name=name,
                edge=edge,
                title=title,
            )
        )
    return joined(rows) + _strip(view, lane, top + _BAR + 2, whole)


def _strip(view: Gantt, lane: int, top: int, whole: int) -> Markup:
    """Why the lane stands idle, piece by piece."""
    found, part = view.idle_time, view.idle_time.of_lane(lane)
    pieces = zip(*(column[part].tolist() for column in (found.start, found.end, found.cause)), strict=True)
    return joined(
        _box(_x(start, whole), top, max((end - start) / whole * _PLOT, 0.3), _STRIP, f"var(--c-{view.causes[cause]})")
        for start, end, cause in pieces
    )


def _box(left: float, top: int, width: float, height: int, fill: str, title: str = "") -> Markup:
    return html(
        '<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{height}" style="fill:{fill}">{title}</rect>',
        left=left,
        top=top,
        width=width,
        height=height,
        fill=fill,
        title=title,
    )


def _shares(shares: F64, styles: list[str], base: float, height: float) -> Markup:
    """Stacked steps, as high as the share of the time that each kind fills."""
    below = np.zeros(shares.shape[1])
    width = _PLOT / shares.shape[1]
    parts: list[Markup] = []
    for row, style in zip(shares, styles, strict=True):
        if row.any():
            upper, lower = base + height * (below + row), base + height * below
            forth = "".join(f"V{y:.1f}h{width:.2f}" for y in upper.tolist())
            back = "".join(f"V{y:.1f}h-{width:.2f}" for y in lower[::-1].tolist())
            parts.append(
                html(
                    '<path d="M{label} {base:.1f}{forth}{back}Z" style="{style}"/>',
                    label=_LABEL,
                    base=base,
                    forth=plain(forth),
                    back=plain(back),
                    style=style,
                )
            )
        below = below + row
    return joined(parts)


def _entries(view: Gantt) -> list[tuple[str, str]]:
    work = [(view.kinds[kind], f"var(--k-{view.kinds[kind]})") for kind in view.used_kinds()]
    idle = [(view.causes[cause], f"var(--c-{view.causes[cause]})") for cause in view.used_causes()]
    named = [("not selected" if name == OTHER else name.lower(), colour) for name, colour in work]
    launch = [(LAUNCH, f"var(--c-{LAUNCH})")] if view.launching else []
    if waiting := view.waiting_kinds():
        named.append((f"faded: {WAITING}", f"var(--k-{view.kinds[waiting[0]]});{_PALE}"))
    return named + launch + [(f"idle: {name.replace('_', ' ')}", colour) for name, colour in idle]
