"""Small programs made by hand, for the tests of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simulator import Launched, Machine, Trace, load_machine, simulate
from simulator.analysis.slack import slack_of
from simulator.errors import ProgramError
from simulator.tileprogram.hazards import DependenceTracker
from simulator.tileprogram.program import (
    Access,
    Argument,
    Buffer,
    Carried,
    Instruction,
    Opcode,
    Operand,
    OpInfo,
    Space,
    TileProgram,
)
from simulator.tileprogram.program_builder import ProgramBuilder
from simulator.tileprogram.verifier import verify

if TYPE_CHECKING:
    from simulator import Placed  # tests also run without the folder of chiplets


def at_peak(name: str = "edge-8x8", **figures: int | float | str) -> Machine:
    """A machine whose simple memory gives streams all of its peak: whole bytes a cycle."""
    return load_machine(name, dram_stream_share=1.0, **figures)


EDGE = at_peak()
"""32 bytes a cycle from the memory and in each queue, in requests of 64."""


def run(
    program: TileProgram,
    machine: Machine = EDGE,
    placed: Sequence[Placed] = (),
    *,
    apart: int = 1 << 16,
    launches: int = 1,
) -> Trace:
    """Verifies and simulates a program whose arguments begin `apart` bytes from one another; verifies the trace."""
    verify(program)
    launch = Launched("k", program, tuple(number * apart for number in range(len(program.arguments))))
    trace = simulate([launch] * launches, machine, placed=placed)
    trace.invariants()
    assert slack_of(trace).min(initial=0) >= 0
    return trace


def caught(program: TileProgram) -> bool:
    """True if the verifier refuses the program."""
    try:
        verify(program)
    except ProgramError:
        return True
    return False


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


@dataclass
class Made:
    """A program being written: names instead of indices, dependences derived by the tracker."""

    kernel: str = "k"
    builder: ProgramBuilder = field(default_factory=lambda: ProgramBuilder("k"))
    tracker: DependenceTracker = field(default_factory=DependenceTracker)
    next_offset: int = 0

    def argument(self, name: str, shape: tuple[int, ...], *, written: bool = False) -> None:
        self.builder.arguments.append(Argument(name, shape, dense(shape), 0, 4, written))

    def buffer(self, name: str, elements: int, slots: int = 1) -> None:
        self.builder.buffers.append(Buffer(name, elements * 4, slots, self.next_offset, 4))
        self.next_offset += elements * 4 * slots

    def dram(self, name: str, shape: tuple[int, ...], offset: int = 0, access: Access = Access.READ) -> Operand:
        names = [argument.name for argument in self.builder.arguments]
        strides = self.builder.arguments[names.index(name)].strides[-len(shape) :]
        return Operand(Space.DRAM, names.index(name), 0, offset, shape, strides, 4, access)

    def pad(
        self,
        name: str,
        shape: tuple[int, ...],
        slot: int = 0,
        access: Access = Access.READ,
        offset: int = 0,
        strides: tuple[int, ...] = (),
    ) -> Operand:
        names = [buffer.name for buffer in self.builder.buffers]
        return Operand(Space.SCRATCHPAD, names.index(name), slot, offset, shape, strides or dense(shape), 4, access)

    def add(
        self,
        instruction: Instruction,
        counts: tuple[int, int, int, int] = (0, 0, 0, 0),
        carried: tuple[Carried, ...] = (),
    ) -> int:
        number = len(self.builder.ops) + 1
        self.builder.ops.append(OpInfo(instruction.opcode.name.lower(), number, (), counts, carried=carried))
        instruction = replace(instruction, op=len(self.builder.ops) - 1)
        return self.builder.add(replace(instruction, dependences=self.tracker.add(instruction)))

    def move(self, opcode: Opcode, source: Operand, target: Operand) -> int:
        operands = source, replace(target, access=Access.WRITE)
        return self.add(Instruction(opcode, 0, (), operands, source.shape))

    def load(self, source: Operand, target: Operand) -> int:
        return self.move(Opcode.LOAD, source, target)

    def store(self, source: Operand, target: Operand) -> int:
        return self.move(Opcode.STORE, source, target)

    def matmul(self, a: Operand, b: Operand, c: Operand, *, accumulates: bool = False, stationary: int = 1) -> int:
        (m, k), n = a.shape, b.shape[1]
        c = replace(c, access=Access.READ_WRITE if accumulates else Access.WRITE)
        row = Instruction(Opcode.MATMUL, 0, (), (a, b, c), (1, m, n, k), stationary=stationary, accumulates=accumulates)
        return self.add(row)

    def vector(
        self,
        reads: list[Operand],
        write: Operand,
        counts: tuple[int, int, int, int] = (1, 0, 0, 0),
        *,
        extent: tuple[int, ...] | None = None,
        lane: int = 0,
        reduction: int = 0,
    ) -> int:
        operands = (*reads, replace(write, access=Access.WRITE))
        shape = extent or write.shape
        return self.add(Instruction(Opcode.VECTOR, 0, (), operands, shape, lane=lane, reduction=reduction), counts)

    def direct(
        self,
        *accesses: Operand,
        points: int = 0,
        counts: tuple[int, int, int, int] = (0, 0, 0, 1),
        carried: tuple[Carried, ...] = (),
    ) -> int:
        """A loop of loads and stores, as many iterations as the longest of them."""
        extent = (points or max(operand.shape[0] for operand in accesses),)
        return self.add(Instruction(Opcode.DIRECT, 0, (), accesses, extent), counts, carried)

    def build(self) -> TileProgram:
        return self.builder.build()


def elementwise(tiles: int = 6, slots: int = 2, rows: int = 8, columns: int = 64) -> TileProgram:
    """`out = f(x)`, row block by row block, through buffers of `slots` slots."""
    made = Made()
    made.argument("x", (tiles * rows, columns))
    made.argument("out", (tiles * rows, columns), written=True)
    made.buffer("in", rows * columns, slots)
    made.buffer("result", rows * columns, slots)
    for tile in range(tiles):
        at, slot, shape = tile * rows * columns, tile % slots, (rows, columns)
        made.load(made.dram("x", shape, at), made.pad("in", shape, slot))
        made.vector([made.pad("in", shape, slot)], made.pad("result", shape, slot), (2, 1, 0, 0))
        made.store(made.pad("result", shape, slot), made.dram("out", shape, at))
    return made.build()


def matmul_chain(m: int, n: int, k: int, tile: int, slots: int = 2) -> TileProgram:
    """`out = a @ b`, K innermost: one accumulator per result tile, cleared, added to, stored."""
    made = Made()
    made.argument("a", (m, k))
    made.argument("b", (k, n))
    made.argument("out", (m, n), written=True)
    for name in ("at", "bt", "acc"):
        made.buffer(name, tile * tile, slots)
    square, step, block = (tile, tile), 0, 0
    for i in range(0, m, tile):
        for j in range(0, n, tile):
            acc = made.pad("acc", square, block % slots)
            made.vector([], acc, (0, 0, 0, 1))
            for p in range(0, k, tile):
                slot = step % slots
                made.load(made.dram("a", square, i * k + p), made.pad("at", square, slot))
                made.load(made.dram("b", square, p * n + j), made.pad("bt", square, slot))
                made.matmul(made.pad("at", square, slot), made.pad("bt", square, slot), acc, accumulates=True)
                step += 1
            made.store(acc, made.dram("out", square, i * n + j))
            block += 1
    return made.build()


def elements(operand: Operand, access: Access = Access.READ, *, stride: int = 1, count: int | None = None) -> Operand:
    """One load or store of a loop: elements from the operand's first one on."""
    shape = (operand.shape[0] if count is None else count,)
    return replace(operand, shape=shape, strides=(stride,), access=access)


def direct_copy(rows: int, columns: int) -> TileProgram:
    """`out = x`, element by element: one instruction a row."""
    made = Made()
    made.argument("x", (rows, columns))
    made.argument("out", (rows, columns), written=True)
    for row in range(rows):
        source, target = (made.dram(name, (columns,), row * columns) for name in ("x", "out"))
        made.direct(elements(source), elements(target, Access.WRITE))
    return made.build()


def tiled_copy(rows: int, columns: int, tile: int, slots: int) -> TileProgram:
    """`out = x` through the scratchpad, `tile` rows at a time: loaded, passed through the vector unit, stored."""
    made = Made()
    made.argument("x", (rows, columns))
    made.argument("out", (rows, columns), written=True)
    made.buffer("in", tile * columns, slots)
    made.buffer("result", tile * columns, slots)
    for number in range(rows // tile):
        at, slot, shape = number * tile * columns, number % slots, (tile, columns)
        made.load(made.dram("x", shape, at), made.pad("in", shape, slot))
        made.vector([made.pad("in", shape, slot)], made.pad("result", shape, slot), (0, 0, 0, 1))
        made.store(made.pad("result", shape, slot), made.dram("out", shape, at))
    return made.build()
