"""DMA queues: what a copy asks of the memory.

A queue carries one copy at a time, from the cycle its first request leaves until its last byte has landed. A box in
DRAM is read or written in runs of contiguous bytes; the memory serves whole requests, so a run costs the bytes of
every request it touches. All runs are taken to lie relative to request borders as the first one does, which is exact
when the strides between runs are multiples of a request. A run that is walked backwards is the same bytes, and the
same requests.

    copy from or to DRAM      granted + max(request bytes / DRAM rate, bytes / queue rate) + latency      (see dram.py)
    copy within scratchpad    ceil(bytes / queue rate)

A queue is as wide as all lanes of the scratchpad together, and what is contiguous in DRAM lies along them (see
vector.py). So a row that fills only some lanes takes as long as one that fills all:

    bytes / queue rate        with the contiguous axis counted in whole rows of lanes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.machine import Machine
from simulator.program import I64, Opcode, Space, TileProgram


@dataclass(frozen=True, slots=True)
class Transfers:
    """One entry per instruction; 0 for those that move nothing."""

    bytes: I64
    """What the instruction moves."""
    request_bytes: I64
    """What the memory moves for it: whole requests; 0 within the scratchpad."""
    cycles: I64
    """At the queue's own rate."""


def transfers(program: TileProgram, addresses: Sequence[int], machine: Machine) -> Transfers:
    """What each copy of a program asks for, its arguments lying at `addresses`."""
    rows = len(program)
    moves = np.isin(program.opcode, [Opcode.LOAD, Opcode.STORE, Opcode.COPY])
    first = np.where(moves, program.operand_start[:-1], 0)
    stores = program.opcode == Opcode.STORE
    side = np.where(stores, first + 1, first)  # the operand in DRAM, if there is one
    if rows == 0 or not moves.any():
        zero = np.zeros(rows, np.int64)
        return Transfers(zero, zero, zero)
    size = program.element_bytes[side].astype(np.int64)
    moved = np.where(moves, program.shape[side].prod(1) * size, 0)
    in_dram = moves & (program.space[side] == Space.DRAM)
    padded = np.where(moves, _rows_of_lanes(program, side, machine) * machine.vector_lanes * size, 0)
    base = np.array([*addresses, 0], np.int64)[np.where(in_dram, program.target[side], -1)]
    shape, strides = program.shape[side], program.strides[side]
    lowest = program.offset[side] + (np.minimum(strides, 0) * (shape - 1)).sum(1)
    address = base + lowest * size
    run = np.where(contiguous(shape, np.abs(strides)), shape, 1).prod(1) * size
    request = machine.dram_request_bytes
    touched = (address % request + run + request - 1) // request * request
    runs = moved // np.maximum(run, 1)
    return Transfers(
        bytes=moved,
        request_bytes=np.where(in_dram, runs * touched, 0),
        cycles=-(-padded // machine.dma_bytes_per_cycle),
    )


def _rows_of_lanes(program: TileProgram, operand: I64, machine: Machine) -> I64:
    """Rows over all lanes that a box takes, its contiguous axis along them."""
    shape, strides = program.shape[operand], program.strides[operand]
    along = np.where(np.abs(strides) == 1, shape, 1).max(1)
    return -(-along // machine.vector_lanes) * (shape.prod(1) // np.maximum(along, 1))


def contiguous(shape: I64, strides: I64) -> npt.NDArray[np.bool_]:
    """The dims of each box that make up its contiguous runs: taken narrowest stride first, each continues the last."""
    narrow_first = np.argsort(np.where(shape == 1, 0, strides), axis=1, kind="stable")
    extents, steps = np.take_along_axis(shape, narrow_first, 1), np.take_along_axis(strides, narrow_first, 1)
    run, open_ = np.ones(len(shape), np.int64), np.ones(len(shape), np.bool_)
    inside = np.zeros(shape.shape, np.bool_)
    for dim in range(shape.shape[1]):
        open_ &= (extents[:, dim] == 1) | (steps[:, dim] == run)
        run = np.where(open_, run * extents[:, dim], run)
        inside[:, dim] = open_
    found = np.zeros_like(inside)
    np.put_along_axis(found, narrow_first, inside, 1)
    return found
