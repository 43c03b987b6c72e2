"""What each instruction asks of a memory that takes requests one by one: their addresses, in order.

A copy walks its box in DRAM in runs of contiguous bytes. A loop of direct accesses walks several boxes in lockstep, an
element of each an iteration. GATHER and SCATTER have a list of runs (see indexed.py); one that updates reads and writes
each. A run is asked for in whole requests, from the one its first byte lies in to that of its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator import indexed
from simulator.dma import contiguous
from simulator.program import I64, Access, Opcode, Space, TileProgram

ADDRESS, RUN, WRITES, EXTENTS, STRIDES, _BOX = 0, 1, 2, 3, 8, 13
DIMS = 5


class Walks(NamedTuple):
    """The walks of all instructions of a launch."""

    box_start: I64
    """N + 1: the boxes of each instruction."""
    box: I64
    """Of each box: address of its first run, bytes of a run, 1 if it is written, extents and strides of its runs."""
    run_start: I64
    """N + 1: the listed runs of each instruction."""
    run: I64
    """Of each listed run: address, bytes, and whether it is read (1), written (2) or both."""


def no_walks() -> Walks:
    """Of no instruction."""
    zeros = np.zeros((0, 0), np.int64)
    return Walks(np.zeros(1, np.int64), zeros, np.zeros(1, np.int64), zeros)


def walks(
    program: TileProgram, addresses: Sequence[int], listed: indexed.Requests, asking: npt.NDArray[np.bool_]
) -> Walks:
    """The walks of a launch of `program` with its arguments at `addresses`: of those instructions that are `asking`."""
    rows = len(program)
    owner = np.repeat(np.arange(rows), np.diff(program.operand_start))
    opcode = program.opcode[owner]
    in_dram = program.space == Space.DRAM
    copied = np.isin(opcode, [Opcode.LOAD, Opcode.STORE])
    here = np.flatnonzero(in_dram & (copied | (opcode == Opcode.DIRECT)) & asking[owner])
    size = program.element_bytes[here].astype(np.int64)
    shape, strides = program.shape[here], program.strides[here]
    lowest = np.where(copied[here], (np.minimum(strides, 0) * (shape - 1)).sum(1), 0)  # backwards is the same bytes
    strides = np.where(copied[here, None], np.abs(strides), strides)
    inside = contiguous(shape, strides) & copied[here, None]  # what one run covers
    base = np.array([*addresses, 0], np.int64)[program.target[here]]
    box = np.zeros((len(here), _BOX), np.int64)
    box[:, ADDRESS] = base + (program.offset[here] + lowest) * size
    box[:, RUN] = np.where(inside, shape, 1).prod(1) * size
    box[:, WRITES] = (program.access[here] & Access.WRITE) != 0
    box[:, EXTENTS : EXTENTS + DIMS] = np.where(inside, 1, shape)
    box[:, STRIDES : STRIDES + DIMS] = strides * size[:, None]
    ways = np.zeros(rows, np.int64)
    for row in np.flatnonzero(np.diff(listed.start)).tolist():
        access = program.access[program.operand_start[row + 1] - 1]
        ways[row] = (1 if access & Access.READ else 0) + (2 if access & Access.WRITE else 0)
    run_owner = np.repeat(np.arange(rows), np.diff(listed.start))
    return Walks(
        np.searchsorted(owner[here], np.arange(rows + 1)).astype(np.int64),
        box,
        listed.start,
        np.stack([listed.address, listed.size, ways[run_owner]], axis=1).astype(np.int64).reshape(-1, 3),
    )
