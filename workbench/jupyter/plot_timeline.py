# pyright: reportUnknownMemberType=false
"""The timeline drawn with matplotlib: a row for every hardware unit, time to the right.

A bar is work, coloured by its kind, and faded where its span only holds the unit and waits on its way. The thin strip
below says why the unit stood idle. Where a lane holds more spans than pixels, its bars are as high as the share of the
time they fill. Launches are shaded in turn and named on top; the strip between their names and the lanes is the time
that each takes to begin.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import blended_transform_factory

from workbench.explaining.views.timelines.gantt import (
    BUSY,
    F64,
    I64,
    LAUNCH,
    NOTHING,
    WAITING,
    Gantt,
    fitting,
    unused_text,
)
from workbench.ground.basics.colours import Style, style_named
from workbench.jupyter.plot_axes import inches, with_commas
from workbench.jupyter.plot_themes import THEME, colours_of, new_axes, words_as_they_are

_BAR_HEIGHT = 0.66
_STRIP_HEIGHT = 0.12
_LANE_STEP = 1.0
_GROUP_GAP = 0.35
_TITLE_ROOM = 0.75
_LETTER = 0.072
"""Inches that a letter of the axis' name is wide, at most as a rule."""
_SPANS_PER_PIXEL = 1 / 4
"""Above this many spans a pixel a lane is drawn as shares of time."""


@words_as_they_are
def timeline(view: Gantt, ax: Axes | None = None, *, style: str = THEME, width: float = 11.0) -> Axes:
    """Draws the timeline into `ax`, or into a new figure `width` inches wide."""
    if ax is None:
        ax = new_axes(style, width, height_of(view))
    draw(view, ax, colours_of(style))
    return ax


@words_as_they_are
def timeline_figure(view: Gantt, *, style: str = "light", width: float = 11.0) -> Figure:
    """The timeline as a figure of its own, which pyplot does not know: for files."""
    figure = Figure(figsize=(inches(width), height_of(view)), layout="constrained")
    draw(view, figure.add_subplot(), style_named(style))
    return figure


def height_of(view: Gantt) -> float:
    """Inches that make every lane as high as a line of text wants."""
    return 1.5 + 0.42 * (len(view.lanes) + _GROUP_GAP * len({lane.group for lane in view.lanes}))


def draw(view: Gantt, ax: Axes, style: Style, *, scale: float = 0) -> None:
    """Everything but the figure. `scale` is the number of cycles from edge to edge: the makespan when it is 0."""
    figure = cast("Figure", ax.figure)
    figure.set_facecolor(style.ground)
    ax.set_facecolor(style.ground)
    tops = lane_tops(view)
    ax.set_xlim(0, max(scale, view.makespan, 1))
    ax.set_ylim(max(tops, default=0) + _LANE_STEP, -_TITLE_ROOM)
    pixels = max(int(ax.get_window_extent().width), 200)
    _draw_bands(view, ax, style, pixels)
    for index, top in enumerate(tops):
        _draw_lane(view, index, top, ax, style, pixels)
    _draw_axes(view, tops, ax, style, pixels, is_over=not max(scale, view.makespan))
    if not view.lanes:
        ax.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=ax.transAxes, fontsize=9, color=style.ink)
    _draw_legend(view, ax, style)


def lane_tops(view: Gantt) -> list[float]:
    """The upper edge of every lane; a gap stands between groups of units."""
    tops: list[float] = []
    y, group = 0.0, view.lanes[0].group if view.lanes else ""
    for lane in view.lanes:
        y += _GROUP_GAP if lane.group != group else 0
        group = lane.group
        tops.append(y)
        y += _LANE_STEP
    return tops


def _draw_bands(view: Gantt, ax: Axes, style: Style, pixels: int) -> None:
    bottom = ax.get_ylim()[0]
    for index, band in enumerate(view.bands):
        if index % 2 == 0:
            ax.axvspan(band.start, band.end, color=style.band, zorder=0, linewidth=0)
        room = (band.end - band.start) / max(view.makespan, 1) * pixels
        label = fitting(band.kernel, room / 6.2)
        if label:
            middle = (band.start + band.end) / 2
            ax.text(
                middle, -_TITLE_ROOM * 0.6, label, ha="center", va="center", fontsize=8, color=style.ink, clip_on=True
            )
        ax.plot([band.start, band.start], [-_TITLE_ROOM, bottom], color=style.faint, linewidth=0.8, zorder=0.5)
    start, end = (np.array([getattr(each, side) for each in view.launching], np.int64) for side in ("start", "end"))
    colour = style.causes[LAUNCH]
    draw_boxes(ax, start, end, -0.05 - _STRIP_HEIGHT, -0.05, colour, colour)


def _draw_lane(view: Gantt, lane: int, top: float, ax: Axes, style: Style, pixels: int) -> None:
    base = top + _BAR_HEIGHT
    ax.axhspan(top, base, color=style.faint, alpha=0.55, linewidth=0, zorder=0.6)
    part = view.of_lane(lane)
    start, works, end = view.start[part], view.work_start[part], view.end[part]
    strip, idle = base + 0.05, view.idle_time.of_lane(lane)
    if part.stop - part.start > pixels * _SPANS_PER_PIXEL:
        edges = np.linspace(0, max(view.makespan, 1), pixels + 1)
        colours = [style.kinds.get(kind, style.ink) for kind in view.kinds]
        both = np.concatenate([view.busy(lane, edges), view.held(lane, edges)])
        draw_shares(ax, both, edges, base, -_BAR_HEIGHT, [*colours, *map(style.held, colours)])
        causes = [style.idle(cause) for cause in view.causes]
        draw_shares(ax, view.idle(lane, edges), edges, strip, _STRIP_HEIGHT, causes)
        return
    wide = (end - works) * (pixels / max(view.makespan, 1)) > 4
    for kind in view.used_kinds():
        mine = view.kind[part] == kind
        if not mine.any():
            continue
        colour = style.kinds.get(view.kinds[kind], style.ink)
        for some, edge in ((mine & wide, style.ground), (mine & ~wide, colour)):
            draw_boxes(ax, works[some], end[some], top, base, colour, edge)
        held, pale = mine & (start < works), style.held(colour)
        draw_boxes(ax, start[held], works[held], top, base, pale, pale)
    for cause in view.used_causes():
        mine = view.idle_time.cause[idle] == cause
        begins, ends, colour = view.idle_time.start[idle][mine], view.idle_time.end[idle][mine], view.causes[cause]
        draw_boxes(ax, begins, ends, strip, strip + _STRIP_HEIGHT, style.idle(colour), style.idle(colour))


def draw_boxes(ax: Axes, start: I64 | F64, end: I64 | F64, top: float, base: float, face: str, edge: str) -> None:
    """Rectangles as one collection. An edge in the ground's colour keeps neighbours apart."""
    if not len(start):
        return
    corners = np.empty((len(start), 4, 2))
    corners[:, :2, 0] = start[:, None]
    corners[:, 2:, 0] = end[:, None]
    corners[:, (0, 3), 1] = top
    corners[:, (1, 2), 1] = base
    ax.add_collection(PolyCollection(list(corners), facecolors=face, edgecolors=edge, linewidths=0.4, zorder=2))


def draw_shares(ax: Axes, shares: F64, edges: F64, base: float, height: float, colours: list[str]) -> None:
    """Stacked columns, one a pixel, each as high as the share of the time it stands for."""
    below = np.zeros(shares.shape[1])
    for row, colour in zip(shares, colours, strict=True):
        if not row.any():
            continue
        above = below + row
        lower, upper = (base + height * np.append(level, level[-1]) for level in (below, above))
        ax.fill_between(edges, lower, upper, step="post", color=colour, linewidth=0, zorder=2)
        below = above


def _draw_axes(view: Gantt, tops: list[float], ax: Axes, style: Style, pixels: int, *, is_over: bool) -> None:
    """Names of lanes, cycles and time; of a run that is over as it begins only where that is."""
    ax.set_yticks([top + _BAR_HEIGHT / 2 for top in tops])
    ax.set_yticklabels([f"{lane.name}  {lane.busy:4.0%}" for lane in view.lanes], fontsize=8.5)
    head = blended_transform_factory(ax.transAxes, ax.transData)
    if view.lanes:
        ax.text(-0.006, -_TITLE_ROOM * 0.6, BUSY, ha="right", va="center", transform=head, fontsize=8, color=style.ink)
    ax.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, min_n_ticks=3))
    ax.xaxis.set_major_formatter(FuncFormatter(with_commas))
    letters = int(pixels / (_LETTER * cast("Figure", ax.get_figure(root=True)).dpi))
    whole = f"cycles    ({unused_text(view.unused, 10**6)})" if view.unused else "cycles"
    short = f"cycles\n{unused_text(view.unused, letters)}"
    ax.set_xlabel(whole if len(whole) <= letters else short, color=style.ink, fontsize=9)
    clock = view.clock_mhz

    def to_time(cycles: F64) -> F64:
        return cycles / clock

    def to_cycles(time: F64) -> F64:
        return time * clock

    above = ax.secondary_xaxis("top", functions=(to_time, to_cycles))  # pyright: ignore[reportArgumentType]
    above.set_xlabel(f"µs at {clock:g} MHz", color=style.ink, fontsize=9)
    above.xaxis.set_major_locator(MaxNLocator(nbins="auto", min_n_ticks=3))
    above.xaxis.set_major_formatter(FuncFormatter(with_commas))
    if is_over:
        ax.set_xticks([0])
        above.set_xticks([0])
    for axis in (ax, above):
        axis.tick_params(colors=style.ink, labelsize=8.5, length=3, color=style.ink)
        for spine in axis.spines.values():
            spine.set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=style.faint, linewidth=0.8, zorder=0.4)
    ax.set_axisbelow(True)


def _draw_legend(view: Gantt, ax: Axes, style: Style) -> None:
    work = [
        Patch(color=style.kinds.get(view.kinds[kind], style.ink), label=view.kinds[kind].lower())
        for kind in view.used_kinds()
    ]
    if waiting := view.waiting_kinds():
        pale = style.held(style.kinds.get(view.kinds[waiting[0]], style.ink))
        work.append(Patch(color=pale, label=f"faded: {WAITING}"))
    idle = [
        Patch(
            color=style.idle(view.causes[cause]),
            label=f"idle: {view.causes[cause].replace('_', ' ')}",
        )
        for cause in view.used_causes()
    ]
    if view.launching:
        idle.insert(0, Patch(color=style.causes[LAUNCH], label=LAUNCH))
    figure = cast("Figure", ax.figure)
    entries = work + idle
    rows = -(-len(entries) // max(2, int(cast("Figure", ax.get_figure(root=True)).get_figwidth() / 1.5)))
    legend = figure.legend(
        handles=entries,
        loc="outside lower center",
        ncols=max(1, -(-len(entries) // max(rows, 1))),
        frameon=False,
        fontsize=8.5,
        handlelength=1.0,
        handleheight=0.8,
        columnspacing=1.3,
    )
    for text in legend.get_texts():
        text.set_color(style.ink)
