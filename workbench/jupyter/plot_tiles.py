# pyright: reportUnknownMemberType=false
"""The tensors of a kernel as grids of tiles drawn with matplotlib, from the same geometry as
`explaining/views/scratchpads/svg_tiles.py`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import cast

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from workbench.explaining.views.scratchpads.tile_grids import Grid, caption, drawn, grids, label, size_of, strength
from workbench.explaining.views.scratchpads.tiles import TensorMoves, Tiling, moved_text
from workbench.ground.basics.colours import Style
from workbench.jupyter.plot_themes import THEME, colours_of, new_figure, words_as_they_are

_SIDE_BY_SIDE = 3
_AN_INCH = 80
_LETTER = 0.066
"""Inches that a letter below a picture is wide, as a rule."""


@words_as_they_are
def tiles(view: Tiling, *, style: str = THEME, width: float = 11.0) -> Figure:
    """A new figure with a grid for each tensor that is moved."""
    colours, every = colours_of(style), grids(view)
    columns = max(1, min(_SIDE_BY_SIDE, len(every)))
    rows = max(1, -(-len(every) // columns))
    tall = [
        max([60.0, *(size_of(grid)[1] for grid in every[row * columns : (row + 1) * columns])]) + 60
        for row in range(rows)
    ]
    figure = new_figure(style, width, sum(tall) / _AN_INCH + 0.4 * rows)
    figure.set_facecolor(colours.ground)
    made = figure.subplots(rows, columns, squeeze=False, height_ratios=tall)
    axes = cast("Sequence[Sequence[Axes]]", made)
    letters = max(12, int((width - 1.2) / columns / _LETTER))
    for number in range(rows * columns):
        ax = axes[number // columns][number % columns]
        if number < len(every):
            _draw(every[number], view.tensors[number], ax, colours, letters)
        else:
            ax.set_axis_off()
    if every:
        ages = [
            Patch(facecolor=colours.kinds["LOAD"], alpha=strength(age), label=label)
            for age, label in ((0, "moved first"), (0.5, "later"), (1, "last"))
        ]
        ink = colours.ink
        figure.legend(handles=ages, loc="outside upper right", ncols=3, fontsize=8, frameon=False, labelcolor=ink)
    return figure


def _draw(grid: Grid, moved: TensorMoves, ax: Axes, style: Style, letters: int) -> None:
    ax.set_facecolor(style.ground)
    width, height = size_of(grid)
    across, down = width / max(grid.columns, 1), height / max(grid.rows, 1)
    for tile in drawn(grid):
        wide, high = (tile.right - tile.left) * across, (tile.bottom - tile.top) * down
        box = Rectangle((tile.left * across, tile.top * down), wide, high)
        edge = style.ground if min(wide, high) > 5 else "none"
        box.set(facecolor=to_rgba(style.kinds["LOAD"], strength(tile.age)), edgecolor=edge, linewidth=0.8)
        ax.add_patch(box)
        if text := label(tile, wide, high):
            ax.text(
                (tile.left + tile.right) / 2 * across, (tile.top + tile.bottom) / 2 * down, text, fontsize=8,
                ha="center", va="center", color=style.ink,
            )  # fmt: skip
    ax.set_xlim(-1, width + 1)
    ax.set_ylim(height + 1, -1)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color(style.ink)
        spine.set_linewidth(0.6)
    ax.set_title(f"{grid.tensor}  ({grid.access})", fontsize=9, color=style.ink, loc="left")
    lines = [line for told in (*caption(grid), moved_text(moved)) for line in textwrap.wrap(told, letters)]
    axis = f"axis {grid.axes[1]}: {grid.columns:,}" if grid.axes[1] >= 0 else ""
    ax.set_xlabel("\n".join([axis, *lines]), fontsize=7.5, color=style.ink)
    if grid.axes[0] >= 0:
        ax.set_ylabel(f"axis {grid.axes[0]}: {grid.rows:,}", fontsize=7.5, color=style.ink)
