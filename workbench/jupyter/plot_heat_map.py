# pyright: reportUnknownMemberType=false
"""The map of mappings drawn with matplotlib, from the same geometry as `svg_heat_map.py`."""

from __future__ import annotations

import textwrap
from typing import cast

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from workbench.explaining.views.comparisons.heat_map import HeatMap, summary
from workbench.ground.basics.colours import Style, style_named
from workbench.jupyter.plot_axes import inches

_ROW, _AROUND = 0.42, 1.3
"""Inches that a row of cells is high, and all that stands around them."""
_LETTERS_AN_INCH = 13


def heat_map(view: HeatMap, ax: Axes | None = None, *, style: str = "light", width: float = 8.0) -> Axes:
    """Draws the map into `ax`, or into a new figure `width` inches wide."""
    if ax is None:
        size = (inches(width), _ROW * len(view.rows) + _AROUND)
        ax = pyplot.figure(figsize=size, layout="constrained").add_subplot()
    draw(view, ax, style_named(style))
    return ax


def draw(view: HeatMap, ax: Axes, style: Style) -> None:
    """The same, in colours that are given."""
    figure = cast("Figure", ax.get_figure(root=True))
    figure.set_facecolor(style.ground)
    ax.set_facecolor(style.ground)
    palette = LinearSegmentedColormap.from_list("cycles", [style.ground, style.kinds["LOAD"]])
    for row in range(len(view.rows)):
        for column in range(len(view.columns)):
            _draw_cell(view, row, column, ax, style, palette)
    for at, inset, line, dash in ((view.today, 0.1, 1.2, "--"), (view.best, 0.03, 2.2, "-")):
        if at is not None:
            corner, size = (at[1] + inset, at[0] + inset), 1 - 2 * inset
            ax.add_patch(Rectangle(corner, size, size, fill=False, edgecolor=style.ink, linewidth=line, linestyle=dash))
    ax.set_xlim(0, len(view.columns))
    ax.set_ylim(len(view.rows), 0)
    ax.set_xticks([place + 0.5 for place in range(len(view.columns))], labels=view.columns)
    ax.set_yticks([place + 0.5 for place in range(len(view.rows))], labels=view.rows)
    ax.tick_params(colors=style.ink, labelsize=8.5, length=0)
    letters = max(30, int(figure.get_figwidth() * _LETTERS_AN_INCH))
    told = textwrap.wrap(f"{summary(view)} (thick frame: best, dashed: today's)", letters)
    ax.set_xlabel("\n".join([view.across, *told]), fontsize=8.5, color=style.ink)
    ax.set_ylabel(view.down, fontsize=8.5, color=style.ink)
    named = f"cycles by {' and '.join(view.knobs)}" + (f" of {view.kernel}" if view.kernel else "")
    ax.set_title("\n".join(textwrap.wrap(named, letters)), fontsize=9, color=style.ink, loc="left")
    for spine in ax.spines.values():
        spine.set_visible(False)


def _draw_cell(view: HeatMap, row: int, column: int, ax: Axes, style: Style, palette: LinearSegmentedColormap) -> None:
    spot = view.spots[row][column]
    if spot is None:
        return
    box = Rectangle((column, row), 1, 1, edgecolor=style.ground, linewidth=1)
    if spot.cycles is None:
        box.set(facecolor=style.ground, edgecolor=style.causes["data"], hatch="///", linewidth=0)
        ax.add_patch(box)
        return
    box.set_facecolor(palette(view.colour(spot)))
    ax.add_patch(box)
    ax.text(column + 0.5, row + 0.5, view.written(spot), ha="center", va="center", fontsize=8.5, color=style.ink)
