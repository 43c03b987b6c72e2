"""Tensors that lie in DRAM in blocks: which bytes a box of one covers.

On a machine with `dram_tile = "8x128"` a tensor of two and more dims is cut into blocks of 8 rows and 128 columns, each
of which lies together. Columns are the places along the axis with the smallest stride, rows those along the next; the
last block of either is padded to a whole one. The blocks of a row of blocks follow each other, then come the next rows,
and then the next matrix of rows and columns:

    bytes of a tensor    matrices * ceil(rows / 8) * ceil(columns / 128) * 8 * 128 * bytes of an element

A program says its boxes as if tensors lay row after row; the grid of a launch's argument says how many rows and columns
its tensor has. A DMA moves whole blocks, all that a box touches. So a narrow box costs the whole width of its blocks,
and blocks beside each other are one run, where each of their rows would have been one. A box that asks for the same
elements several times, as windows that overlap do, moves its blocks as often as it takes to carry all of its elements.

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
from simulator.tileprogram.program import I64, Space, TileProgram

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
    """Number of places of each dim; B x dims."""
    strides: I64
    """Bytes between these."""

    @property
    def bytes(self) -> I64:
        return self.extents.prod(1) * self.run

    @property
    def span(self) -> I64:
        """Bytes from the first of them to the last."""
        return ((self.extents - 1) * self.strides).sum(1) + self.run


def storage_elements(grid: Grid, matrices: int, block: Tile) -> int:
    """Elements of a tensor in blocks, padding included."""
    return matrices * -(-grid.rows // block.rows) * -(-grid.columns // block.columns) * block.rows * block.columns


def covered(program: TileProgram, operands: I64, grids: Grids, machine: Machine) -> Covered | None:
    """The blocks that the boxes of these operands touch; None where all tensors lie row after row.

    It is all of them, and no others for a box that steps by ones along columns, rows and matrices. One that goes on in
    the next row has all columns, one that goes on in the next matrix all rows.
    """
    block = machine.dram_block
    if block is None or not any(grids):
        return None
    known = np.array([(grid.rows, grid.columns) if grid else (0, 0) for grid in (*grids, None)], np.int64)
    there = program.space[operands] == Space.DRAM
    tensors = np.where(there, program.target[operands], -1)
    tiled = known[tensors, 0] > 0
    rows, columns = np.maximum(known[tensors, 0], 1), np.maximum(known[tensors, 1], 1)
    box = _Box.of(program, operands, rows, columns)
    first: I64 = box.place % columns
    last: I64 = first + (box.more * box.column_steps).sum(1)
    top: I64 = box.place // columns % rows
    bottom: I64 = top + (box.more * box.row_steps).sum(1) + last // columns
    beyond: I64 = bottom // rows + np.where(box.whole, 0, box.more * box.matrix_steps).sum(1)
    in_rows, in_matrix = last < columns, beyond == 0
    skips, apart = _skipped_rows(box, block, in_rows & in_matrix)
    bottom = np.where(skips > 1, top, bottom)
    first, last = np.where(in_rows, first, 0), np.where(in_rows, last, columns - 1)
    top, bottom = np.where(in_matrix, top, 0), np.where(in_matrix, bottom, rows - 1)
    wide, high = last // block.columns - first // block.columns + 1, bottom // block.rows - top // block.rows + 1
    size = block.rows * block.columns * program.element_bytes[operands].astype(np.int64)
    of_row = -(-columns // block.columns) * size
    of_matrix = -(-rows // block.rows) * of_row
    is_run = wide * size == of_row
    matrices, between, gathered = _matrices(box, beyond)
    distinct = matrices.prod(1) * gathered * skips * high * wide * size
    asked = program.shape[operands].prod(1) * program.element_bytes[operands]
    ends = (
        (-(-asked // distinct), np.zeros_like(size)),
        (gathered, of_matrix),
        (skips, apart * of_row),
        (np.where(is_run, 1, high), of_row),
    )
    return Covered(
        tiled,
        first=box.place // (rows * columns) * of_matrix + top // block.rows * of_row + first // block.columns * size,
        run=wide * np.where(is_run, high, 1) * size,
        extents=np.column_stack([matrices, *(count for count, _ in ends)]),
        strides=np.column_stack([between * of_matrix[:, None], *(stride for _, stride in ends)]),
    )


class _Box(NamedTuple):
    """Boxes, an entry each, and the steps of each of their dims: so many matrices, rows and columns."""

    place: I64
    """Of the lowest element."""
    more: I64
    """Places along each dim after the first."""
    matrix_steps: I64
    row_steps: I64
    column_steps: I64
    whole: npt.NDArray[np.bool_]
    """Whether a dim steps by matrices alone."""

    @classmethod
    def of(cls, program: TileProgram, operands: I64, rows: I64, columns: I64) -> _Box:
        strides, more = program.strides[operands], program.shape[operands] - 1
        place = program.offset[operands] + (np.minimum(strides, 0) * more).sum(1)
        strides, wide, matrix = np.abs(strides), columns[:, None], (rows * columns)[:, None]
        whole = (strides > 0) & (strides % matrix == 0)
        return cls(place, more, strides // matrix, strides // wide % rows[:, None], strides % wide, whole)


def _skipped_rows(box: _Box, block: Tile, plain: npt.NDArray[np.bool_]) -> tuple[I64, I64]:
    """For `plain` boxes of one dim of rows, so far apart that whole blocks lie between: how many, how far apart."""
    moves = (box.row_steps > 0) & (box.more > 0)
    skipping = moves & (box.row_steps > block.rows) & (box.row_steps % block.rows == 0)
    skipping &= (box.column_steps == 0) & (box.matrix_steps == 0)
    lone = plain & (moves.sum(1) == 1) & skipping.any(1)
    count = np.where(lone, np.where(moves, box.more, 0).sum(1) + 1, 1)
    return count, np.where(lone, np.where(moves, box.row_steps, 0).sum(1) // block.rows, 0)


def _matrices(box: _Box, beyond: I64) -> tuple[I64, I64, I64]:
    """The matrices along each dim, how far apart, and the ones after each: itself, and those that a box goes on in.

    Dims are told apart where each steps beyond all that those with smaller steps meet. Others meet the same matrices,
    or those it goes on in: they have all from the first to the last.
    """
    each, steps = np.where(box.whole, box.more + 1, 1), np.where(box.whole, box.matrix_steps, 0)
    reach = steps * (each - 1)
    order = np.argsort(steps, axis=1)
    ends = np.cumsum(np.take_along_axis(reach, order, 1), 1)
    before = np.column_stack([np.zeros_like(beyond), ends[:, :-1]]) + beyond[:, None]
    sorted_steps = np.take_along_axis(np.where(each > 1, steps, np.iinfo(np.int64).max), order, 1)
    apart = np.all(sorted_steps > before, axis=1)
    matrices = np.where(apart[:, None], each, 1)
    return matrices, steps, np.where(apart, 0, reach.sum(1)) + beyond + 1
