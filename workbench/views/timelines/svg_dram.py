"""What lies in DRAM while a program runs, as inline SVG; `jupyter/plot_training.py` draws the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workbench.views.basics.markup import escape, legend
from workbench.views.timelines.dram_contents import KINDS, Contents, told
from workbench.views.timelines.gantt import NOTHING
from workbench.views.timelines.svg_gantt import ticks_to

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


def dram_svg(found: Contents) -> str:
    """The picture and its legend."""
    peak = found.peak
    if peak is None:
        return f'<p class="soft">{escape(NOTHING)}</p>'
    frame = _Frame(max(sum(peak.bytes), 1), max(found.stretches[-1].end, 1))
    areas = [_area(found, kind, frame) for kind in found.kinds()]
    entries = [(KINDS[kind], f"var(--{COLOURS[kind]})") for kind in found.kinds()]
    return (
        f'<div class="scroll" tabindex="0"><svg role="img" aria-label="DRAM over time: {escape(told(found))}" '
        f'viewBox="0 0 {_WIDTH} {_BASE + 26}" style="width:100%;min-width:700px;max-width:1150px">'
        f"{''.join(areas)}{_axes(frame)}{_parts(found, frame)}</svg></div>{legend(entries)}"
    )


def _area(found: Contents, kind: int, frame: _Frame) -> str:
    """The bytes of a kind above those of all that come before it."""
    way, back = list[str](), list[str]()
    for each in found.stretches:
        low, high = (frame.y(sum(each.bytes[:place])) for place in (kind, kind + 1))
        way += [f"{frame.x(cycle):.1f},{high:.1f}" for cycle in (each.begin, each.end)]
        back += [f"{frame.x(cycle):.1f},{low:.1f}" for cycle in (each.begin, each.end)]
    most = max(each.bytes[kind] for each in found.stretches)
    title = f"<title>{KINDS[kind]}: at most {most:,} bytes</title>"
    points = " ".join([*way, *reversed(back)])
    return f'<polygon points="{points}" style="fill:var(--{COLOURS[kind]})">{title}</polygon>'


def _axes(frame: _Frame) -> str:
    small, parts = 'font-size="10.5" class="soft"', list[str]()
    for tick in ticks_to(frame.end, least=1):
        parts.append(f'<text x="{frame.x(tick):.1f}" y="{_BASE + 14}" text-anchor="middle" {small}>{tick:,.0f}</text>')
    for tick in ticks_to(frame.most / MEGABYTE)[::2]:
        y = f"{frame.y(tick * MEGABYTE):.1f}"
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" style="stroke:var(--line)" '
            f'stroke-width=".7"/><text x="{_LEFT - 6}" y="{y}" dy="3" text-anchor="end" {small}>{tick:,.6g} MB</text>'
        )
    return "".join(parts) + f'<text x="{_LEFT - 6}" y="{_BASE + 14}" text-anchor="end" {small}>cycles</text>'


def _parts(found: Contents, frame: _Frame) -> str:
    made = list[str]()
    for part, begin, end in found.parts():
        x, room = frame.x(begin), frame.x(end) - frame.x(begin)
        made.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{_BASE}" style="stroke:var(--soft)"/>')
        if room > 7 * len(part):
            made.append(f'<text x="{x + 4:.1f}" y="14" font-size="11">{part}</text>')
    return "".join(made)
