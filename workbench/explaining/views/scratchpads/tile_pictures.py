"""The tensors of a kernel as grids of tiles: a picture for each tensor that is moved."""

from __future__ import annotations

from workbench.explaining.views.scratchpads.tile_grids import (
    Grid,
    Tile,
    caption,
    drawn,
    grids,
    label,
    size_of,
    strength,
)
from workbench.explaining.views.scratchpads.tiles import TensorMoves, Tiling, moved_text
from workbench.ground.basics.picture import Axis, Box, Entry, Picture, Told, Words

_NOTHING = "the kernel moves nothing between DRAM and the scratchpad"
_HUE = "k-LOAD"
_LEGEND = (
    *(Entry(told, _HUE, strength(age)) for age, told in ((0, "moved first"), (0.5, "later"), (1, "last"))),
    Entry("numbers: the first move of a tile; (2x): it is moved twice"),
)


def tile_pictures(view: Tiling) -> list[Picture]:
    """A picture for each tensor, in the order of the kernel's arguments."""
    made = [_picture(grid, moved) for grid, moved in zip(grids(view), view.tensors, strict=True)]
    return made or [Picture("tiles", nothing=_NOTHING)]


def _picture(grid: Grid, moved: TensorMoves) -> Picture:
    width, height = size_of(grid)
    down = f"axis {grid.axes[0]}: {grid.rows:,}" if height > 70 else f"{grid.rows:,}"
    return Picture(
        f"{grid.tensor} as a grid of tiles",
        width,
        height,
        Axis(0, max(grid.columns, 1), f"axis {grid.axes[1]}: {grid.columns:,}" if grid.axes[1] >= 0 else ""),
        Axis(max(grid.rows, 1), 0, down if grid.axes[0] >= 0 else ""),
        tuple(_tile(tile, grid, width / max(grid.columns, 1), height / max(grid.rows, 1)) for tile in drawn(grid)),
        _LEGEND,
        grid.tensor,
        f"({grid.access})",
        notes=(*caption(grid), moved_text(moved)),
        frame="soft",
        grows=False,
    )


def _tile(tile: Tile, grid: Grid, across: float, down: float) -> Told:
    box = Box(tile.left, tile.right, tile.top, tile.bottom, _HUE, strength(tile.age), apart=True)
    text = label(tile, (tile.right - tile.left) * across, (tile.bottom - tile.top) * down)
    middle = (tile.left + tile.right) / 2, (tile.top + tile.bottom) / 2
    words = (Words(*middle, text, "middle", dy=4, size=11),) if text else ()
    return Told(grid.told(tile), (box, *words))
