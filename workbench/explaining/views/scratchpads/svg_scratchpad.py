"""The scratchpad over time as inline SVG; `jupyter/plot_scratchpad.py` draws the same geometry."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from workbench.explaining.views.scratchpads.scratchpad import (
    BEYOND,
    BOTH,
    FADED,
    INSIDE,
    LOADED,
    NOTHING,
    STORED,
    WORDS,
    Occupancy,
)
from workbench.explaining.views.scratchpads.scratchpad_layout import Bar, Layout, Panel, bytes_text, layout
from workbench.explaining.views.timelines.gantt import fitting
from workbench.explaining.views.timelines.svg_gantt import ticks_to
from workbench.ground.basics.colours import HELD
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.markup import legend

_WIDTH, _NAMES, _ADDRESS, _RIGHT = 1000, 170, 104, 14
_HEAD, _GAP = 26, 30
_LETTER, _APART = 6.0, 9.0

COLOURS = {LOADED: "var(--k-LOAD)", STORED: "var(--k-STORE)", BOTH: "var(--k-COPY)", INSIDE: "var(--h7)"}


def scratchpad_svg(view: Occupancy) -> Markup:
    """The picture and its legend."""
    if not view.held:
        return html('<p class="soft">{nothing}</p>', nothing=NOTHING)
    frame = _Frame(layout(view, _WIDTH - _ADDRESS - _RIGHT))
    bottom, parts = float(_HEAD), list[Markup]()
    for number, panel in enumerate(frame.made.panels):
        bottom += panel.height + (_GAP if number else 8)
        parts.append(_panel(panel, frame, bottom))
    told = f"scratchpad over time: at most {view.peak:,} of {view.capacity:,} bytes"
    return html(
        '<div class="scroll" tabindex="0">'
        '<svg role="img" aria-label="{told}" viewBox="0 0 {width} {:.0f}" '
        'style="width:100%;min-width:700px;max-width:1150px">{}{}'
        "{}</svg></div>{}",
        bottom + 24,
        _bands(frame, bottom),
        joined(parts),
        _axis(frame, bottom),
        legend(_entries(frame.made)),
        told=told,
        width=_WIDTH,
    )


@dataclass(frozen=True)
class _Frame:
    """Where the plot stands: further to the right if slots have names."""

    made: Layout

    @property
    def left(self) -> int:
        return _ADDRESS + (_NAMES if self.made.is_named else 0)

    @property
    def right(self) -> int:
        return _WIDTH - _RIGHT

    def x(self, time: float) -> float:
        view = self.made.occupancy
        return self.left + (time - view.begin) / max(view.end - view.begin, 1) * (self.right - self.left)

    def across(self, y: float, style: str) -> Markup:
        """A line over the whole width."""
        return html(
            '<line x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}" {style}/>', self.left, self.right, y=y, style=style
        )


def _bands(frame: _Frame, bottom: float) -> Markup:
    parts = list[Markup]()
    for index, band in enumerate(frame.made.occupancy.bands):
        left, right = frame.x(band.begin), frame.x(band.end)
        shade = "var(--band)" if index % 2 == 0 else "none"
        parts.append(
            html(
                '<rect x="{left:.1f}" y="4" width="{:.1f}" height="{:.1f}" '
                'style="fill:{shade}"><title>{}</title></rect>',
                max(right - left, 0),
                bottom - 4,
                band.name,
                left=left,
                shade=shade,
            )
        )
        name = fitting(band.name, (right - left) / 6.2)
        if name:
            at = html('x="{:.1f}" y="17" text-anchor="middle" font-size="10.5"', (left + right) / 2)
            parts.append(html("<text {at}>{name}</text>", at=at, name=name))
    return joined(parts)


def _panel(panel: Panel, frame: _Frame, bottom: float) -> Markup:
    view = frame.made.occupancy
    parts = [frame.across(bottom - each, html('style="stroke:var(--faint)" stroke-width=".8"')) for each in panel.slots]
    if panel.height > panel.capacity:
        width, height = frame.right - frame.left, panel.height - panel.capacity
        parts.append(_box(frame.left, bottom - panel.height, width, height, "var(--bad);opacity:.12"))
    parts += [_bar(bar, frame, bottom) for bar in panel.bars]
    parts.append(_names(panel, bottom))
    parts.append(_addresses(panel, frame, bottom))
    parts.append(_capacity(panel, view, frame, bottom))
    if len(frame.made.panels) > 1:
        parts.append(
            html('<text x="0" y="{:.1f}" font-size="11">core {}</text>', bottom - panel.height + 10, panel.core)
        )
    return joined(parts)


def _bar(bar: Bar, frame: _Frame, bottom: float) -> Markup:
    left, read, end = (frame.x(time) for time in (bar.start, bar.read, bar.end))
    top, height, colour = bottom - bar.high, bar.high - bar.low, COLOURS[bar.role]
    solid = colour if bar.share >= 1 else f"{colour};opacity:{max(bar.share, HELD):.2f}"
    parts = [_box(left, top, read - left, height, f"{colour};opacity:{HELD}")] if read > left else []
    parts.append(_box(read, top, end - read, height, solid))
    if bar.over < bar.high:
        beyond = "var(--bad);fill-opacity:.2;stroke:var(--bad);stroke-width:1.2"
        parts.append(_box(left, top, end - left, bar.high - bar.over, beyond))
    return html("<g><title>{}</title>{}</g>", bar.told, joined(parts))


def _box(left: float, top: float, width: float, height: float, fill: str) -> Markup:
    edge = (
        html(' stroke="var(--ground)" stroke-width=".6"') if width > 3 and height > 3 and "stroke" not in fill else ""
    )
    return html(
        '<rect x="{left:.1f}" y="{top:.1f}" width="{:.1f}" height="{:.1f}" style="fill:{fill}"{edge}/>',
        max(width, 0.5),
        max(height, 0.8),
        left=left,
        top=top,
        fill=fill,
        edge=edge,
    )


def _names(panel: Panel, bottom: float) -> Markup:
    """The tensors of each slot; of long names the end, which tells them apart."""
    parts = list[Markup]()
    for mark in panel.names:
        room = int((_NAMES - 8) / _LETTER) - len(mark.soft) - 1
        text = mark.text if len(mark.text) <= room else f"…{mark.text[len(mark.text) - max(room, 4) + 1 :]}"
        parts.append(
            html(
                '<text x="{names}" y="{:.1f}" text-anchor="end" font-size="11">{text} '
                "<tspan {small}>{}</tspan><title>{}</title></text>",
                bottom - mark.height + 3.5,
                mark.soft,
                mark.text,
                names=_NAMES,
                text=text,
                small=_SMALL,
            )
        )
    return joined(parts)


_SMALL = html('font-size="10" class="soft"')


def _addresses(panel: Panel, frame: _Frame, bottom: float) -> Markup:
    return joined(
        html(
            '<text x="{}" y="{:.1f}" text-anchor="end" {small}>{}</text>',
            frame.left - 6,
            bottom - mark.height,
            mark.text,
            small=_SMALL,
        )
        for mark in panel.addresses
        if abs(mark.height - panel.capacity) > _APART
    )


def _capacity(panel: Panel, view: Occupancy, frame: _Frame, bottom: float) -> Markup:
    """The line of the capacity, and where the axis is broken below it."""
    y, colour = bottom - panel.capacity, "var(--bad)" if view.beyond else "var(--ink)"
    parts = [
        frame.across(y, html('style="stroke:{colour}" stroke-width="1.4" stroke-dasharray="6 3"', colour=colour)),
        html(
            '<text x="{}" y="{:.1f}" text-anchor="end" font-size="10.5" style="fill:{colour}">capacity {}</text>',
            frame.left - 6,
            y + 3.5,
            bytes_text(view.capacity),
            colour=colour,
        ),
    ]
    if panel.broken is not None:
        wave = "".join(f"l5 {-5 if step % 2 else 5}" for step in range((frame.right - frame.left) // 5))
        style = "fill:none;stroke:var(--soft);opacity:.5"
        parts.append(
            html(
                '<path d="M{} {:.1f}{wave}" style="{style}"/>',
                frame.left,
                bottom - panel.broken,
                wave=wave,
                style=style,
            )
        )
    return joined(parts)


def _axis(frame: _Frame, bottom: float) -> Markup:
    view = frame.made.occupancy
    parts = [
        frame.across(bottom, html('style="stroke:var(--line)" stroke-width="1"')),
        html(
            '<text x="{}" y="{:.1f}" text-anchor="end" {small}>{}</text>',
            frame.left - 6,
            bottom + 15,
            view.unit,
            small=_SMALL,
        ),
    ]
    for tick in ticks_between(view.begin, view.end):
        x = f"{frame.x(tick):.1f}"
        parts.append(
            html(
                '<line x1="{x}" x2="{x}" y1="{bottom:.1f}" y2="{:.1f}" style="stroke:var(--soft)" '
                'stroke-width=".7"/><text x="{x}" y="{:.1f}" text-anchor="middle" {small}>{tick:,}</text>',
                bottom + 4,
                bottom + 15,
                x=x,
                bottom=bottom,
                small=_SMALL,
                tick=tick,
            )
        )
    return joined(parts)


def ticks_between(begin: int, end: int) -> list[int]:
    """Round numbers between two times."""
    steps = ticks_to(max(end - begin, 1), least=1)
    step = max(1, round(steps[1])) if len(steps) > 1 else 1
    return list(range(-(-begin // step) * step, end + 1, step))


def _entries(made: Layout) -> list[tuple[str, str]]:
    told = [(WORDS[role], COLOURS[role]) for role in COLOURS if role in made.roles]
    if any(bar.read > bar.start for panel in made.panels for bar in panel.bars):
        told.append((FADED, f"{told[0][1]};opacity:{HELD}"))
    if made.occupancy.beyond:
        told.append((BEYOND, "var(--bad)"))
    return told
