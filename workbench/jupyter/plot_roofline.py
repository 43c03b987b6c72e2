# pyright: reportUnknownMemberType=false
"""The roofline drawn with matplotlib, from the same geometry as `explaining/views/timelines/svg_roofline.py`."""

from __future__ import annotations

import math
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from workbench.explaining.views.timelines import roof_chart
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.explaining.views.timelines.roof_chart import COLOURS, Chart, Line, Mark, chart, number_text
from workbench.explaining.views.timelines.roofline import WHOLE, Roofline
from workbench.ground.basics.colours import Style
from workbench.jupyter.plot_themes import THEME, colours_of, new_axes, words_as_they_are

_SHAPE = 0.56
"""Height of a new figure, as a part of its width."""
_POINTS = 72
_FONT = 8
_UNIT = _FONT / roof_chart.FONT
"""Points of a pixel of the chart, so that names take the room that they are laid out for."""


@words_as_they_are
def roofline(found: Roofline, ax: Axes | None = None, *, style: str = THEME, width: float = 9.0) -> Axes:
    """Draws the roofline into `ax`, or into a new figure `width` inches wide."""
    if ax is None:
        ax = new_axes(style, width, _SHAPE * width)
    draw(found, ax, colours_of(style))
    return ax


def draw(found: Roofline, ax: Axes, style: Style) -> None:
    """The same, in colours that are given."""
    figure = cast("Figure", ax.get_figure(root=True))
    figure.set_facecolor(style.ground)
    ax.set_facecolor(style.ground)
    ax.set_xlabel("\n".join([roof_chart.X_LABEL, *found.notes()]), color=style.ink, fontsize=9)
    if found.whole is None:
        ax.set_axis_off()
        ax.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=ax.transAxes, fontsize=9, color=style.ink)
        return
    box = ax.get_window_extent()
    scale = _POINTS / figure.dpi / _UNIT  # names are placed in points
    made = chart(found, box.width * scale, box.height * scale)
    _draw_axes(made, ax, style)
    for line in made.lines:
        _draw_line(made, line, ax, style)
    for mark in made.marks:
        _draw_mark(mark, ax, style)
    _draw_legend(made, figure, style)


def _colour(style: Style, roof: str) -> str:
    return style.named(COLOURS[roof]) if roof in COLOURS else style.ink


def _draw_axes(made: Chart, ax: Axes, style: Style) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*made.x)
    ax.set_ylim(*made.y)
    ax.set_ylabel(roof_chart.Y_LABEL, color=style.ink, fontsize=9)
    for axis, limits in ((ax.xaxis, made.x), (ax.yaxis, made.y)):
        axis.set_major_locator(FixedLocator(roof_chart.decades(limits)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(_tick))
    ax.tick_params(colors=style.ink, labelsize=8.5, length=3, color=style.ink)
    ax.grid(color=style.faint, linewidth=0.8)
    ax.set_axisbelow(True)
    for spine in ax.spines.values():
        spine.set_color(style.faint)


def _tick(value: float, _: int) -> str:
    return number_text(value)


def _draw_line(made: Chart, line: Line, ax: Axes, style: Style) -> None:
    (x1, y1), (x2, y2) = line.start, line.end
    dashes = "--" if line.roof == roof_chart.SHORT else "-"
    ax.plot([x1, x2], [y1, y2], color=_colour(style, line.roof), linewidth=2, linestyle=dashes, zorder=1)
    (left, low), (right, high) = made.place(*line.start), made.place(*line.end)
    angle = math.degrees(math.atan2(high - low, right - left))
    ax.annotate(
        line.label,
        line.start if angle else line.end,
        xytext=(-4 * math.sin(math.radians(angle)) + (6 if angle else -5), 4),
        textcoords="offset points",
        rotation=angle,
        rotation_mode="anchor",
        ha="left" if angle else "right",
        fontsize=_FONT,
        color=style.ink,
    )


def _draw_mark(mark: Mark, ax: Axes, style: Style) -> None:
    colour = _colour(style, mark.point.ceiling)
    if mark.name:
        ax.plot([mark.x, mark.x], [mark.y, mark.top], ":", color=style.ink, linewidth=0.8, zorder=2)
        ax.plot([mark.x], [mark.top], "_", color=style.ink, markersize=8, zorder=2)
        if mark.leader:
            to = mark.leader[0] * _UNIT, mark.leader[1] * _UNIT
            line = {"arrowstyle": "-", "linewidth": 0.4, "color": style.ink}
            ax.annotate("", (mark.x, mark.y), xytext=to, textcoords="offset points", arrowprops=line)
        ax.annotate(
            mark.name,
            (mark.x, mark.y),
            xytext=(mark.label[0] * _UNIT, (mark.label[1] + 3) * _UNIT),
            textcoords="offset points",
            fontsize=_FONT,
            color=style.ink,
            zorder=5,
        )
    ax.plot([mark.x, mark.x_least], [mark.y, mark.y], color=style.ink, linewidth=0.7, zorder=3)
    ax.plot([mark.x_least], [mark.y], "o", color=style.ground, markeredgecolor=style.ink, markersize=5, zorder=3)
    shape, size = ("D", 8) if mark.point.kernel == WHOLE else ("o", 7)
    ax.plot([mark.x], [mark.y], shape, color=colour, markeredgecolor=style.ink, markersize=size, zorder=4)


def _draw_legend(made: Chart, figure: Figure, style: Style) -> None:
    roofs = dict.fromkeys(mark.point.ceiling for mark in made.marks if mark.point.ceiling)
    told = [(_colour(style, roof), f"under the roof of {roof}") for roof in roofs]
    told.append((style.ground, "if only the least bytes moved"))
    entries = [
        Line2D([], [], color=colour, marker="o", linestyle="", markeredgecolor=style.ink, label=label)
        for colour, label in told
    ]
    legend = figure.legend(handles=entries, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    for text in legend.get_texts():
        text.set_color(style.ink)
