"""The operands and dims that each opcode requires."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from simulator.tileprogram.hazards import ACCUMULATOR
from simulator.tileprogram.program import Access, Instruction, Opcode, Operand, Space, TileProgram


def label_of(program: TileProgram, index: int) -> str:
    op = program.ops[int(program.op[index])]
    steps = ", ".join(f"{loop}={int(step)}" for loop, step in zip(op.loops, program.iteration[index], strict=False))
    when = f" for {steps}" if steps else ""
    return f"instruction {index} ({Opcode(program.opcode[index]).name} {op.name} at line {op.line}{when})"


class Form(NamedTuple):
    """The required form of an opcode's instructions."""

    violations: Callable[[TileProgram, int, Instruction], Iterator[str]]
    """Yields the mistakes in an instruction that has the right number of operands and dims."""
    least: int = 0
    most: int | None = None
    """`least` and `most` are bounds on the number of operands; None is no bound."""
    dims: int | None = None


def operand_forms(program: TileProgram, index: int) -> Iterator[str]:
    """Yields the mistakes in an instruction's operands."""
    row = program.instruction(index)
    yield from form_of(row.opcode).violations(program, index, row)
    for operand in row.operands:
        written = operand.space == Space.DRAM and operand.access & Access.WRITE
        if written and not program.arguments[operand.target].written:
            yield f"{label_of(program, index)} writes argument {program.arguments[operand.target].name!r}, an input"


def form_of(opcode: Opcode) -> Form:
    """The form of an opcode; an opcode without a row in `FORMS` computes on boxes in the scratchpad."""
    return FORMS.get(opcode, Form(_not_in_scratchpad))


def moves(source: Space, target: Space) -> Form:
    """The form of an opcode that reads one box and writes another with as many bytes."""

    def violations(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
        spaces = tuple(operand.space for operand in row.operands)
        accesses = tuple(operand.access for operand in row.operands)
        if spaces != (source, target) or accesses != (Access.READ, Access.WRITE):
            yield f"{label_of(program, index)} does not read one box and write another in its spaces"
        elif _bytes(row.operands[0]) != _bytes(row.operands[1]):
            yield f"{label_of(program, index)} moves {_bytes(row.operands[0])} bytes into {_bytes(row.operands[1])}"

    return Form(violations, 2, 2)


def _host_violations(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    yield f"{label_of(program, index)} is no instruction of a program: steps on the host stand between launches"


def _not_in_scratchpad(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    if any(operand.space != Space.SCRATCHPAD for operand in row.operands):
        yield f"{label_of(program, index)} computes on DRAM"


def _vector_violations(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    yield from _not_in_scratchpad(program, index, row)
    if row.lane >= len(row.extent) or row.reduction >> len(row.extent):
        yield f"{label_of(program, index)} names a dim beyond its {len(row.extent)}"


def _barrier_violations(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    if row.operands or len(row.extent) != 1:
        yield f"{label_of(program, index)} touches memory, or does not say of how many cores it is"


def _direct_violations(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    """Yields the mistakes in a loop of direct accesses.

    Each operand must be one load or store of the loop's body, in any space, in at most all iterations. Without operands
    the instruction must compute: on values that its iterations hand on, or once outside a loop.
    """
    label, info = label_of(program, index), program.ops[row.op]
    computes = bool(info.carried) or (row.extent == (1,) and any(info.class_counts))
    if len(row.extent) != 1 or not (row.operands or computes):
        yield f"{label} is no loop of accesses: extent {row.extent}, {len(row.operands)} operands"
        return
    for operand in row.operands:
        if len(operand.shape) != 1 or operand.access == Access.READ_WRITE:
            yield f"{label} has an operand that is not one load or store of an element per iteration"
        elif operand.shape[0] > row.extent[0]:
            yield f"{label} accesses {operand.shape[0]} elements in {row.extent[0]} iterations"
    for chain in info.carried:
        most = [chain.iterations * count for count in info.class_counts]
        if len(chain.class_counts) != len(most) or any(
            not 0 <= count <= limit for count, limit in zip(chain.class_counts, most, strict=True)
        ):
            told = f"a chain of {chain.class_counts} operations in {chain.iterations} iterations"
            yield f"{label} has {told} of {info.class_counts} each"


def indexed_form(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    """Yields the mistakes in a GATHER or SCATTER: operands are the indices, the moved tile, and the memory, each of
    whose axes an index or a dim walks."""
    label, info = label_of(program, index), program.ops[row.op].indexed
    if info is None:
        yield f"{label} does not say what its indices mean"
        return
    count, moved = len(info.index_dims), row.operands[len(info.index_dims) : -1]
    least = 1 if row.opcode == Opcode.GATHER else 0  # a scatter may write one number
    if len(row.operands) <= count or not least <= len(moved) <= 1:
        yield f"{label} has {len(row.operands)} operands, {count} of them indices"
        return
    memory = row.operands[-1]
    if memory.space != Space.DRAM or any(operand.access != Access.READ for operand in row.operands[:count]):
        yield f"{label} must read its indices, and have its places in DRAM"
    wanted = (Access.READ,) if row.opcode == Opcode.GATHER else (Access.WRITE, Access.READ_WRITE)
    if memory.access not in wanted:
        yield f"{label} has {memory.access.name} places"
    if len(info.axes) != len(memory.shape) or {-1 - code for code in info.axes if code < 0} != set(range(count)):
        yield f"{label} walks {info.axes} in {len(memory.shape)} axes with {count} indices"
        return
    for axis, code in enumerate(info.axes):
        if code >= len(row.extent) or (code >= 0 and memory.shape[axis] != row.extent[code]):
            yield f"{label} walks axis {axis} of {memory.shape} along dim {code} of {row.extent}"
    for operand, dims in zip(row.operands, info.index_dims, strict=False):
        if any(dim >= len(row.extent) for dim in dims) or math.prod(operand.shape) != math.prod(
            row.extent[d] for d in dims
        ):
            yield f"{label} has {math.prod(operand.shape)} indices along dims {dims} of {row.extent}"


def _matmul_violations(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    label = label_of(program, index)
    if len(row.operands) != 3 or len(row.extent) != 4:
        yield f"{label} needs 3 operands and extents (batch, m, n, k), has {len(row.operands)} and {row.extent}"
        return
    batch, m, n, k = row.extent
    sizes = tuple(math.prod(operand.shape) for operand in row.operands)
    if sizes != (batch * m * k, batch * k * n, batch * m * n) and batch == 1:
        yield f"{label} multiplies {m}x{k} by {k}x{n}, its operands have {sizes} elements"
    yield from _not_in_scratchpad(program, index, row)
    if row.stationary not in (0, 1):
        yield f"{label} keeps operand {row.stationary} in the array: only 0 and 1 can stay"
    wanted = Access.READ_WRITE if row.accumulates else Access.WRITE
    if row.operands[ACCUMULATOR].access != wanted or any(o.access != Access.READ for o in row.operands[:2]):
        yield f"{label} must read two operands and {wanted.name} its accumulator"


def _bytes(operand: Operand) -> int:
    return math.prod(operand.shape) * operand.element_bytes


FORMS: Final[Mapping[Opcode, Form]] = {
    Opcode.LOAD: moves(Space.DRAM, Space.SCRATCHPAD),
    Opcode.STORE: moves(Space.SCRATCHPAD, Space.DRAM),
    Opcode.COPY: moves(Space.SCRATCHPAD, Space.SCRATCHPAD),
    Opcode.GATHER: Form(indexed_form),
    Opcode.SCATTER: Form(indexed_form),
    Opcode.MATMUL: Form(_matmul_violations, 3, 3, dims=4),
    Opcode.VECTOR: Form(_vector_violations),
    Opcode.DIRECT: Form(_direct_violations, dims=1),
    Opcode.BARRIER: Form(_barrier_violations, 0, 0, dims=1),
    Opcode.HOST: Form(_host_violations),
}
"""Opcode -> the required form of its instructions."""
