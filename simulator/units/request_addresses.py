"""The addresses of each instruction's requests, in order, for a memory that takes requests one by one.

A copy walks its box in DRAM in runs of contiguous bytes. A loop of direct accesses walks several boxes in lockstep, one
element of each box per iteration. GATHER and SCATTER have a list of runs (see gather.py); a SCATTER that updates reads
and writes each run. A run is requested in whole requests, from the request with its first byte to that with its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.records.spans import Grid
from simulator.tileprogram.program import I64, Access, Opcode, Space, TileProgram
from simulator.units import gather
from simulator.units.dma import contiguous
from simulator.units.tiled_tensors import covered

_PIECE = 1 << 16
"""Boxes that are computed at once: with all boxes of a long program, the temporary arrays would be large."""


class Boxes(NamedTuple):
    """Boxes in DRAM, one entry per box: a run of contiguous bytes, repeated along the box's dims."""

    address: I64
    """The address of the first run."""
    run: I64
    """Bytes of each run."""
    writes: I64
    """1 if the box is written, 0 if it is read."""
    extents: I64
    """B x dims: the number of places along each dim, outermost first. All boxes of a launch have equally many dims."""
    strides: I64
    """B x dims: the bytes from one place of a dim to the next."""


class Runs(NamedTuple):
    """Runs of contiguous bytes, one entry per run."""

    address: I64
    size: I64
    ways: I64
    """1 if the run is read, 2 if it is written, 3 for both."""


class Walks(NamedTuple):
    """The boxes and runs that each instruction of a launch walks in DRAM."""

    box_start: I64
    """N + 1: where each instruction's boxes begin in `boxes`."""
    boxes: Boxes
    run_start: I64
    """N + 1: where each instruction's listed runs begin in `runs`."""
    runs: Runs


def no_walks() -> Walks:
    """Walks without any instruction."""
    nothing = np.zeros(0, np.int64)
    return Walks(np.zeros(1, np.int64), _joined([]), np.zeros(1, np.int64), Runs(nothing, nothing, nothing))


class Lie(NamedTuple):
    """The places of a launch's arguments in memory."""

    addresses: Sequence[int]
    grids: Sequence[Grid | None]
    machine: Machine


def walks(program: TileProgram, lie: Lie, listed: gather.Requests, asking: npt.NDArray[np.bool_]) -> Walks:
    """The walks of a launch of `program`; only instructions with `asking` access the memory.

    `lie` has the places of the arguments, `listed` the runs of GATHERs and SCATTERs.
    """
    rows = len(program)
    owner = np.repeat(np.arange(rows), np.diff(program.operand_start))
    opcode = program.opcode[owner]
    in_dram = program.space == Space.DRAM
    copied = np.isin(opcode, [Opcode.LOAD, Opcode.STORE])
    here = np.flatnonzero(in_dram & (copied | (opcode == Opcode.DIRECT)) & asking[owner])
    pieces = [
        _boxes(program, lie, here[first : first + _PIECE], copied[here[first : first + _PIECE]])
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
        Runs(listed.address.astype(np.int64), listed.size.astype(np.int64), ways[run_owner]),
    )


def _boxes(program: TileProgram, lie: Lie, operands: I64, copied: npt.NDArray[np.bool_]) -> Boxes:
    """The boxes of some operands, all with as many dims as the box with most."""
    size = program.element_bytes[operands].astype(np.int64)
    shape, strides = program.shape[operands], program.strides[operands]
    lowest = np.where(copied, (np.minimum(strides, 0) * (shape - 1)).sum(1), 0)  # backwards: the same bytes
    strides = np.where(copied[:, None], np.abs(strides), strides)
    inside = contiguous(shape, strides) & copied[:, None]  # the dims that one run covers
    extents, between = np.where(inside, 1, shape), strides * size[:, None]
    start, run = (program.offset[operands] + lowest) * size, np.where(inside, shape, 1).prod(1) * size
    blocks = covered(program, operands, lie.grids, lie.machine)
    if blocks is not None:
        tiled, more = blocks.tiled & copied, ((0, 0), (0, blocks.extents.shape[1] - extents.shape[1]))
        extents = np.where(tiled[:, None], blocks.extents, np.pad(extents, more, constant_values=1))
        between = np.where(tiled[:, None], blocks.strides, np.pad(between, more))
        start, run = np.where(tiled, blocks.first, start), np.where(tiled, blocks.run, run)
    dims = int((extents > 1).sum(1).max(initial=0))
    kept = np.argsort(extents > 1, axis=1, kind="stable")[:, extents.shape[1] - dims :]
    return Boxes(
        address=np.array([*lie.addresses, 0], np.int64)[program.target[operands]] + start,
        run=run,
        writes=((program.access[operands] & Access.WRITE) != 0).astype(np.int64),
        extents=np.take_along_axis(extents, kept, 1),
        strides=np.take_along_axis(between, kept, 1),
    )


def _joined(pieces: Sequence[Boxes]) -> Boxes:
    """Joins pieces of boxes; pads them to equally many dims with dims of one place."""
    nothing, dims = np.zeros(0, np.int64), max((piece.extents.shape[1] for piece in pieces), default=0)
    columns = [[nothing, nothing, nothing, nothing.reshape(0, dims), nothing.reshape(0, dims)]]
    for piece in pieces:
        more = (0, 0), (0, dims - piece.extents.shape[1])
        columns.append([*piece[:3], *(np.pad(column, more, constant_values=1) for column in piece[3:])])
    return Boxes(*map(np.concatenate, zip(*columns, strict=True)))
