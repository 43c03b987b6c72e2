"""The tensors of a kernel as grids of tiles, in the order in which they are moved: as geometry and as pictures.

A picture has two axes of the tensor: those that are cut into most tiles, among equals the longest. Boxes that differ
only along the other axes are one tile of the picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.tensor_boxes import TensorBox
from workbench.explaining.views.scratchpads.tiles import TensorMoves, Tiling, Touch, moved_text
from workbench.ground.basics.picture import Axis, Box, Entry, Picture, Told, Words


@dataclass(frozen=True, slots=True)
class Tile:
    """A rectangle of the picture, in elements: rows from `top` to `bottom`, columns from `left` to `right`."""

    top: int
    left: int
    bottom: int
    right: int
    first: int
    """The number of the tile's first move among all moves of the tensor, from 1 on."""
    visits: int
    boxes: int
    """The number of different boxes of the tensor that are drawn as this tile."""
    age: float
    """From 0 for the tile that is moved first to 1 for the one that comes last."""

    @property
    def again(self) -> float:
        """The average number of moves of each box."""
        return self.visits / self.boxes


@dataclass(frozen=True)
class Grid:
    """One tensor."""

    tensor: str
    access: str
    shape: tuple[int, ...]
    is_storage: bool
    """True if elements of the tensor share memory: the picture then shows its storage, as one axis."""
    axes: tuple[int, int]
    """The axes that go down and to the right; -1 for an axis that the tensor does not have."""
    rows: int
    columns: int
    tiles: tuple[Tile, ...]
    visits: int
    by_index: bool
    exact: bool

    @property
    def hidden(self) -> tuple[int, ...]:
        """Axes of more than one element that are not drawn."""
        return tuple(axis for axis, extent in enumerate(self.shape) if extent > 1 and axis not in self.axes)

    def tile_text(self, tile: Tile) -> str:
        """A tile in words."""
        rows = f"axis {self.axes[0]} from {tile.top:,} to {tile.bottom:,}, " if self.axes[0] >= 0 else ""
        times = f"{tile.visits:,} moves, the first is number {tile.first:,}"
        boxes = f", of {tile.boxes:,} boxes along the other axes" if tile.boxes > 1 else ""
        return f"{self.tensor}: {rows}axis {self.axes[1]} from {tile.left:,} to {tile.right:,}; {times}{boxes}"


def grids(view: Tiling) -> list[Grid]:
    """A grid for each tensor that is moved, in the order of the kernel's arguments."""
    return [_grid(each, [touch for touch in view.touches if touch.argument == each.argument]) for each in view.tensors]


def _grid(moved: TensorMoves, visits: Sequence[Touch]) -> Grid:
    shape = moved.coordinates
    boxes = [touch.box for touch in visits if touch.box is not None]
    places = [len({(box.start[axis], box.extent[axis]) for box in boxes}) for axis in range(len(shape))]
    long = [axis for axis, extent in enumerate(shape) if extent > 1] or list(range(len(shape)))[-1:]
    order = sorted(long, key=lambda axis: (-places[axis], -shape[axis], -axis))
    down, right = sorted(order[:2]) if len(order) > 1 else (-1, order[0] if order else -1)
    seen = dict[tuple[int, int, int, int], tuple[int, int, dict[object, None]]]()
    for number, box in enumerate(boxes, start=1):
        place = place_of(box, (down, right))
        first, count, different = seen.get(place, (number, 0, dict[object, None]()))
        different[box] = None
        seen[place] = first, count + 1, different
    ranks = {first: rank for rank, first in enumerate(sorted(first for first, _, _ in seen.values()))}
    tiles = tuple(
        Tile(*place, first, count, len(different), ranks[first] / max(len(ranks) - 1, 1))
        for place, (first, count, different) in seen.items()
    )
    return Grid(
        moved.tensor,
        moved.access,
        shape,
        len(shape) != len(moved.shape),
        (down, right),
        shape[down] if down >= 0 else 1,
        shape[right] if right >= 0 else 1,
        tiles,
        len(boxes),
        any(touch.by_index for touch in visits),
        all(box.exact for box in boxes),
    )


def place_of(box: TensorBox, axes: tuple[int, int]) -> tuple[int, int, int, int]:
    """The sides of a box in a picture of these axes: top, left, bottom, right."""
    down, right = axes
    top, bottom = (box.start[down], box.end[down]) if down >= 0 else (0, 1)
    left, end = (box.start[right], box.end[right]) if right >= 0 else (0, 1)
    return top, left, bottom, end


def coarse(grid: Grid, rows: int, columns: int) -> tuple[Tile, ...]:
    """The tiles; if they are too small to be drawn, `rows` x `columns` pieces of the picture, each in the colour of the
    tile that is moved first there."""
    small = any(
        (tile.bottom - tile.top) * rows < grid.rows or (tile.right - tile.left) * columns < grid.columns
        for tile in grid.tiles
    )
    if not small or len(grid.tiles) <= rows:
        return grid.tiles
    down, right = min(rows, grid.rows), min(columns, grid.columns)
    painted = np.full((down, right), -1)
    for number in sorted(range(len(grid.tiles)), key=lambda each: -grid.tiles[each].first):
        tile = grid.tiles[number]
        top, bottom = tile.top * down // grid.rows, -(-tile.bottom * down // grid.rows)
        left, end = tile.left * right // grid.columns, -(-tile.right * right // grid.columns)
        painted[top:bottom, left:end] = number
    return tuple(_pieces(grid, painted))


def _pieces(grid: Grid, painted: npt.NDArray[np.int64]) -> Iterator[Tile]:
    """The stretches of one colour in each row of a coarse picture."""
    down, right = painted.shape
    for row in range(down):
        column = 0
        numbers: list[int] = painted[row].tolist()
        for number, run in groupby(numbers):
            left, column = column, column + len(list(run))
            if number >= 0:
                yield replace(
                    grid.tiles[number],
                    top=row * grid.rows // down,
                    left=left * grid.columns // right,
                    bottom=-(-(row + 1) * grid.rows // down),
                    right=-(-column * grid.columns // right),
                )


def size_of(grid: Grid) -> tuple[float, float]:
    """Width and height of the tensor in the picture: to scale, but never thinner than a line of text."""
    longest = max(grid.rows, grid.columns, 1)
    return max(_SHORT, LONG * grid.columns / longest), max(_SHORT, LONG * grid.rows / longest)


LONG: Final = 280.0
_SHORT, _SMALLEST = 36.0, 4
"""The shortest side of a picture, and the shortest side of a tile that is drawn by itself."""


def drawn(grid: Grid) -> tuple[Tile, ...]:
    """The drawn tiles of a grid, in the order of the moves."""
    width, height = size_of(grid)
    return tuple(sorted(coarse(grid, int(height) // _SMALLEST, int(width) // _SMALLEST), key=lambda each: each.first))


def label(tile: Tile, wide: float, high: float) -> str:
    """The number of the first move, and how often it is moved, as far as there is room."""
    times = f" ({tile.again:.3g}x)" if tile.again > 1 else ""
    for text in (f"{tile.first:,}{times}", f"{tile.first:,}"):
        if len(text) * 6.4 + 4 <= wide and high >= 11:
            return text
    return ""


def strength(age: float) -> float:
    """Opacity of a tile's colour: low enough for the text on it to be read."""
    return 0.12 + 0.5 * age


def caption(grid: Grid) -> list[str]:
    """The picture's content and its omissions, in lines."""
    shape = " x ".join(f"{extent:,}" for extent in grid.shape) or "one element"
    lines = [f"{shape}, {_count(len(grid.tiles), 'tile')} in {_count(grid.visits, 'move')}"]
    if grid.is_storage:
        lines.append("its elements share memory: the picture shows its storage, from its first element to its last")
    if grid.hidden:
        axes = ", ".join(f"{axis} ({grid.shape[axis]:,})" for axis in grid.hidden)
        lines.append(f"not drawn: {'axes' if len(grid.hidden) > 1 else 'axis'} {axes}")
    if len(drawn(grid)) < len(grid.tiles):
        lines.append("the tiles are too small to draw: each cell has the colour of its first tile")
    if not grid.exact and not grid.by_index:
        lines.append("some moves take only a part of their tile")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


_NOTHING = "the kernel moves nothing between DRAM and the scratchpad"
_HUE = "k-LOAD"
_LEGEND = (
    *(Entry(told, _HUE, strength(age)) for age, told in ((0, "moved first"), (0.5, "later"), (1, "last"))),
    Entry("numbers: the first move of a tile; (2x): it is moved twice"),
)


def tile_pictures(view: Tiling) -> list[Picture]:
    """A picture for each tensor, in the order of the kernel's arguments."""
    pictures = [_picture(grid, moved) for grid, moved in zip(grids(view), view.tensors, strict=True)]
    return pictures or [Picture("tiles", nothing=_NOTHING)]


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
    return Told(grid.tile_text(tile), (box, *words))
