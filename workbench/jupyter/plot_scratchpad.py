# pyright: reportUnknownMemberType=false
"""The scratchpad over time drawn with matplotlib: what `svg_scratchpad.py` draws, from the same geometry."""

from __future__ import annotations

from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from workbench.explaining.views.scratchpads.scratchpad import (
    BEYOND,
    BOTH,
    FADED,
    LOADED,
    NOTHING,
    STORED,
    WORDS,
    Occupancy,
)
from workbench.explaining.views.scratchpads.scratchpad_layout import Bar, Layout, Mark, Panel, bytes_text, layout
from workbench.explaining.views.timelines.gantt import fitting
from workbench.ground.basics import markup
from workbench.ground.basics.colours import HELD, HUES, LIGHT, Style
from workbench.jupyter.plot_axes import inches, with_commas
from workbench.jupyter.plot_themes import THEME, colours_of, new_axes, words_as_they_are

_GAP, _HEAD = 30.0, 22.0
_APART = 9.0
"""Between two texts."""
_AN_INCH = 80
"""Heights of the geometry on an inch of paper."""


@words_as_they_are
def scratchpad(view: Occupancy, ax: Axes | None = None, *, style: str = THEME, width: float = 11.0) -> Axes:
    """Draws the scratchpad over time into `ax`, or into a new figure `width` inches wide."""
    made = layout(view, round(inches(width) * _AN_INCH))
    if ax is None:
        tall = sum(panel.height + _GAP for panel in made.panels)
        ax = new_axes(style, width, 1.4 + tall / _AN_INCH)
    _draw(made, ax, colours_of(style))
    return ax


def _draw(made: Layout, ax: Axes, style: Style) -> None:
    view, figure = made.occupancy, cast("Figure", ax.figure)
    figure.set_facecolor(style.ground)
    ax.set_facecolor(style.ground)
    bases = list[float]()
    top = 0.0
    for panel in reversed(made.panels):
        bases.insert(0, top)
        top += panel.height + _GAP
    ax.set_xlim(view.begin, max(view.end, view.begin + 1))
    ax.set_ylim(0, max(top - _GAP + _HEAD, 1))
    _draw_bands(view, ax, style)
    for panel, base in zip(made.panels, bases, strict=True):
        _draw_panel(panel, base, view, ax, style)
    if not made.panels:
        ax.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=ax.transAxes, fontsize=9, color=style.ink)
    _draw_axes(made, bases, ax, style)
    _draw_legend(made, ax, style)


def _colour(role: str, style: Style) -> str:
    kinds = {LOADED: style.kinds["LOAD"], STORED: style.kinds["STORE"], BOTH: style.kinds["COPY"]}
    return kinds.get(role) or HUES[7][style is not LIGHT]


def _bad(style: Style) -> str:
    return markup.tone("bad", style)


def _draw_bands(view: Occupancy, ax: Axes, style: Style) -> None:
    pixels = max(int(ax.get_window_extent().width), 200)
    top = ax.get_ylim()[1]
    for index, band in enumerate(view.bands):
        if index % 2 == 0:
            ax.axvspan(band.begin, band.end, color=style.band, zorder=0, linewidth=0)
        label = fitting(band.name, (band.end - band.begin) / max(view.end - view.begin, 1) * pixels / 6.2)
        if label:
            middle = (band.begin + band.end) / 2
            ax.text(middle, top - 3, label, ha="center", va="top", fontsize=8, color=style.ink, clip_on=True)


def _draw_panel(panel: Panel, base: float, view: Occupancy, ax: Axes, style: Style) -> None:
    for each in panel.slots:
        ax.axhline(base + each, color=style.faint, linewidth=0.8, zorder=0.5)
    if panel.height > panel.capacity:
        ax.axhspan(base + panel.capacity, base + panel.height, color=_bad(style), alpha=0.12, linewidth=0, zorder=0.4)
    for bar in panel.bars:
        _draw_bar(bar, base, ax, style)
    line = _bad(style) if view.beyond else style.ink
    ax.axhline(base + panel.capacity, color=line, linewidth=1.3, linestyle=(0, (5, 3)), zorder=3)
    if panel.broken is not None:
        ax.axhline(base + panel.broken, color=style.ink, alpha=0.5, linewidth=0.9, linestyle=(0, (1, 2)), zorder=3)
        ax.text(
            0.004, base + panel.broken, "//", transform=ax.get_yaxis_transform(), va="center", fontsize=8,
            color=style.ink, backgroundcolor=style.ground,
        )  # fmt: skip


def _draw_bar(bar: Bar, base: float, ax: Axes, style: Style) -> None:
    colour, height = _colour(bar.role, style), bar.high - bar.low
    if bar.read > bar.start:
        faded = Rectangle((bar.start, base + bar.low), bar.read - bar.start, height)
        faded.set(facecolor=colour, alpha=HELD, linewidth=0, zorder=2)
        ax.add_patch(faded)
    used = Rectangle((bar.read, base + bar.low), bar.end - bar.read, height)
    used.set(facecolor=colour, alpha=max(bar.share, HELD), edgecolor=style.ground, linewidth=0.5, zorder=2)
    ax.add_patch(used)
    if bar.over < bar.high:
        over = Rectangle((bar.start, base + bar.over), bar.end - bar.start, bar.high - bar.over)
        over.set(facecolor="none", edgecolor=_bad(style), hatch="////", linewidth=1.1, zorder=2.5)
        ax.add_patch(over)


def _draw_axes(made: Layout, bases: list[float], ax: Axes, style: Style) -> None:
    view = made.occupancy
    panels = list(zip(made.panels, bases, strict=True))
    addresses = [(base + mark.height, mark.text) for panel, base in panels for mark in panel.addresses]
    lines = [(base + panel.capacity, f"capacity {bytes_text(view.capacity)}") for panel, base in panels]
    apart = [each for each in addresses if all(abs(each[0] - at) > _APART for at, _ in lines)]
    marked = [*apart, *lines]
    if made.is_named:
        right = ax.secondary_yaxis("right")
        right.set_yticks([at for at, _ in marked], labels=[text for _, text in marked])
        right.tick_params(colors=style.ink, labelsize=7.5, length=3, color=style.ink)
        right.spines["right"].set_visible(False)
        marked = [(base + mark.height, _name(mark, panel, made)) for panel, base in panels for mark in panel.names]
    ax.set_yticks([at for at, _ in marked], labels=[text for _, text in marked])
    ax.tick_params(colors=style.ink, labelsize=8.5, length=3, color=style.ink)
    ax.tick_params(axis="y", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, min_n_ticks=3))
    ax.xaxis.set_major_formatter(FuncFormatter(with_commas))
    ax.set_xlabel(view.unit, color=style.ink, fontsize=9)


def _name(mark: Mark, panel: Panel, made: Layout) -> str:
    return f"{_core(panel, made)}{mark.text}  {mark.soft}"


def _core(panel: Panel, made: Layout) -> str:
    return f"core {panel.core}  " if len(made.panels) > 1 else ""


def _draw_legend(made: Layout, ax: Axes, style: Style) -> None:
    told = [Patch(color=_colour(role, style), label=WORDS[role]) for role in WORDS if role in made.roles]
    if any(bar.read > bar.start for panel in made.panels for bar in panel.bars):
        told.append(Patch(color=_colour(made.roles[0], style), alpha=HELD, label=FADED))
    if made.occupancy.beyond:
        told.append(Patch(facecolor="none", edgecolor=_bad(style), hatch="////", label=BEYOND))
    if told:
        legend = cast("Figure", ax.figure).legend(
            handles=told, loc="outside lower center", ncols=len(told), frameon=False, fontsize=8.5, handlelength=1.0
        )
        for text in legend.get_texts():
            text.set_color(style.ink)
