"""Broken copies of a program: what the verifier and a trace's invariants must catch, or may rightly let pass.

Whether a dropped edge matters is decided here without the verifier's means: bytes are listed one by one, and order
is looked for among all remaining edges.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from simulator.errors import ProgramError
from simulator.program import I64, Access, DependenceKind, Opcode, TileProgram


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
    """Whether dropping a dependence changes nothing that matters.

    That is so when its two instructions touch no common byte of which one of them writes any, or when other
    dependences and the vector unit's queue order them as well.
    """
    earlier, later = int(program.dependence[edge]), _owner(program, edge)
    written_first = _meet(program, earlier, Access.WRITE, later, Access.READ_WRITE)
    read_first = _meet(program, earlier, Access.READ, later, Access.WRITE)
    if not written_first and not read_first:
        return True
    paths = _paths(program, edge, earlier, later)
    if program.dependence_kind[edge] == DependenceKind.ACCUMULATE:
        return bool(paths & {"complete", "follow"})
    return "complete" in paths or (bool(paths) and not written_first)


def _owner(program: TileProgram, edge: int) -> int:
    return int(np.searchsorted(program.dependence_start, edge, side="right")) - 1


def _bytes(program: TileProgram, instruction: int, access: Access) -> dict[tuple[int, int, int], I64]:
    """Every byte that an instruction reads or writes, by (space, target, slot)."""
    out: dict[tuple[int, int, int], I64] = {}
    for operand in program.instruction(instruction).operands:
        if not operand.access & access:
            continue
        elements = np.array([operand.offset], np.int64)
        for extent, stride in zip(operand.shape, operand.strides, strict=True):
            elements = (elements[:, None] + stride * np.arange(extent)).ravel()
        touched = (elements[:, None] * operand.element_bytes + np.arange(operand.element_bytes)).ravel()
        place = (int(operand.space), operand.target, operand.slot)
        out[place] = np.union1d(out.get(place, touched), touched)
    return out


def _meet(program: TileProgram, earlier: int, how: Access, later: int, then: Access) -> bool:
    first, second = _bytes(program, earlier, how), _bytes(program, later, then)
    return any(len(np.intersect1d(first[place], second[place])) for place in first.keys() & second.keys())


def _paths(program: TileProgram, without: int, earlier: int, later: int) -> set[str]:
    """How firmly paths order `earlier` before `later`, one edge left out: complete, follow, release.

    Walks forward from `earlier`. As long as only ACCUMULATE edges were taken a path merely follows; the first other
    edge settles it: a read of a matmul that is overwritten releases, anything else completes.
    """
    states: dict[int, set[str]] = {earlier: {"follow"}}
    last_vector = -1
    for index in range(later + 1):
        edges = list[tuple[int, int]]()
        for edge in range(int(program.dependence_start[index]), int(program.dependence_start[index + 1])):
            if edge != without:
                edges.append((int(program.dependence[edge]), int(program.dependence_kind[edge])))
        if program.opcode[index] == Opcode.VECTOR:
            if last_vector >= 0:
                edges.append((last_vector, int(DependenceKind.READ_AFTER_WRITE)))
            last_vector = index
        for source, kind in edges:
            for state in states.get(source, set()):
                states.setdefault(index, set()).add(_after(state, kind, int(program.opcode[source])))
    return states.get(later, set())


def _after(state: str, kind: int, opcode: int) -> str:
    if state != "follow" or kind == DependenceKind.ACCUMULATE:
        return state
    return "release" if kind == DependenceKind.WRITE_AFTER_READ and opcode == Opcode.MATMUL else "complete"
