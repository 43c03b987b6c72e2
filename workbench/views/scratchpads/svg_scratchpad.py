"""The scratchpad over time as inline SVG; `jupyter/plot_scratchpad.py` draws the same geometry."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.views.basics.colours import HELD
from workbench.views.basics.markup import escape, legend
from workbench.views.scratchpads.scratchpad import (
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
from workbench.views.scratchpads.scratchpad_layout import Bar, Layout, Panel, bytes_text, layout
from workbench.views.timelines.gantt import fitting
from workbench.views.timelines.svg_gantt import ticks_to

_WIDTH, _NAMES, _ADDRESS, _RIGHT = 1000, 170, 104, 14
_HEAD, _GAP = 26, 30
_LETTER, _APART = 6.0, 9.0

COLOURS = {LOADED: "var(--k-LOAD)", STORED: "var(--k-STORE)", BOTH: "var(--k-COPY)", INSIDE: "var(--h7)"}


def scratchpad_svg(view: Occupancy) -> str:
    """The picture and its legend."""
    if not view.held:
        return f'<p class="soft">{NOTHING}</p>'
    frame = _Frame(layout(view, _WIDTH - _ADDRESS - _RIGHT))
    bottom, parts = float(_HEAD), list[str]()
    for number, panel in enumerate(frame.made.panels):
        bottom += panel.height + (_GAP if number else 8)
        parts.append(_panel(panel, frame, bottom))
    told = f"scratchpad over time: at most {view.peak:,} of {view.capacity:,} bytes"
    return (
        f'<div class="scroll" tabindex="0">'
        f'<svg role="img" aria-label="{escape(told)}" viewBox="0 0 {_WIDTH} {bottom + 24:.0f}" '
        f'style="width:100%;min-width:700px;max-width:1150px">{_bands(frame, bottom)}{"".join(parts)}'
        f"{_axis(frame, bottom)}</svg></div>{legend(_entries(frame.made))}"
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

    def across(self, y: float, style: str) -> str:
        """A line over the whole width."""
        return f'<line x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}" {style}/>'


def _bands(frame: _Frame, bottom: float) -> str:
    parts = list[str]()
    for index, band in enumerate(frame.made.occupancy.bands):
        left, right = frame.x(band.begin), frame.x(band.end)
        shade = "var(--band)" if index % 2 == 0 else "none"
        parts.append(
            f'<rect x="{left:.1f}" y="4" width="{max(right - left, 0):.1f}" height="{bottom - 4:.1f}" '
            f'style="fill:{shade}"><title>{escape(band.name)}</title></rect>'
        )
        name = fitting(band.name, (right - left) / 6.2)
        if name:
            at = f'x="{(left + right) / 2:.1f}" y="17" text-anchor="middle" font-size="10.5"'
            parts.append(f"<text {at}>{escape(name)}</text>")
    return "".join(parts)


def _panel(panel: Panel, frame: _Frame, bottom: float) -> str:
    view = frame.made.occupancy
    parts = [frame.across(bottom - each, 'style="stroke:var(--faint)" stroke-width=".8"') for each in panel.slots]
    if panel.height > panel.capacity:
        width, height = frame.right - frame.left, panel.height - panel.capacity
        parts.append(_box(frame.left, bottom - panel.height, width, height, "var(--bad);opacity:.12"))
    parts += [_bar(bar, frame, bottom) for bar in panel.bars]
    parts.append(_names(panel, bottom))
    parts.append(_addresses(panel, frame, bottom))
    parts.append(_capacity(panel, view, frame, bottom))
    if len(frame.made.panels) > 1:
        parts.append(f'<text x="0" y="{bottom - panel.height + 10:.1f}" font-size="11">core {panel.core}</text>')
    return "".join(parts)


def _bar(bar: Bar, frame: _Frame, bottom: float) -> str:
    left, read, end = (frame.x(time) for time in (bar.start, bar.read, bar.end))
    top, height, colour = bottom - bar.high, bar.high - bar.low, COLOURS[bar.role]
    solid = colour if bar.share >= 1 else f"{colour};opacity:{max(bar.share, HELD):.2f}"
    parts = [_box(left, top, read - left, height, f"{colour};opacity:{HELD}")] if read > left else []
    parts.append(_box(read, top, end - read, height, solid))
    if bar.over < bar.high:
        beyond = "var(--bad);fill-opacity:.2;stroke:var(--bad);stroke-width:1.2"
        parts.append(_box(left, top, end - left, bar.high - bar.over, beyond))
    return f"<g><title>{escape(bar.told)}</title>{''.join(parts)}</g>"


def _box(left: float, top: float, width: float, height: float, fill: str) -> str:
    edge = ' stroke="var(--ground)" stroke-width=".6"' if width > 3 and height > 3 and "stroke" not in fill else ""
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(width, 0.5):.1f}" height="{max(height, 0.8):.1f}" '
        f'style="fill:{fill}"{edge}/>'
    )


def _names(panel: Panel, bottom: float) -> str:
    """The tensors of each slot; of long names the end, which tells them apart."""
    parts = list[str]()
    for mark in panel.names:
        room = int((_NAMES - 8) / _LETTER) - len(mark.soft) - 1
        text = mark.text if len(mark.text) <= room else f"…{mark.text[len(mark.text) - max(room, 4) + 1 :]}"
        parts.append(
            f'<text x="{_NAMES}" y="{bottom - mark.height + 3.5:.1f}" text-anchor="end" font-size="11">{escape(text)} '
            f"<tspan {_SMALL}>{escape(mark.soft)}</tspan><title>{escape(mark.text)}</title></text>"
        )
    return "".join(parts)


_SMALL = 'font-size="10" class="soft"'


def _addresses(panel: Panel, frame: _Frame, bottom: float) -> str:
    return "".join(
        f'<text x="{frame.left - 6}" y="{bottom - mark.height:.1f}" text-anchor="end" {_SMALL}>'
        f"{escape(mark.text)}</text>"
        for mark in panel.addresses
        if abs(mark.height - panel.capacity) > _APART
    )


def _capacity(panel: Panel, view: Occupancy, frame: _Frame, bottom: float) -> str:
    """The line of the capacity, and where the axis is broken below it."""
    y, colour = bottom - panel.capacity, "var(--bad)" if view.beyond else "var(--ink)"
    parts = [
        frame.across(y, f'style="stroke:{colour}" stroke-width="1.4" stroke-dasharray="6 3"'),
        f'<text x="{frame.left - 6}" y="{y + 3.5:.1f}" text-anchor="end" font-size="10.5" style="fill:{colour}">'
        f"capacity {bytes_text(view.capacity)}</text>",
    ]
    if panel.broken is not None:
        wave = "".join(f"l5 {-5 if step % 2 else 5}" for step in range((frame.right - frame.left) // 5))
        style = "fill:none;stroke:var(--soft);opacity:.5"
        parts.append(f'<path d="M{frame.left} {bottom - panel.broken:.1f}{wave}" style="{style}"/>')
    return "".join(parts)


def _axis(frame: _Frame, bottom: float) -> str:
    view = frame.made.occupancy
    parts = [
        frame.across(bottom, 'style="stroke:var(--line)" stroke-width="1"'),
        f'<text x="{frame.left - 6}" y="{bottom + 15:.1f}" text-anchor="end" {_SMALL}>{view.unit}</text>',
    ]
    for tick in ticks_between(view.begin, view.end):
        x = f"{frame.x(tick):.1f}"
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="{bottom:.1f}" y2="{bottom + 4:.1f}" style="stroke:var(--soft)" '
            f'stroke-width=".7"/><text x="{x}" y="{bottom + 15:.1f}" text-anchor="middle" {_SMALL}>{tick:,}</text>'
        )
    return "".join(parts)


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
