"""What lies in DRAM while a program runs, as inline SVG; `jupyter/plot_training.py` draws the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from workbench.explaining.views.timelines.dram_contents import KINDS, Contents, told
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.explaining.views.timelines.svg_gantt import ticks_to
from workbench.ground.basics.html_builder import html, joined, plain
from workbench.ground.basics.markup import legend

_WIDTH, _LEFT, _RIGHT, _BASE, _TALL = 1000, 76, 14, 242, 220

COLOURS: Final = ("k-LOAD", "k-COPY", "k-HOST", "k-GATHER", "c-data", "k-MATMUL", "k-STORE", "k-VECTOR")
"""The variables of the style sheet that the kinds are drawn in, from the bottom to the top."""
MEGABYTE: Final = 1e6


@dataclass(frozen=True)
class _Frame:
    """Where the plot stands."""

    most: int
    end: int

    def x(self, cycle: float) -> float:
        return _LEFT + cycle / self.end * (_WIDTH - _LEFT - _RIGHT)

    def y(self, bytes: float) -> float:
        return _BASE - bytes / self.most * _TALL


def dram_svg(found: Contents) -> Markup:
    """The picture and its legend."""
    peak = found.peak
    if peak is None:
        return html('<p class="soft">{nothing}</p>', nothing=NOTHING)
    frame = _Frame(max(sum(peak.bytes), 1), max(found.stretches[-1].end, 1))
    areas = [_area(found, kind, frame) for kind in found.kinds()]
    entries = [(KINDS[kind], f"var(--{COLOURS[kind]})") for kind in found.kinds()]
    return html(
        '<div class="scroll" tabindex="0"><svg role="img" aria-label="DRAM over time: {}" '
        'viewBox="0 0 {width} {}" style="width:100%;min-width:700px;max-width:1150px">'
        "{}{}{}</svg></div>{}",
        told(found),
        _BASE + 26,
        joined(areas),
        _axes(frame),
        _parts(found, frame),
        legend(entries),
        width=_WIDTH,
    )


def _area(found: Contents, kind: int, frame: _Frame) -> Markup:
    """The bytes of a kind above those of all that come before it."""
    way, back = list[str](), list[str]()
    for each in found.stretches:
        low, high = (frame.y(sum(each.bytes[:place])) for place in (kind, kind + 1))
        way += [f"{frame.x(cycle):.1f},{high:.1f}" for cycle in (each.begin, each.end)]
        back += [f"{frame.x(cycle):.1f},{low:.1f}" for cycle in (each.begin, each.end)]
    most = max(each.bytes[kind] for each in found.stretches)
    title = html("<title>{}: at most {most:,} bytes</title>", KINDS[kind], most=most)
    points = plain(" ".join([*way, *reversed(back)]))
    return html(
        '<polygon points="{points}" style="fill:var(--{})">{title}</polygon>',
        COLOURS[kind],
        points=points,
        title=title,
    )


def _axes(frame: _Frame) -> Markup:
    small, parts = html('font-size="10.5" class="soft"'), list[Markup]()
    for tick in ticks_to(frame.end, least=1):
        parts.append(
            html(
                '<text x="{:.1f}" y="{}" text-anchor="middle" {small}>{tick:,.0f}</text>',
                frame.x(tick),
                _BASE + 14,
                small=small,
                tick=tick,
            )
        )
    for tick in ticks_to(frame.most / MEGABYTE)[::2]:
        y = f"{frame.y(tick * MEGABYTE):.1f}"
        parts.append(
            html(
                '<line x1="{left}" x2="{}" y1="{y}" y2="{y}" style="stroke:var(--line)" '
                'stroke-width=".7"/><text x="{}" y="{y}" dy="3" text-anchor="end" {small}>{tick:,.6g} MB</text>',
                _WIDTH - _RIGHT,
                _LEFT - 6,
                left=_LEFT,
                y=y,
                small=small,
                tick=tick,
            )
        )
    return joined(parts) + html(
        '<text x="{}" y="{}" text-anchor="end" {small}>cycles</text>', _LEFT - 6, _BASE + 14, small=small
    )


def _parts(found: Contents, frame: _Frame) -> Markup:
    made = list[Markup]()
    for part, begin, end in found.parts():
        x, room = frame.x(begin), frame.x(end) - frame.x(begin)
        made.append(
            html('<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{base}" style="stroke:var(--soft)"/>', x=x, base=_BASE)
        )
        if room > 7 * len(part):
            made.append(html('<text x="{:.1f}" y="14" font-size="11">{part}</text>', x + 4, part=part))
    return joined(made)
