# pyright: reportUnknownMemberType=false
"""A training step drawn with matplotlib: the timelines of its parts on one scale, and what lies in DRAM meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from workbench.explaining.views.timelines.dram_contents import KINDS, Contents
from workbench.explaining.views.timelines.gantt import LAUNCH, NOTHING, Gantt
from workbench.explaining.views.timelines.svg_dram import COLOURS, MEGABYTE
from workbench.explaining.views.timelines.training_parts import NO_PARTS
from workbench.ground.basics.colours import Style
from workbench.jupyter.plot_axes import with_commas
from workbench.jupyter.plot_themes import THEME, colours_of, new_axes, new_figure, words_as_they_are
from workbench.jupyter.plot_timeline import draw_boxes, draw_shares

_NAME, _STRIP, _BAR, _LANE, _GAP = 0.9, 0.2, 0.8, 1.0, 0.5
"""Heights, in lanes."""


@words_as_they_are
def parts(timelines: Sequence[tuple[str, Gantt]], *, style: str = THEME, width: float = 11.0) -> Figure:
    """The timelines below each other, a row for every class of unit, `width` inches wide."""
    colours = colours_of(style)
    rows = sum(_NAME + _STRIP + _GAP + _LANE * len(_groups(view)) for _, view in timelines)
    figure = new_figure(style, width, 1.1 + 0.26 * rows)
    figure.set_facecolor(colours.ground)
    ax = figure.add_subplot()
    ax.set_facecolor(colours.ground)
    if not timelines:
        _say(NO_PARTS, ax, colours)
        return figure
    whole = max(max(view.makespan for _, view in timelines), 1)
    ax.set_xlim(0, whole)
    ax.set_ylim(rows, 0)
    names, places, y = list[str](), list[float](), 0.0
    for part, view in timelines:
        time = view.makespan / view.clock_mhz
        ax.text(0, y + _NAME / 2, f"{part}: {view.makespan:,} cycles, {time:,.2f} µs", va="center", fontsize=9)
        ax.texts[-1].set_color(colours.ink)
        y += _NAME
        lanes = _draw_part(view, y, ax, colours, pixels=int(width * 50 * view.makespan / whole))
        names += [f"{name}  {busy:4.0%}" for name, busy in lanes]
        places += [y + _STRIP + place * _LANE + _BAR / 2 for place in range(len(lanes))]
        y += _STRIP + len(lanes) * _LANE + _GAP
    _axes(names, places, ax, colours)
    _legend([view for _, view in timelines], ax, colours)
    return figure


def _groups(view: Gantt) -> dict[str, list[int]]:
    """The lanes of each class of unit."""
    found: dict[str, list[int]] = {}
    for number, lane in enumerate(view.lanes):
        found.setdefault(lane.group, []).append(number)
    return found


def _draw_part(view: Gantt, y: float, ax: Axes, style: Style, pixels: int) -> list[tuple[str, float]]:
    """The launches as a strip, and below it the lanes; their names, and how busy each is."""
    begins, ends = (np.array([getattr(each, side) for each in view.launching], np.float64) for side in ("start", "end"))
    draw_boxes(ax, begins, ends, y, y + _STRIP - 0.05, style.causes[LAUNCH], style.causes[LAUNCH])
    edges, made = np.linspace(0, max(view.makespan, 1), max(pixels, 50) + 1), list[tuple[str, float]]()
    kinds = [style.kinds.get(kind, style.ink) for kind in view.kinds]
    for place, (group, lanes) in enumerate(_groups(view).items()):
        base = y + _STRIP + place * _LANE + _BAR
        ax.fill_between([0, view.makespan], base - _BAR, base, color=style.faint, linewidth=0, zorder=1)
        shares = sum((view.busy(lane, edges) for lane in lanes[1:]), view.busy(lanes[0], edges)) / len(lanes)
        draw_shares(ax, shares, edges, base, -_BAR, kinds)
        made.append((group, sum(view.lanes[lane].busy for lane in lanes) / len(lanes)))
    return made


def _axes(names: list[str], places: list[float], ax: Axes, style: Style) -> None:
    ax.set_yticks(places)
    ax.set_yticklabels(names, fontsize=8.5)
    ax.set_xlabel("cycles since the part began", fontsize=9, color=style.ink)
    ax.xaxis.set_major_formatter(FuncFormatter(with_commas))
    _quiet(ax, style)


def _quiet(ax: Axes, style: Style) -> None:
    ax.tick_params(colors=style.ink, labelsize=8.5, length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _say(text: str, ax: Axes, style: Style) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, fontsize=9, color=style.ink)


def _legend(timelines: Sequence[Gantt], ax: Axes, style: Style) -> None:
    used = dict.fromkeys(view.kinds[kind] for view in timelines for kind in view.used_kinds())
    told = [(kind.lower(), style.kinds.get(kind, style.ink)) for kind in used]
    if any(view.launching for view in timelines):
        told.append((LAUNCH, style.causes[LAUNCH]))
    _below(told, ax, style)


def _below(told: Sequence[tuple[str, str]], ax: Axes, style: Style) -> None:
    figure = cast("Figure", ax.get_figure(root=True))
    handles = [Patch(color=colour, label=label) for label, colour in told]
    columns = max(min(len(handles), int(figure.get_figwidth() / 1.5)), 1)
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5)
    for text in legend.get_texts():
        text.set_color(style.ink)


@words_as_they_are
def dram(found: Contents, ax: Axes | None = None, *, style: str = THEME, width: float = 11.0) -> Axes:
    """Bytes upwards, time to the right, into `ax` or into a new figure `width` inches wide."""
    if ax is None:
        ax = new_axes(style, width, 3.6)
    colours = colours_of(style)
    figure = cast("Figure", ax.get_figure(root=True))
    figure.set_facecolor(colours.ground)
    ax.set_facecolor(colours.ground)
    if found.peak is None:
        _say(NOTHING, ax, colours)
        return ax
    edges = [*(each.begin for each in found.stretches), found.stretches[-1].end]
    most = sum(found.peak.bytes) / MEGABYTE
    below = np.zeros(len(edges))
    for kind in found.kinds():
        bytes = [each.bytes[kind] / MEGABYTE for each in found.stretches]
        above = below + np.array([*bytes, bytes[-1]])
        ax.fill_between(edges, below, above, step="post", color=colours.named(COLOURS[kind]), linewidth=0)
        below = above
    for part, begin, end in found.parts():
        ax.axvline(begin, color=colours.ink, linewidth=0.7)
        if (end - begin) / edges[-1] * width > 0.09 * len(part):
            ax.text(begin, most * 1.03, f" {part}", fontsize=9, color=colours.ink)
    ax.set_xlim(0, max(edges[-1], 1))
    ax.set_ylim(0, most * 1.12)
    ax.set_xlabel("cycles", fontsize=9, color=colours.ink)
    ax.set_ylabel("MB in DRAM", fontsize=9, color=colours.ink)
    ax.xaxis.set_major_formatter(FuncFormatter(with_commas))
    ax.yaxis.set_major_locator(MaxNLocator(6))
    ax.grid(axis="y", color=colours.faint, linewidth=0.8)
    ax.set_axisbelow(True)
    _quiet(ax, colours)
    _below([(KINDS[kind], colours.named(COLOURS[kind])) for kind in found.kinds()], ax, colours)
    return ax
