"""DMA queues: the cost of a copy.

A queue carries one copy at a time, from the cycle in which its first request leaves until its last byte has landed. A
box in DRAM is read or written in runs of contiguous bytes; the memory serves whole requests, so a run costs the bytes
of every request that it touches. All runs are assumed to lie relative to request borders as the first one does, which
is exact if the strides between runs are multiples of a request. A run that is walked backwards has the same bytes and
requests. Along an axis of stride 0, a broadcast, the same runs are fetched again for each place.

    copy from or to DRAM      granted + max(request bytes / DRAM rate, bytes / queue rate) + latency
    copy within scratchpad    bytes / queue rate

memory/dram.py decides when a copy is granted the memory, and how long the memory takes to answer.

A queue moves in a cycle at most its width in bytes, and only bytes that lie side by side at both ends. So each stretch
of such bytes begins in a cycle of its own:

    bytes / queue rate        stretches * ceil(bytes of each / width)

The number of lanes within the width does not matter: a partly filled row of lanes takes the cycles of the bytes it
moves. A vector pass works on rows along the lanes (see vector.py). So in a buffer that some pass touches, the axis that
is contiguous in DRAM lies along the lanes; each of its rows begins at the first lane and is a stretch. In any other
buffer the bytes lie as they come, and a stretch is as long as the run: weights of 3 x 3 places are one stretch.

A buffer lies in one way. A copy from or to a tensor whose contiguous axis is another is a transpose: only single
elements lie side by side at both ends, so it moves one element per cycle. (`assumed`: nobody published the time of such
a copy, and no measured kernel only transposes. Products take operands along either axis, since an array may be fed
with both.)

Of a tensor that lies in blocks (tiled_tensors.py) whole blocks are moved, padding included. A block has the shape of a
vector over all lanes, so it is moved as it lies: a stretch is as long as a run of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.records.spans import Grid
from simulator.tileprogram.program import I64, Opcode, Space, TileProgram
from simulator.units.tiled_tensors import covered
from simulator.units.unit import Costs, Does, Part, Unit


@dataclass(frozen=True, slots=True)
class Transfers:
    """The transfers of a program: one entry per instruction, 0 for instructions that move nothing."""

    bytes: I64
    """Bytes that the instruction moves."""
    request_bytes: I64
    """Bytes that the memory moves for the instruction, in whole requests; 0 within the scratchpad."""
    cycles: I64
    """Cycles at the queue's own rate."""
    run: I64
    """Bytes of each run that lies together in DRAM."""
    stretch: I64
    """Bytes of each stretch that lies side by side at both ends; a queue moves bytes of one stretch per cycle."""


def transfers(
    program: TileProgram,
    addresses: Sequence[int],
    machine: Machine,
    in_rows: npt.NDArray[np.bool_],
    grids: Sequence[Grid | None] = (),
) -> Transfers:
    """The cost of each copy of a program with its arguments at `addresses`; `in_rows` as the function of this name."""
    rows = len(program)
    moves = np.isin(program.opcode, [Opcode.LOAD, Opcode.STORE, Opcode.COPY])
    first = np.where(moves, program.operand_start[:-1], 0)
    stores = program.opcode == Opcode.STORE
    side = np.where(stores, first + 1, first)  # the operand in DRAM, if there is one
    if rows == 0 or not moves.any():
        zero = np.zeros(rows, np.int64)
        return Transfers(zero, zero, zero, zero, zero)
    size = program.element_bytes[side].astype(np.int64)
    moved = np.where(moves, program.shape[side].prod(1) * size, 0)
    in_dram = moves & (program.space[side] == Space.DRAM)
    base = np.array([*addresses, 0], np.int64)[np.where(in_dram, program.target[side], -1)]
    shape, strides = program.shape[side], program.strides[side]
    lowest = program.offset[side] + (np.minimum(strides, 0) * (shape - 1)).sum(1)
    address = base + lowest * size
    run = np.where(contiguous(shape, np.abs(strides)), shape, 1).prod(1) * size
    request = machine.dram.request_bytes
    touched = (address % request + run + request - 1) // request * request
    runs = moved // np.maximum(run, 1)
    stretch = np.maximum(_stretches(program, np.where(moves, first, 0), side, in_rows) * size, 1)
    asked, carried = runs * touched, moved
    blocks = covered(program, side, grids, machine)
    if blocks is not None:
        run, stretch = np.where(blocks.tiled, blocks.run, run), np.where(blocks.tiled, blocks.run, stretch)
        asked = np.where(blocks.tiled, -(-blocks.bytes // request) * request, asked)
        carried = np.where(blocks.tiled, blocks.bytes, moved)
    return Transfers(
        bytes=moved,
        request_bytes=np.where(in_dram, asked, 0),
        cycles=np.where(moves, carried // stretch * -(-stretch // machine.dma.bytes_per_cycle), 0),
        run=np.where(in_dram, run, 0),
        stretch=np.where(moves, stretch, 0),
    )


def estimate(
    moved: float, run: int, apart: int, stretch: int, element_bytes: int, machine: Machine
) -> tuple[float, float]:
    """Estimates the bytes of a copy's requests and its cycles at the queue's rate, before there is an instruction.

    The copy's runs begin `apart` bytes from each other. If `apart` is no multiple of a request, the number of requests
    is the mean over all places where a run can begin.
    """
    request = machine.dram.request_bytes
    touched = math.ceil(run / request)
    if run < apart and apart % request:
        touched = 1 + (run - element_bytes) / request
    return moved / run * touched * request, moved / stretch * -(-stretch // machine.dma.bytes_per_cycle)


def in_rows(program: TileProgram) -> npt.NDArray[np.bool_]:
    """For each buffer, True if a vector pass touches it, so that its rows lie along the lanes."""
    owner = program.owners()
    passes = (program.opcode[owner] == Opcode.VECTOR) & (program.space == Space.SCRATCHPAD)
    found: npt.NDArray[np.bool_] = np.bincount(program.target[passes], minlength=len(program.buffers)) > 0
    return found


def _stretches(program: TileProgram, first: I64, side: I64, in_rows: npt.NDArray[np.bool_]) -> I64:
    """Elements of a stretch of each copy; `first` is its first operand, `side` its operand in DRAM, if it has one."""
    other = np.where(side == first, first + 1, first)
    shape, strides = program.shape[side], program.strides[side]
    along: I64 = np.where(np.abs(strides) == 1, shape, 1).max(1)
    alike = (strides == program.strides[other]) & (program.shape[other] == shape).all(1)[:, None]
    common = contiguous(shape, np.where(alike, strides, np.iinfo(np.int64).max))
    nowhere = len(in_rows)
    buffer = np.where(program.space[other] == Space.SCRATCHPAD, program.target[other], nowhere)
    near: npt.NDArray[np.bool_] = np.concatenate([in_rows, np.zeros(1, np.bool_)])[buffer]
    together: I64 = np.where(common, shape, 1).prod(1)
    lane = _lane_strides(program, side, other, in_rows)[buffer]
    same_way = (program.strides[other] == lane[:, None]) & (np.abs(strides) <= 1)  # stride 0: one element fills the row
    turned = (lane > 0) & ~(same_way & (shape > 1)).any(1)
    along = np.where(lane > 0, np.where(same_way, shape, 1).max(1), along)
    return np.maximum(along, np.where(near | turned, 1, together))


def _lane_strides(program: TileProgram, side: I64, other: I64, in_rows: npt.NDArray[np.bool_]) -> I64:
    """For each buffer, the stride of its axis along the lanes; 0 if no copy determines the axis, and in a last entry.

    The axis is the contiguous one of the first tensor that is copied to or from the buffer; if no vector pass touches
    the buffer, that of the first tensor that is stored from it.
    """
    along = (np.abs(program.strides[side]) == 1) & (program.shape[side] > 1)
    says = along.any(1) & (program.space[side] == Space.DRAM) & (program.space[other] == Space.SCRATCHPAD)
    says &= np.isin(program.opcode, [Opcode.LOAD, Opcode.STORE])
    rows = np.flatnonzero(says)
    buffers = program.target[other[rows]]
    leaves = (program.opcode[rows] == Opcode.STORE) & ~in_rows[buffers]
    axis = program.shape.shape[1] - 1 - along[rows, ::-1].argmax(1)
    strides = program.strides[other[rows], axis]
    found = np.zeros(len(in_rows) + 1, np.int64)
    for chosen in (np.flatnonzero(~leaves)[::-1], np.flatnonzero(leaves)[::-1]):
        found[buffers[chosen]] = strides[chosen]  # in reverse order: the first copy is written last and stays
    return found


def contiguous(shape: I64, strides: I64) -> npt.NDArray[np.bool_]:
    """For each box, True for the dims that make up its contiguous runs.

    Dims are taken narrowest stride first; a dim belongs to the run if it continues the run so far. A dim of stride 0, a
    broadcast, continues no run.
    """
    strides = np.where(strides == 0, np.iinfo(np.int64).max, strides)
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


def _costs(part: Part) -> Costs:
    """The costs of copies. gather.py computes those of GATHERs and SCATTERs, once for the whole program."""
    copies, opcode = transfers(*part[:2], part.machine, part.in_rows, part.grids), part.program.opcode
    return Costs(
        copies.cycles,
        moved=copies.bytes,
        read=np.where(opcode == Opcode.LOAD, copies.bytes, 0),
        written=np.where(opcode == Opcode.STORE, copies.bytes, 0),
        requested=copies.request_bytes,
    )


_ON_THE_WAY = ("transfer", "latency")

UNIT = Unit(
    name="DMA",
    lane="dma",
    numbered=True,
    does={
        Opcode.LOAD: Does("load", "load", _ON_THE_WAY),
        Opcode.STORE: Does("store", "store", _ON_THE_WAY),
        Opcode.COPY: Does("copy", "copy"),
        Opcode.GATHER: Does("gather", "load", _ON_THE_WAY),
        Opcode.SCATTER: Does("scatter", "store", _ON_THE_WAY),
    },
    costs=_costs,
    how_many=lambda machine: machine.dma.queues,
    asks_memory=True,
    own_clock=False,
)
