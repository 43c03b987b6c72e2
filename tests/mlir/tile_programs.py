"""Tile programs of the example kernels, unrolled by hand, and timelines for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.tileprogram.program import (
    Access,
    Argument,
    Buffer,
    DependenceKind,
    Instruction,
    Opcode,
    Operand,
    OpInfo,
    Space,
    TileProgram,
)
from simulator.tileprogram.program_builder import ProgramBuilder
from tests.mlir.examples import row_softmax, tiled_matmul
from workbench.ir import Mapping, ScheduledKernel

READ, WRITE, BOTH = Access.READ, Access.WRITE, Access.READ_WRITE
DRAM, PAD = Space.DRAM, Space.SCRATCHPAD


def kernel(text: str, program: TileProgram) -> ScheduledKernel:
    mapping = Mapping({}, (), 1, {}, "by hand")
    return ScheduledKernel(program.kernel, text, text, "", mapping, {}, (), program, ())


class Unroller(ProgramBuilder):
    """A builder that finds its ops' lines in the text, in order: the n-th linalg op of the text is op n."""

    def read_ops(self, text: str, loops: dict[int, tuple[str, ...]]) -> None:
        lines = [
            n
            for n, line in enumerate(text.splitlines(), 1)
            if line.lstrip().startswith("linalg.") and "yield" not in line
        ]
        self.ops = [OpInfo("linalg", line, loops[index]) for index, line in enumerate(lines)]

    def put(
        self, opcode: Opcode, op: int, iteration: tuple[int, ...], *operands: Operand, after: int | None = None
    ) -> int:
        waits = () if after is None else ((after, DependenceKind.ACCUMULATE),)
        extent, matmul = operands[-1].shape, opcode == Opcode.MATMUL
        return self.add(Instruction(opcode, op, iteration, operands, extent, accumulates=matmul, dependences=waits))


def box(
    space: Space, target: int, slot: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], access: Access
) -> Operand:
    return Operand(space, target, slot, offset, shape, strides, 4, access)


def softmax_kernel(rows: int, columns: int, tile: int) -> ScheduledKernel:
    """`examples.row_softmax`, two slots a buffer."""
    text = row_softmax(rows, columns, tile)
    made = Unroller("softmax")
    made.read_ops(text, {index: ("i",) for index in range(8)})
    made.arguments = [Argument(name, (rows, columns), (columns, 1), 0, 4, name == "out") for name in ("x", "out")]
    sizes = [tile * columns * 4, tile * 4, tile * 4]
    offsets = np.cumsum([0, *(2 * size for size in sizes)]).tolist()
    made.buffers = [Buffer(f"b{i}", size, 2, offsets[i], 4) for i, size in enumerate(sizes)]
    for step, start in enumerate(range(0, rows, tile)):
        n, slot, at = min(tile, rows - start), step % 2, (step,)

        def dram(argument: int, access: Access, n: int = n, start: int = start) -> Operand:
            return box(DRAM, argument, 0, start * columns, (n, columns), (columns, 1), access)

        def full(access: Access, n: int = n, slot: int = slot) -> Operand:
            return box(PAD, 0, slot, 0, (n, columns), (columns, 1), access)

        def row(buffer: int, access: Access, n: int = n, slot: int = slot) -> Operand:
            return box(PAD, buffer, slot, 0, (n,), (1,), access)

        made.put(Opcode.LOAD, 0, at, dram(0, READ), full(WRITE))
        made.put(Opcode.VECTOR, 1, at, row(1, WRITE))
        made.put(Opcode.VECTOR, 2, at, full(READ), row(1, BOTH))
        made.put(Opcode.VECTOR, 3, at, full(READ), row(1, READ), full(WRITE))
        made.put(Opcode.VECTOR, 4, at, row(2, WRITE))
        made.put(Opcode.VECTOR, 5, at, full(READ), row(2, BOTH))
        made.put(Opcode.VECTOR, 6, at, full(READ), row(2, READ), full(WRITE))
        made.put(Opcode.STORE, 7, at, full(READ), dram(1, WRITE))
    return kernel(text, made.build())


def matmul_kernel(
    m: int, n: int, k: int, tile: tuple[int, int, int], *, a_t: bool = False, b_t: bool = False
) -> ScheduledKernel:
    """`examples.tiled_matmul`, two slots a buffer."""
    text = tiled_matmul(m, n, k, tile, a_t=a_t, b_t=b_t)
    tm, tn, tk = tile
    made = Unroller("matmul")
    outer, inner = ("i", "j"), ("i", "j", "k")
    made.read_ops(text, {0: outer, 1: inner, 2: inner, 3: inner, 4: outer})
    shapes = [(k, m) if a_t else (m, k), (n, k) if b_t else (k, n), (m, n)]
    tiles = [(tk, tm) if a_t else (tm, tk), (tn, tk) if b_t else (tk, tn), (tm, tn)]
    made.arguments = [
        Argument(name, shape, (shape[1], 1), 0, 4, name == "out")
        for name, shape in zip(("a", "b", "out"), shapes, strict=True)
    ]
    sizes = [rows * columns * 4 for rows, columns in tiles]
    offsets = np.cumsum([0, *(2 * size for size in sizes)]).tolist()
    made.buffers = [Buffer(f"b{i}", size, 2, offsets[i], 4) for i, size in enumerate(sizes)]

    def pair(which: int, slot: int, at: tuple[int, int], size: tuple[int, int]) -> tuple[Operand, Operand]:
        """A tile in DRAM, read, and in its buffer, written; `at` and `size` in the operand's own axes."""
        columns = shapes[which][1]
        return (
            box(DRAM, which, 0, at[0] * columns + at[1], size, (columns, 1), READ),
            box(PAD, which, slot, 0, size, (tiles[which][1], 1), WRITE),
        )

    def as_read(operand: Operand, access: Access = READ) -> Operand:
        return box(operand.space, operand.target, operand.slot, operand.offset, operand.shape, operand.strides, access)

    for i in range(0, m, tm):
        for j in range(0, n, tn):
            mm, nn, at = min(tm, m - i), min(tn, n - j), (i // tm, j // tn)
            out, c = pair(2, (i // tm + j // tn) % 2, (i, j), (mm, nn))
            made.put(Opcode.VECTOR, 0, at, c)
            last: int | None = None
            for step, p in enumerate(range(0, k, tk)):
                kk, here = min(tk, k - p), (*at, step)
                a_src, a = pair(0, step % 2, (p, i) if a_t else (i, p), (kk, mm) if a_t else (mm, kk))
                b_src, b = pair(1, step % 2, (j, p) if b_t else (p, j), (nn, kk) if b_t else (kk, nn))
                made.put(Opcode.LOAD, 1, here, a_src, a)
                made.put(Opcode.LOAD, 2, here, b_src, b)
                last = made.put(Opcode.MATMUL, 3, here, as_read(a), as_read(b), as_read(c, BOTH), after=last)
            made.put(Opcode.STORE, 4, at, as_read(c), as_read(out, WRITE))
    return kernel(text, made.build())


@dataclass(frozen=True)
class Edge:
    """`target` waits for `source`; `kind` is raw, war, waw or chain."""

    source: int
    target: int
    kind: str


def edges(program: TileProgram) -> list[Edge]:
    """Every pair of instructions that touch one slot of a buffer, or one argument, and do not both only read it."""
    rows = [program.instruction(index) for index in range(len(program))]
    return [
        Edge(first, second, kind)
        for second, later in enumerate(rows)
        for first, earlier in enumerate(rows[:second])
        for kind in sorted(set(_conflicts(first, earlier, later)))[:1]
    ]


def _conflicts(first: int, earlier: Instruction, later: Instruction) -> Iterator[str]:
    chained = any(source == first and kind == DependenceKind.ACCUMULATE for source, kind in later.dependences)
    for a in earlier.operands:
        for b in later.operands:
            if (a.space, a.target, a.slot) != (b.space, b.target, b.slot) or a.access == b.access == READ:
                continue
            if a.space == DRAM:  # tiles of the outputs do not overlap, inputs are only read
                continue
            yield (
                "chain"
                if chained
                else "raw"
                if a.access & WRITE and b.access & READ
                else "waw"
                if b.access & a.access & WRITE
                else "war"
            )


def timeline(program: TileProgram, waits: Collection[Edge], seed: int = 0) -> tuple[list[int], list[int]]:
    """Starts and ends when every instruction starts as soon as its edges allow, with durations drawn by chance."""
    durations = np.random.default_rng(seed).integers(1, 50, len(program)).tolist()
    starts, ends = [0] * len(program), [0] * len(program)
    incoming: list[list[Edge]] = [[] for _ in range(len(program))]
    for edge in waits:
        incoming[edge.target].append(edge)
    for index, duration in enumerate(durations):
        for edge in incoming[index]:
            # A chained matmul streams behind the one before it: it starts and ends later, no more.
            chained = edge.kind == "chain"
            starts[index] = max(starts[index], starts[edge.source] + 1 if chained else ends[edge.source])
        ends[index] = starts[index] + duration
        for edge in incoming[index]:
            ends[index] = max(ends[index], ends[edge.source] + 1)
    return starts, ends


def one_by_one(program: TileProgram) -> tuple[Sequence[int], Sequence[int]]:
    return range(len(program)), range(1, len(program) + 1)
