"""Broken copies of a program: what the verifier and a trace's invariants must catch, or may rightly let pass.

Whether a dropped edge matters is decided here without the verifier's means: bytes are listed one by one, and order
is looked for among all remaining edges.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from simulator.errors import ProgramError
from simulator.tileprogram.barriers import meeting_of
from simulator.tileprogram.hazards import ACCUMULATOR
from simulator.tileprogram.program import I64, Access, DependenceKind, Opcode, Operand, Space, TileProgram


def drop_edge(program: TileProgram, edge: int) -> TileProgram:
    """The program without its dependence number `edge`."""
    starts = program.dependence_start.copy()
    starts[_owner(program, edge) + 1 :] -= 1
    return dataclasses.replace(
        program,
        dependence_start=starts,
        dependence=np.delete(program.dependence, edge),
        dependence_kind=np.delete(program.dependence_kind, edge),
    )


def remove_slot(program: TileProgram, buffer: int) -> TileProgram:
    """The program with one slot less in a buffer: what lay in the last slot now lies in the others, in turn.

    Dependences stay as they were, so uses of a slot that two tiles now share are not ordered.
    """
    old = program.buffers[buffer]
    if old.slots < 2:
        raise ProgramError(program.kernel, [f"buffer {old.name!r} has one slot, there is none to remove"])
    here = (program.space == 1) & (program.target == buffer)
    buffers = list(program.buffers)
    buffers[buffer] = dataclasses.replace(old, slots=old.slots - 1)
    slot = np.where(here, program.slot % (old.slots - 1), program.slot).astype(np.int32)
    return dataclasses.replace(program, buffers=tuple(buffers), slot=slot)


def implied(program: TileProgram, edge: int) -> bool:
    """True if dropping a dependence changes nothing that matters.

    That is so when its two instructions touch no common byte of which one of them writes any, or when other
    dependences and the queues of the vector and of the scalar unit order them as well.
    """
    earlier, later = int(program.dependence[edge]), _owner(program, edge)
    paths = _paths(drop_edge(program, edge))
    return all(paths.order(earlier, later, need) for need in _needs(program, earlier, later))


def slot_implied(program: TileProgram, buffer: int) -> bool:
    """True if removing a slot of a buffer changes nothing that matters: what shares slots then is ordered anyway."""
    mutant = remove_slot(program, buffer)
    paths = _paths(mutant)
    owner = program.owners()
    users = sorted(set(owner[(program.space == 1) & (program.target == buffer)].tolist()))
    everyone = sorted(set(owner[program.space == 1].tolist()))
    for later in everyone:
        for earlier in everyone if later in users else users:
            if earlier >= later:
                break
            if paths.complete[later] >> earlier & 1:
                continue
            if not all(paths.order(earlier, later, need) for need in _needs(mutant, earlier, later)):
                return False
    return True


def _owner(program: TileProgram, edge: int) -> int:
    return int(np.searchsorted(program.dependence_start, edge, side="right")) - 1


def _needs(program: TileProgram, earlier: int, later: int) -> set[str]:
    """Why two instructions must be ordered, operand by operand; nothing when they share no byte that one writes."""
    first, second = program.instruction(earlier), program.instruction(later)
    chains = first.opcode == second.opcode == Opcode.MATMUL and second.accumulates
    needs = set[str]()
    for i, one in enumerate(first.operands):
        for j, other in enumerate(second.operands):
            writes = (one.access | other.access) & Access.WRITE
            if not writes or _memory(program, one) != _memory(program, other):
                continue
            here, there = _bytes(program, one), _bytes(program, other)
            if not _meet(here, there):
                continue
            if chains and i == j == ACCUMULATOR and np.array_equal(here, there):
                needs.add("follow")
            else:
                needs.add("complete" if one.access & Access.WRITE else "release")
    return needs


def _meet(one: I64, other: I64) -> bool:
    if one.max() < other.min() or other.max() < one.min():
        return False
    marked = np.zeros(max(int(one.max()), int(other.max())) + 1, np.bool_)
    marked[one] = True
    return bool(marked[other].any())


def _memory(program: TileProgram, operand: Operand) -> int:
    """Number of the memory that holds an operand: its argument, or minus one minus the core of its scratchpad."""
    return operand.target if operand.space == Space.DRAM else -1 - program.buffers[operand.target].core


def _bytes(program: TileProgram, operand: Operand) -> I64:
    """Every byte of an operand's box, in the order of its elements, in its argument or in the scratchpad."""
    elements = np.array([operand.offset], np.int64)
    for extent, stride in zip(operand.shape, operand.strides, strict=True):
        elements = (elements[:, None] + stride * np.arange(extent)).ravel()
    start = 0
    if operand.space == Space.SCRATCHPAD:
        buffer = program.buffers[operand.target]
        start = buffer.offset + operand.slot * buffer.slot_bytes
    return (start + elements[:, None] * operand.element_bytes + np.arange(operand.element_bytes)).ravel()


@dataclass(frozen=True, slots=True)
class _Paths:
    """For each instruction, as bits, those before it: by paths that complete, by those that follow, by any at all."""

    complete: list[int]
    follow: list[int]
    any: list[int]

    def order(self, earlier: int, later: int, need: str) -> bool:
        enough = self.complete[later]
        if need != "complete":
            enough |= self.follow[later]
        if need == "release":
            enough |= self.any[later]
        return bool(enough >> earlier & 1)


def _paths(program: TileProgram) -> _Paths:
    """As long as a path takes only ACCUMULATE edges it merely follows; its first other edge settles what it is: where
    a matmul's input is overwritten it releases, else it completes. What comes before a BARRIER completes before it, and
    what comes before any of a meeting before all that comes after it.
    """
    paths = _Paths([0] * len(program), [0] * len(program), [0] * len(program))
    last = dict[tuple[int, Opcode], int]()  # of the units that work in order
    met, done = meeting_of(program), dict[int, int]()  # by core: what is complete for what comes next, as bits
    for index in range(len(program)):
        edges = list[tuple[int, int]]()
        for edge in range(int(program.dependence_start[index]), int(program.dependence_start[index + 1])):
            edges.append((int(program.dependence[edge]), int(program.dependence_kind[edge])))
        opcode, core = Opcode(program.opcode[index]), int(program.core[index])
        if opcode in (Opcode.VECTOR, Opcode.DIRECT):
            if (core, opcode) in last:
                edges.append((last[core, opcode], int(DependenceKind.READ_AFTER_WRITE)))
            last[core, opcode] = index
        if opcode == Opcode.BARRIER:
            done[core] = sum(1 << row for row in range(index + 1) if program.core[row] == core) | done.get(core, 0)
            if index == met[index][-1]:
                together, everything = [int(program.core[row]) for row in met[index]], 0
                for other in together:
                    everything |= done[other]
                done |= dict.fromkeys(together, everything)
        paths.complete[index] = done.get(core, 0) & ~(1 << index)
        for source, kind in edges:
            following = paths.follow[source] | 1 << source
            paths.any[index] |= paths.any[source] | following
            paths.complete[index] |= paths.complete[source]
            if kind == DependenceKind.ACCUMULATE:
                paths.follow[index] |= following
            elif kind != DependenceKind.WRITE_AFTER_READ or program.opcode[source] != Opcode.MATMUL:
                paths.complete[index] |= following
    return paths
