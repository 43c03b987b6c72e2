"""Tensors that lie in DRAM in blocks: which bytes a box of one covers.

On a machine with `dram_tile = "8x128"` a tensor of two and more dims is cut into blocks of 8 rows and 128 columns, each
of which lies together. Columns are the places along the axis with the smallest stride, rows those along the next; the
last block of either is padded to a whole one. The blocks of a row of blocks follow each other, then come the next rows,
and then the next matrix of rows and columns:

    bytes of a tensor    matrices * ceil(rows / 8) * ceil(columns / 128) * 8 * 128 * bytes of an element

A program says its boxes as if tensors lay row after row; the grid of a launch's argument says how many rows and columns
its tensor has. A DMA moves whole blocks, all that a box touches. So a narrow box costs the whole width of its blocks,
and blocks beside each other are one run, where each of their rows would have been one.

Tensors of one dim lie in one row, and so do those that are looked into by index or element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.machine.tile_form import Tile
from simulator.records.spans import Grid
from simulator.tileprogram.program import I64, MAX_RANK, Space, TileProgram

Grids = Sequence[Grid | None]


class Covered(NamedTuple):
    """The blocks that boxes touch, an entry each: runs of contiguous bytes that begin so far apart along some dims."""

    tiled: npt.NDArray[np.bool_]
    """Whether the box is of a tensor that lies in blocks; what follows holds only then."""
    first: I64
    """From the tensor's first byte."""
    run: I64
    """Bytes of a run."""
    extents: I64
    """How many places each dim has; B x dims."""
    strides: I64
    """Bytes between these."""

    @property
    def bytes(self) -> I64:
        return self.extents.prod(1) * self.run


def storage_elements(grid: Grid, matrices: int, block: Tile) -> int:
    """Elements of a tensor in blocks, padding included."""
    return matrices * -(-grid.rows // block.rows) * -(-grid.columns // block.columns) * block.rows * block.columns


def covered(program: TileProgram, operands: I64, grids: Grids, machine: Machine) -> Covered | None:
    """The blocks that the boxes of these operands touch; None where all tensors lie row after row."""
    block = machine.dram_block
    if block is None or not any(grids):
        return None
    known = np.array([(grid.rows, grid.columns) if grid else (0, 0) for grid in (*grids, None)], np.int64)
    there = program.space[operands] == Space.DRAM
    rows, columns = known[np.where(there, program.target[operands], -1)].T
    tiled = rows > 0
    rows, columns = np.maximum(rows, 1), np.maximum(columns, 1)
    shape, strides = program.shape[operands], program.strides[operands]
    place = program.offset[operands] + (np.minimum(strides, 0) * (shape - 1)).sum(1)
    strides, reach = np.abs(strides), np.abs(strides) * (shape - 1)
    matrix = (rows * columns)[:, None]
    is_column, is_matrix = strides < columns[:, None], strides >= matrix
    is_row = ~is_column & ~is_matrix
    row_step = strides // columns[:, None]
    column, row, outer = place % columns, place // columns % rows, place // (rows * columns)
    far = column + np.where(is_column, reach, 0).sum(1)  # the last column, counted on over the ends of rows
    low = row + np.where(is_row, row_step * (shape - 1), 0).sum(1) + far // columns
    column, far = np.where(far >= columns, 0, column), np.where(far >= columns, columns - 1, far)
    beyond = low // rows  # a box that goes on in the next matrices has all rows of each
    row, low = np.where(beyond > 0, 0, row), np.where(beyond > 0, rows - 1, low)
    skips, apart = _skipped_rows(is_row & (shape > 1), shape, row_step, block)
    low = np.where(skips > 1, row, low)
    wide, high = far // block.columns - column // block.columns + 1, low // block.rows - row // block.rows + 1
    size = program.element_bytes[operands].astype(np.int64)
    bytes_, in_row = block.rows * block.columns * size, -(-columns // block.columns)
    of_matrix = -(-rows // block.rows) * in_row * bytes_
    whole = wide == in_row
    extents, between = (
        np.ones((len(operands), MAX_RANK + 3), np.int64),
        np.zeros((len(operands), MAX_RANK + 3), np.int64),
    )
    extents[:, :MAX_RANK] = np.where(is_matrix, shape, 1)
    between[:, :MAX_RANK] = np.where(is_matrix, strides // matrix * of_matrix[:, None], 0)
    for at, (count, stride) in enumerate(
        ((beyond + 1, of_matrix), (skips, apart * in_row * bytes_), (np.where(whole, 1, high), in_row * bytes_))
    ):
        extents[:, MAX_RANK + at], between[:, MAX_RANK + at] = count, stride
    first = (outer * of_matrix) + (row // block.rows * in_row + column // block.columns) * bytes_
    return Covered(tiled, first, wide * np.where(whole, high, 1) * bytes_, extents, between)


def _skipped_rows(steps: npt.NDArray[np.bool_], shape: I64, row_step: I64, block: Tile) -> tuple[I64, I64]:
    """For boxes with one dim of rows, so far apart that whole blocks lie between: how many, and how many blocks."""
    lone = (steps.sum(1) == 1) & np.logical_or.reduce(steps & (row_step >= 2 * block.rows), axis=1)
    count = np.where(lone, np.where(steps, shape, 1).prod(1), 1)
    return count, np.where(lone, np.where(steps, row_step, 0).sum(1) // block.rows, 0)
