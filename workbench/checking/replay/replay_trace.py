"""A tile program executed in the order of its trace, on real memory: the proof that the timeline could have happened.

DRAM is each argument's storage. The scratchpad of a core is an array of bytes, addressed the way the program addresses
it, so a wrong offset, a slot too few or an address reused too early overwrites live data. An instruction reads its
operands when it starts, and its results appear when it ends. The MLIR op that the instruction names defines the
computation, and not the opcode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.boxes import box_of, overlap
from simulator.tileprogram.program import Access, DependenceKind, Instruction, Opcode, Operand, Space, TileProgram
from simulator.units.gather import INDEXED
from workbench.checking.replay.numpy_elementwise import Array, Element
from workbench.checking.replay.numpy_gathers import ChosenOp, read_chosen
from workbench.checking.replay.numpy_linalg import AccessLoop, LinalgOp, read_loops, read_ops
from workbench.ground.environment.progress import counted
from workbench.ground.errors import ReplayError
from workbench.ir import ScheduledKernel

_MOVED_OR_COMPUTED = (Opcode.LOAD, Opcode.STORE, Opcode.COPY, Opcode.MATMUL, Opcode.VECTOR, Opcode.DIRECT, *INDEXED)
_POISON = 0xFF
"""The value of unwritten scratchpad bytes: as a float of any width these bytes are not a number."""
_MOST_BYTES = 8 << 30
"""The most bytes that the scratchpads of all cores may have together, since they are really allocated. A core of a
shipped machine has less than a hundredth of this."""


def replay(
    kernel: ScheduledKernel,
    storages: Sequence[npt.NDArray[np.generic]],
    starts: Iterable[int],
    ends: Iterable[int],
) -> None:
    """Runs the kernel's program in time order, writing into the storages of its outputs.

    `storages` are the flat storages of the arguments, offsets included (bf16 as uint16); `starts` and `ends` give
    the cycles in which each instruction reads its operands and in which its results are complete (`start` and `done`
    of a trace's spans). An instruction that starts at the cycle in which another ends sees its results.
    """
    program = kernel.program
    machine = _Memory(program, storages)
    text, name = kernel.mlir, kernel.kernel
    ops = _Ops(read_ops(text, name), read_loops(text, name), read_chosen(text, name))
    pending: dict[int, _Pending] = {}
    for index, ending in counted(_events(list(starts), list(ends))):
        instruction = program.instruction(index)
        if instruction.opcode == Opcode.BARRIER:
            continue
        if ending:
            pending.pop(index).commit(machine)
        else:
            pending[index] = _begin(program, index, instruction, machine, ops)


def _events(starts: list[int], ends: list[int]) -> list[tuple[int, bool]]:
    """Every start and end in time order, as (instruction, True for an end).

    In one cycle ends come before starts. An instruction that takes no time starts and ends at once, among the starts,
    in program order.
    """
    if any(end < start for start, end in zip(starts, ends, strict=True)):
        raise ReplayError("an instruction ends before it starts")
    keys: list[tuple[int, bool, int, bool]] = []
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        keys += [(start, True, index, False), (end, start == end, index, True)]
    return [(index, ending) for _, _, index, ending in sorted(keys)]


class _Memory:
    """The storages and the scratchpad, read and written by operand boxes."""

    def __init__(self, program: TileProgram, storages: Sequence[npt.NDArray[np.generic]]) -> None:
        if len(storages) != len(program.arguments):
            raise ReplayError(f"{program.kernel} takes {len(program.arguments)} storages, {len(storages)} were given")
        self._program = program
        self._storages = storages
        cores = {buffer.core for buffer in program.buffers}
        if len(cores) * program.scratchpad_bytes > _MOST_BYTES:
            raise ReplayError(
                f"{program.kernel} uses {program.scratchpad_bytes:,} bytes of scratchpad, on {len(cores)} "
                f"core{'s' * (len(cores) != 1)}; "
                f"at most {_MOST_BYTES:,} in all can be replayed. Check with fewer vector_lanes, since rows are "
                "padded, or without stage='simulated'"
            )
        self._scratchpads = {core: np.full(program.scratchpad_bytes, _POISON, np.uint8) for core in cores}

    def read(self, operand: Operand, element: Element) -> Array:
        return element.from_memory(self._box(operand, element).copy())

    def write(self, operand: Operand, element: Element, values: Array) -> None:
        self._box(operand, element)[...] = element.to_memory(values)

    def begun(self, operand: Operand, element: Element) -> Array:
        """The contents of an operand when its instruction starts. An operand that is only written has the poison of
        unwritten bytes, so that no use of it stays unnoticed."""
        if operand.access != Access.WRITE:
            return self.read(operand, element)
        empty = np.full((*operand.shape, element.memory.itemsize), _POISON, np.uint8)
        return element.from_memory(empty.view(element.memory)[..., 0])

    def _box(self, operand: Operand, element: Element) -> Array:
        """The operand's elements in their memory, as an array that can be written."""
        if operand.element_bytes != element.memory.itemsize:
            raise ReplayError(f"an operand of {operand.element_bytes} byte elements is {element.name} in the MLIR")
        if operand.space == Space.DRAM:
            memory, start = self._storages[operand.target], 0
        else:
            buffer = self._program.buffers[operand.target]
            memory, start = self._scratchpads[buffer.core], buffer.offset + operand.slot * buffer.slot_bytes
        strides = [stride * operand.element_bytes for stride in operand.strides]
        reach = sum((extent - 1) * stride for extent, stride in zip(operand.shape, strides, strict=True))
        start += operand.offset * operand.element_bytes
        if 0 in operand.shape:
            return np.empty(operand.shape, element.memory)
        if start < 0 or start + reach + operand.element_bytes > memory.nbytes:
            raise ReplayError(f"{operand} reaches past its memory of {memory.nbytes} bytes")
        return np.ndarray(operand.shape, element.memory, memory.data, start, strides)


@dataclass(frozen=True, slots=True)
class _Pending:
    """Results that appear when their instruction ends; `late` ones are then added to the old contents."""

    operands: tuple[Operand, ...]
    elements: tuple[Element, ...]
    values: tuple[Array, ...]
    late: bool

    def commit(self, memory: _Memory) -> None:
        for operand, element, values in zip(self.operands, self.elements, self.values, strict=True):
            old = memory.read(operand, element) if self.late else 0
            memory.write(operand, element, values + old if self.late else values)


@dataclass(frozen=True, slots=True)
class _Ops:
    """The ops on the lines of a kernel's text."""

    linalg: dict[int, LinalgOp]
    loops: dict[int, AccessLoop]
    chosen: dict[int, ChosenOp]


def _begin(program: TileProgram, index: int, instruction: Instruction, memory: _Memory, ops: _Ops) -> _Pending:
    """Reads an instruction's operands and computes its results."""
    info = program.ops[instruction.op]
    if instruction.opcode not in _MOVED_OR_COMPUTED:
        raise ReplayError(f"instruction {index} is a {instruction.opcode.name}: replay cannot execute these yet")
    begin = _begin_op
    if instruction.opcode == Opcode.DIRECT:
        begin = _begin_loop
    elif instruction.opcode in INDEXED:
        begin = _begin_chosen
    try:
        return begin(info.line, instruction, memory, ops)
    except ReplayError as error:
        raise ReplayError(f"instruction {index}, {info.name} at line {info.line}: {error}") from None


def _begin_op(line: int, instruction: Instruction, memory: _Memory, ops: _Ops) -> _Pending:
    """Begins a linalg op or a copy: computes the new contents of its outputs."""
    if line not in ops.linalg:
        raise ReplayError("it names a line where there is no linalg op")
    op = ops.linalg[line]
    _check_operands(instruction, op.elements)
    # A matmul that follows another into the same accumulator streams behind it: the first one's sums are added at the
    # end, where the second one's come out, not when it starts.
    chained = any(kind == DependenceKind.ACCUMULATE for _, kind in instruction.dependences)
    late = chained and instruction.accumulates
    from_zero = late or (instruction.opcode == Opcode.MATMUL and not instruction.accumulates)
    first = len(op.elements) - op.outputs
    tiles: list[Array] = []
    for position, (operand, element) in enumerate(zip(instruction.operands, op.elements, strict=True)):
        if from_zero and position >= first:
            tiles.append(np.zeros(operand.shape, element.values))
        else:
            tiles.append(memory.begun(operand, element))
    values = op.execute(tiles, instruction.iteration)
    return _Pending(instruction.operands[first:], op.elements[first:], tuple(values), late)


def _check_operands(instruction: Instruction, elements: Sequence[Element]) -> None:
    if len(elements) != len(instruction.operands):
        raise ReplayError(f"it has {len(instruction.operands)} operands, its op {len(elements)}")


def _begin_chosen(line: int, instruction: Instruction, memory: _Memory, ops: _Ops) -> _Pending:
    """Begins a gather or a scatter: computes the new contents of the one operand that it writes."""
    if line not in ops.chosen:
        raise ReplayError("there is no gather or scatter")
    op, operands = ops.chosen[line], instruction.operands
    _check_operands(instruction, op.elements)
    tiles = [memory.read(operand, element) for operand, element in zip(operands, op.elements, strict=True)]
    values = op.execute(tiles, instruction.extent)
    return _Pending((operands[op.written],), (op.elements[op.written],), (values,), False)


def _begin_loop(line: int, instruction: Instruction, memory: _Memory, ops: _Ops) -> _Pending:
    """Begins all iterations of a loop of accesses: their loads happen now, their stores when the loop ends."""
    operands = instruction.operands
    if line not in ops.loops:
        raise ReplayError("there is no loop of loads and stores")
    loop = ops.loops[line]
    if len(loop.elements) != len(operands) or any(operand.shape != instruction.extent for operand in operands):
        raise ReplayError("some iterations leave out an access, which replay cannot execute yet")
    if _feeds_itself(operands):
        raise ReplayError("it reads elements that it wrote before, which replay cannot execute yet")
    tiles = [memory.begun(operand, element) for operand, element in zip(operands, loop.elements, strict=True)]
    values = loop.execute(tiles, instruction.iteration)
    stores = [place for place, operand in enumerate(operands) if operand.access == Access.WRITE]
    elements = tuple(loop.elements[place] for place in stores)
    return _Pending(tuple(operands[place] for place in stores), elements, tuple(values), False)


def _feeds_itself(operands: Sequence[Operand]) -> bool:
    """True if a load may read the result of an earlier store, of its own or an earlier iteration."""
    for place, read in enumerate(operands):
        for other, write in enumerate(operands):
            if read.access != Access.READ or write.access != Access.WRITE:
                continue
            memory = (read.space, read.target, read.slot), (write.space, write.target, write.slot)
            in_place = (read.offset, read.strides) == (write.offset, write.strides) and read.strides != (0,)
            if memory[0] == memory[1] and overlap(box_of(read), box_of(write)) and not (in_place and place < other):
                return True
    return False
