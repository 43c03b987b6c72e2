"""The requests of each instruction to a memory that takes them one by one: their addresses, in order.

A copy walks its box in DRAM in runs of contiguous bytes. A loop of direct accesses walks several boxes in lockstep, an
element of each an iteration. GATHER and SCATTER have a list of runs (see gather.py); one that updates reads and writes
each. A run is asked for in whole requests, from the one its first byte lies in to that of its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.program import I64, Access, Opcode, Space, TileProgram
from simulator.units import gather
from simulator.units.dma import contiguous

ADDRESS, RUN, WRITES, EXTENTS, STRIDES = 0, 1, 2, 3, 4
"""Columns of a box; the last two come again for each of its dims, of which all boxes of a launch have as many."""

_PIECE = 1 << 16
"""Boxes that are computed at once: the temporary arrays of a long program would be large."""


class Walks(NamedTuple):
    """The walks of all instructions of a launch."""

    box_start: I64
    """N + 1: the boxes of each instruction."""
    box: I64
    """Of each box: address of its first run, bytes of a run, 1 if it is written; of each dim that its runs are spread
    over, how many places it has and the bytes between them."""
    run_start: I64
    """N + 1: the listed runs of each instruction."""
    run: I64
    """Of each listed run: address, bytes, and whether it is read (1), written (2) or both."""


def no_walks() -> Walks:
    """The walks of no instruction."""
    zeros = np.zeros((0, 0), np.int64)
    return Walks(np.zeros(1, np.int64), zeros, np.zeros(1, np.int64), zeros)


def walks(
    program: TileProgram, addresses: Sequence[int], listed: gather.Requests, asking: npt.NDArray[np.bool_]
) -> Walks:
    """The walks of a launch of `program` with its arguments at `addresses`: of those instructions that are `asking`."""
    rows = len(program)
    owner = np.repeat(np.arange(rows), np.diff(program.operand_start))
    opcode = program.opcode[owner]
    in_dram = program.space == Space.DRAM
    copied = np.isin(opcode, [Opcode.LOAD, Opcode.STORE])
    here = np.flatnonzero(in_dram & (copied | (opcode == Opcode.DIRECT)) & asking[owner])
    pieces = [
        _boxes(program, addresses, here[first : first + _PIECE], copied[here[first : first + _PIECE]])
        for first in range(0, len(here), _PIECE)
    ]
    ways = np.zeros(rows, np.int64)
    for row in np.flatnonzero(np.diff(listed.start)).tolist():
        access = program.access[program.operand_start[row + 1] - 1]
        ways[row] = (1 if access & Access.READ else 0) + (2 if access & Access.WRITE else 0)
    run_owner = np.repeat(np.arange(rows), np.diff(listed.start))
    return Walks(
        np.searchsorted(owner[here], np.arange(rows + 1)).astype(np.int64),
        _joined(pieces),
        listed.start,
        np.stack([listed.address, listed.size, ways[run_owner]], axis=1).astype(np.int64).reshape(-1, 3),
    )


def _boxes(program: TileProgram, addresses: Sequence[int], operands: I64, copied: npt.NDArray[np.bool_]) -> I64:
    """The boxes of some operands, with as many dims as the one of them that has most."""
    size = program.element_bytes[operands].astype(np.int64)
    shape, strides = program.shape[operands], program.strides[operands]
    lowest = np.where(copied, (np.minimum(strides, 0) * (shape - 1)).sum(1), 0)  # backwards is the same bytes
    strides = np.where(copied[:, None], np.abs(strides), strides)
    inside = contiguous(shape, strides) & copied[:, None]  # what one run covers
    extents = np.where(inside, 1, shape)
    dims = int((extents > 1).sum(1).max(initial=0))
    kept = np.argsort(extents > 1, axis=1, kind="stable")[:, extents.shape[1] - dims :]
    box = np.zeros((len(operands), EXTENTS + 2 * dims), np.int64)
    box[:, ADDRESS] = np.array([*addresses, 0], np.int64)[program.target[operands]]
    box[:, ADDRESS] += (program.offset[operands] + lowest) * size
    box[:, RUN] = np.where(inside, shape, 1).prod(1) * size
    box[:, WRITES] = (program.access[operands] & Access.WRITE) != 0
    box[:, EXTENTS::2] = np.take_along_axis(extents, kept, 1)
    box[:, STRIDES::2] = np.take_along_axis(strides, kept, 1) * size[:, None]
    return box


def _joined(pieces: Sequence[I64]) -> I64:
    """All boxes, with as many dims as those that have most: a dim of one place more is none."""
    box = np.ones((sum(map(len, pieces)), max((piece.shape[1] for piece in pieces), default=EXTENTS)), np.int64)
    first = 0
    for piece in pieces:
        box[first : first + len(piece), : piece.shape[1]] = piece
        first += len(piece)
    return box
