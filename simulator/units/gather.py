"""GATHER and SCATTER: movements whose addresses are data.

Such an instruction walks its extent. At each point the values of its index operands, and the point itself, determine
the element of the memory operand, its last, that is read (GATHER) or written (SCATTER); see `program.Indexed`. If the
values are known, because the indices were loaded from a tensor whose numbers came with the launch, the addresses are
real. If not, for instance because an earlier kernel computes the indices, the values are drawn evenly from the valid
range, with a fixed seed, and the span is marked `assumed`.

    run        the points along which addresses are contiguous whatever the indices are: a row of an embedding
    requests   each run is requested by itself, in whole requests of the memory, even if the next run lies beside it:
               the queue does not compare indices
    update     a SCATTER that adds to the old elements reads each run and writes it: twice the bytes, twice the requests
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.errors import LaunchError
from simulator.machine.machine import Machine
from simulator.tileprogram.boxes import box_of, elements_of
from simulator.tileprogram.program import I64, Access, Indexed, Instruction, Opcode, Operand, Space, TileProgram

INDEXED = (Opcode.GATHER, Opcode.SCATTER)

Indices = Mapping[int, I64]
"""Argument -> the elements of its storage, from its base on."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The memory requests of a launch's GATHERs and SCATTERs, run by run."""

    start: I64
    """N + 1: where each instruction's runs begin."""
    address: I64
    """DRAM address of each run's first byte."""
    size: I64
    """Bytes of each run."""
    bytes: I64
    """N: bytes that each instruction moves; for an update, bytes read and written together."""
    read_bytes: I64
    request_bytes: I64
    """N: bytes that the memory moves for each instruction, in whole requests."""
    assumed: npt.NDArray[np.bool_]
    """N: True if the instruction's addresses are drawn, not known."""


def requests(program: TileProgram, addresses: Sequence[int], indices: Indices, machine: Machine) -> Requests:
    """The requests of each GATHER and SCATTER of a program with its arguments at `addresses`."""
    rows = len(program)
    moved, read, asked = (np.zeros(rows, np.int64) for _ in range(3))
    assumed = np.zeros(rows, np.bool_)
    counts = np.zeros(rows, np.int64)
    places, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    loaded = _Loaded(program)
    for row in np.flatnonzero(np.isin(program.opcode, INDEXED)).tolist():
        instruction, memory, indexed = _indexed(program, row)
        values, assumed[row] = _values(program, row, instruction, indexed, loaded, indices)
        place, run = _runs(instruction, memory, indexed, values)
        address, size = addresses[memory.target] + place * memory.element_bytes, run * memory.element_bytes
        request = machine.dram.request_bytes
        touched = (address % request + size + request - 1) // request
        reads, writes = bool(memory.access & Access.READ), bool(memory.access & Access.WRITE)
        ways = int(reads) + int(writes)
        counts[row], moved[row], read[row] = len(place), len(place) * size * ways, len(place) * size * reads
        asked[row] = int(touched.sum()) * request * ways
        places.append(address)
        sizes.append(np.full(len(place), size, np.int64))
    start = np.concatenate([[0], np.cumsum(counts)])
    return Requests(start, np.concatenate(places), np.concatenate(sizes), moved, read, asked, assumed)


def elements(program: TileProgram) -> I64:
    """Number of touched elements of each operand: one per point for the memory of a GATHER or SCATTER, else its box."""
    count = program.shape.prod(1)
    for row in np.flatnonzero(np.isin(program.opcode, INDEXED)).tolist():
        count[program.operand_start[row + 1] - 1] = program.extent[row].prod()
    return count


def _indexed(program: TileProgram, row: int) -> tuple[Instruction, Operand, Indexed]:
    """A GATHER or SCATTER, its memory operand, and the meaning of its indices."""
    instruction = program.instruction(row)
    indexed = program.ops[instruction.op].indexed
    assert indexed is not None, "the verifier lets no other through"
    return instruction, instruction.operands[-1], indexed


def _runs(instruction: Instruction, memory: Operand, indexed: Indexed, values: Sequence[I64]) -> tuple[I64, int]:
    """The first element of each run, counted from the base of the argument's storage, and the elements of each run."""
    rank = len(instruction.extent)
    steps = _steps(instruction, memory, indexed)
    place = np.full((1,) * rank, memory.offset, np.int64)
    for axis, (code, stride) in enumerate(zip(indexed.axes, memory.strides, strict=True)):
        if code >= 0:
            continue
        value = _wrapped(values[-1 - code], memory.shape[axis], wraps=indexed.wraps)
        place = place + stride * along(value, indexed.index_dims[-1 - code], rank)
    run, inside = _together(instruction, steps, indexed)
    for dim in set(range(rank)) - inside:
        place = place + steps[dim] * along(np.arange(instruction.extent[dim]), (dim,), rank)
    shape = [1 if dim in inside else extent for dim, extent in enumerate(instruction.extent)]
    return np.broadcast_to(place, shape).ravel(), run


def _steps(instruction: Instruction, memory: Operand, indexed: Indexed) -> list[int]:
    """For each dim of the extent, the memory's elements from one place to the next; 0 for dims of indices alone."""
    steps = [0] * len(instruction.extent)
    for code, stride in zip(indexed.axes, memory.strides, strict=True):
        if code >= 0:
            steps[code] += stride
    return steps


def _together(instruction: Instruction, steps: Sequence[int], indexed: Indexed) -> tuple[int, set[int]]:
    """The number of elements that lie together whatever the indices are, and the dims of the extent that walk them."""
    extent, chosen = instruction.extent, {dim for dims in indexed.index_dims for dim in dims}
    run, inside = 1, set[int]()
    for dim in sorted(set(range(len(extent))) - chosen, key=lambda dim: steps[dim]):
        if extent[dim] == 1 or steps[dim] == run:
            run *= extent[dim]
            inside.add(dim)
    return run, inside


def run_bytes(program: TileProgram) -> I64:
    """Bytes of each run of a GATHER or a SCATTER; 0 for all other instructions."""
    found = np.zeros(len(program), np.int64)
    for row in np.flatnonzero(np.isin(program.opcode, INDEXED)).tolist():
        instruction, memory, indexed = _indexed(program, row)
        found[row] = _together(instruction, _steps(instruction, memory, indexed), indexed)[0] * memory.element_bytes
    return found


def along(value: I64, dims: Sequence[int], rank: int) -> I64:
    """Reshapes an array whose axes walk `dims` to `rank` axes, so that it broadcasts along the other dims."""
    ordered = value.transpose(np.argsort(dims).tolist())
    return ordered[tuple(slice(None) if dim in dims else None for dim in range(rank))]


def _wrapped(value: I64, extent: int, *, wraps: bool) -> I64:
    return np.where(value < 0, value + extent, value) if wraps else value


def _values(
    program: TileProgram, row: int, instruction: Instruction, indexed: Indexed, loaded: _Loaded, indices: Indices
) -> tuple[list[I64], bool]:
    """The values of each index operand, and True if some are drawn."""
    found: list[I64] = []
    assumed = False
    for number, dims in enumerate(indexed.index_dims):
        operand = instruction.operands[number]
        source = loaded.source(row, operand)
        shape = zip(indexed.axes, instruction.operands[-1].shape, strict=True)
        extent = min(places for code, places in shape if code == -1 - number)
        if source is None or source.target not in indices:
            drawn = np.random.default_rng((row, number)).integers(0, extent, operand.shape)
            found.append(drawn.astype(np.int64).reshape(tuple(instruction.extent[dim] for dim in dims)))
            assumed = True
            continue
        value = indices[source.target][elements_of(source)].reshape(tuple(instruction.extent[dim] for dim in dims))
        low = -extent if indexed.wraps else 0
        if value.size and not low <= value.min() <= value.max() < extent:
            raise LaunchError(
                f"instruction {row} of {program.kernel!r} is given indices from {value.min()} to {value.max()} into "
                f"{program.arguments[instruction.operands[-1].target].name!r}, which has {extent} places there"
            )
        found.append(value)
    return found, assumed


class _Loaded:
    """Finds the box of DRAM from which a scratchpad box was loaded, unless the scratchpad box was written since."""

    def __init__(self, program: TileProgram) -> None:
        self._program = program
        self._writes: dict[tuple[int, int], list[int]] = {}
        owner = program.owners()
        written = (program.space == Space.SCRATCHPAD) & ((program.access & Access.WRITE) != 0)
        indexed = np.isin(program.opcode, INDEXED)
        for operand in np.flatnonzero(written).tolist() if indexed.any() else ():
            place = int(program.target[operand]), int(program.slot[operand])
            self._writes.setdefault(place, []).append(int(owner[operand]))

    def source(self, row: int, operand: Operand) -> Operand | None:
        if operand.space == Space.DRAM:
            return operand
        earlier = [each for each in self._writes.get((operand.target, operand.slot), ()) if each < row]
        if not earlier or self._program.opcode[earlier[-1]] != Opcode.LOAD:
            return None
        source, target = self._program.instruction(earlier[-1]).operands
        return source if box_of(target) == box_of(operand) else None
