# pyright: reportUnknownMemberType=false
"""Aligned timelines drawn with matplotlib: the journeys below each other, a row for every class of unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from workbench.explaining.views.timelines.aligned import AS_LONG, FASTER, SLOWER, Aligned
from workbench.explaining.views.timelines.gantt import LAUNCH, NOTHING
from workbench.ground.basics import markup
from workbench.ground.basics.colours import Style
from workbench.jupyter.plot_themes import THEME, colours_of, new_figure, words_as_they_are
from workbench.jupyter.plot_timeline import draw_boxes, draw_shares

_NAME, _STRIP, _LANE, _BAR, _GAP = 0.75, 0.18, 1.0, 0.8, 0.5
"""Heights, in lanes."""
_LETTER = 0.072
"""Inches that a letter is wide, at most as a rule."""


@words_as_they_are
def aligned(view: Aligned, *, style: str = THEME, width: float = 11.0) -> Figure:
    """One picture of all journeys, `width` inches wide."""
    colours = colours_of(style)
    rows = sum(_NAME + 2 * _STRIP + _GAP + _LANE * len(view.lanes_of(run)) for run in range(len(view.runs)))
    figure = new_figure(style, width, 1.0 + 0.24 * rows)
    figure.set_facecolor(colours.ground)
    ax = figure.add_subplot()
    ax.set_facecolor(colours.ground)
    ax.set_xlim(0, view.whole or 1)
    ax.set_ylim(rows, -0.9)
    if view.lanes:
        _draw(view, ax, colours, width)
    else:
        ax.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=ax.transAxes, fontsize=9, color=colours.ink)
    return figure


def _draw(view: Aligned, ax: Axes, style: Style, width: float) -> None:
    pixels = int(width * 100)
    edges = np.linspace(0, view.whole, pixels + 1)
    names, places, y = list[str](), list[float](), 0.0
    for number, run in enumerate(view.runs):
        told = f"{run.name}: {run.trace.makespan:,} cycles, {run.microseconds(run.trace.makespan):,.2f} µs"
        ax.text(0, y + _NAME / 2, told, fontsize=8.5, va="center", color=style.ink)
        y += _NAME
        _draw_stays(view, number, y, ax, style)
        y += 2 * _STRIP
        for lane in view.lanes_of(number):
            _boxes(ax, [(stay.start, stay.end) for stay, _ in view.stays_of(number)], y, _BAR, style.faint)
            kinds = [style.kinds.get(kind, style.ink) for kind in view.kinds]
            draw_shares(ax, lane.shares(edges, len(view.kinds)), edges, y + _BAR, -_BAR, kinds)
            names.append(f"{lane.name}  {lane.busy:4.0%}")
            places.append(y + _BAR / 2)
            y += _LANE
        y += _GAP
    _draw_columns(view, y - _GAP, ax, style, width)
    _draw_axes(names, places, ax, style)
    _draw_legend(view, ax, style)


def _colours(style: Style) -> dict[str, str]:
    return {SLOWER: markup.tone("bad", style), FASTER: markup.tone("good", style), AS_LONG: style.causes["data"]}


def _draw_stays(view: Aligned, run: int, y: float, ax: Axes, style: Style) -> None:
    """A line as long as the journey is in each column, and what its launches take before."""
    stays = view.stays_of(run)
    _boxes(ax, [(stay.launching, stay.start) for stay, _ in stays], y, _STRIP, style.causes[LAUNCH])
    for told, colour in _colours(style).items():
        _boxes(ax, [(stay.start, stay.end) for stay, how in stays if how == told], y, _STRIP, colour)


def _boxes(ax: Axes, pieces: Sequence[tuple[float, float]], y: float, height: float, colour: str) -> None:
    start, end = np.array(pieces, np.float64).reshape(-1, 2).T
    draw_boxes(ax, start, end, y, y + height, colour, colour)


def _draw_columns(view: Aligned, bottom: float, ax: Axes, style: Style, width: float) -> None:
    """Where each column begins, and its title where that fits."""
    for column in view.columns:
        ax.plot([column.start] * 2, [-0.8, bottom], color=style.causes["data"], linewidth=0.6, zorder=3)
        room = int((column.end - column.start) / (view.whole or 1) * (width - 1.5) / _LETTER)
        title = column.group.title
        shown = title if len(title) < room else f"{title[: room - 2]}…" if room > 6 else ""
        ax.text(column.start, -0.4, f" {shown}", fontsize=8, va="center", color=style.ink, clip_on=True)


def _draw_axes(names: list[str], places: list[float], ax: Axes, style: Style) -> None:
    ax.set_yticks(places)
    ax.set_yticklabels(names, fontsize=8.5)
    ax.set_xlabel("µs: within a column time runs on, and the same nodes begin at the same place", fontsize=9)
    ax.xaxis.label.set_color(style.ink)
    ax.tick_params(colors=style.ink, labelsize=8.5, length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _draw_legend(view: Aligned, ax: Axes, style: Style) -> None:
    kinds = [(view.kinds[kind].lower(), style.kinds.get(view.kinds[kind], style.ink)) for kind in view.used_kinds()]
    launch = [(LAUNCH, style.causes[LAUNCH])] if view.launching else []
    paces = [(told, colour) for told, colour in _colours(style).items() if told in view.paces]
    handles = [Patch(color=colour, label=told) for told, colour in [*kinds, *launch, *paces]]
    figure = cast("Figure", ax.figure)
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8.5)
    for text in legend.get_texts():
        text.set_color(style.ink)
