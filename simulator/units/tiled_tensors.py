"""Tensors that lie in DRAM in blocks: computes the bytes that a box of such a tensor covers.

On a machine with `dram_tile = "8x128"` a tensor of two and more dims is cut into blocks of 8 rows and 128 columns, each
of which lies together. Columns are the places along the axis with the smallest stride, rows the places along the next
axis; the last block along each is padded to a whole block. First come the blocks of the first row of blocks, then the
next rows of blocks, then the next matrix of rows and columns:

    bytes of a tensor    matrices * ceil(rows / 8) * ceil(columns / 128) * 8 * 128 * bytes of an element

A program gives its boxes as if tensors lay row after row; the grid of a launch's argument has the tensor's rows and
columns. A DMA moves all blocks that a box touches, each whole. So a narrow box costs the whole width of its blocks, and
blocks beside each other are one run, while row after row each of their rows would be a run. A box that asks for the
same elements several times, as overlapping windows do, moves its blocks as many times as carrying all elements takes.

Tensors of one dim lie in one row, as do tensors that are accessed by index or element by element.
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
    """The blocks that boxes touch, one entry per box: a run of contiguous bytes, repeated along some dims."""

    tiled: npt.NDArray[np.bool_]
    """True if the box's tensor lies in blocks; the other fields are valid only then."""
    first: I64
    """Bytes from the tensor's first byte to the first run."""
    run: I64
    """Bytes of each run."""
    extents: I64
    """B x dims: the number of places along each dim."""
    strides: I64
    """B x dims: the bytes from one place of a dim to the next."""

    @property
    def bytes(self) -> I64:
        return self.extents.prod(1) * self.run

    @property
    def span(self) -> I64:
        """Bytes from the first covered byte to the last, both included."""
        return ((self.extents - 1) * self.strides).sum(1) + self.run


def storage_elements(grid: Grid, matrices: int, block: Tile) -> int:
    """The number of elements of a tensor in blocks, padding included."""
    return matrices * -(-grid.rows // block.rows) * -(-grid.columns // block.columns) * block.rows * block.columns


def covered(program: TileProgram, operands: I64, grids: Grids, machine: Machine) -> Covered | None:
    """The blocks that the boxes of these operands touch; None if all tensors lie row after row.

    The result always has all touched blocks; it has no others if a box steps by ones along columns, rows and matrices.
    A box that goes on in the next row counts with all columns, a box that goes on in the next matrix with all rows.
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
    """Boxes, one entry per box; the step of each dim is split into matrices, rows and columns."""

    place: I64
    """The place of the lowest element."""
    more: I64
    """The number of places along each dim after the first."""
    matrix_steps: I64
    row_steps: I64
    column_steps: I64
    whole: npt.NDArray[np.bool_]
    """For each dim, True if it steps by whole matrices."""

    @classmethod
    def of(cls, program: TileProgram, operands: I64, rows: I64, columns: I64) -> _Box:
        strides, more = program.strides[operands], program.shape[operands] - 1
        place = program.offset[operands] + (np.minimum(strides, 0) * more).sum(1)
        strides, wide, matrix = np.abs(strides), columns[:, None], (rows * columns)[:, None]
        whole = (strides > 0) & (strides % matrix == 0)
        return cls(place, more, strides // matrix, strides // wide % rows[:, None], strides % wide, whole)


def _skipped_rows(box: _Box, block: Tile, plain: npt.NDArray[np.bool_]) -> tuple[I64, I64]:
    """For `plain` boxes with one dim of rows that skips whole blocks: the dim's places, and the blocks per step.

    1 and 0 for all other boxes.
    """
    moves = (box.row_steps > 0) & (box.more > 0)
    skipping = moves & (box.row_steps > block.rows) & (box.row_steps % block.rows == 0)
    skipping &= (box.column_steps == 0) & (box.matrix_steps == 0)
    lone = plain & (moves.sum(1) == 1) & skipping.any(1)
    count = np.where(lone, np.where(moves, box.more, 0).sum(1) + 1, 1)
    return count, np.where(lone, np.where(moves, box.row_steps, 0).sum(1) // block.rows, 0)


def _matrices(box: _Box, beyond: I64) -> tuple[I64, I64, I64]:
    """The places along each dim that steps by matrices, the matrices per step, and the matrices that follow each place.

    The following matrices are the place's own and those in which the box goes on. If a dim steps into matrices that
    dims of smaller steps meet too, the box has no dims of matrices: all matrices from the first to the last follow.
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
