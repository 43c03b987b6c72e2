"""What the operands of one instruction must be, by its opcode."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simulator.tileprogram.hazards import ACCUMULATOR
from simulator.tileprogram.program import Access, Instruction, Opcode, Operand, Space, TileProgram


def label_of(program: TileProgram, index: int) -> str:
    op = program.ops[int(program.op[index])]
    steps = ", ".join(f"{loop}={int(step)}" for loop, step in zip(op.loops, program.iteration[index], strict=False))
    when = f" for {steps}" if steps else ""
    return f"instruction {index} ({Opcode(program.opcode[index]).name} {op.name} at line {op.line}{when})"


_SPACES = {
    Opcode.LOAD: (Space.DRAM, Space.SCRATCHPAD),
    Opcode.STORE: (Space.SCRATCHPAD, Space.DRAM),
    Opcode.COPY: (Space.SCRATCHPAD, Space.SCRATCHPAD),
}


def operand_forms(program: TileProgram, index: int) -> Iterator[str]:
    """What each opcode expects of its operands."""
    row = program.instruction(index)
    spaces = tuple(operand.space for operand in row.operands)
    accesses = tuple(operand.access for operand in row.operands)
    if row.opcode in _SPACES:
        if spaces != _SPACES[row.opcode] or accesses != (Access.READ, Access.WRITE):
            yield f"{label_of(program, index)} does not read one box and write another in its spaces"
        elif _bytes(row.operands[0]) != _bytes(row.operands[1]):
            yield f"{label_of(program, index)} moves {_bytes(row.operands[0])} bytes into {_bytes(row.operands[1])}"
    elif row.opcode == Opcode.HOST:
        yield f"{label_of(program, index)} is no instruction of a program: steps on the host stand between launches"
    elif row.opcode == Opcode.MATMUL:
        yield from _matmul_violations(program, index, row)
    elif row.opcode == Opcode.VECTOR:
        if any(space != Space.SCRATCHPAD for space in spaces):
            yield f"{label_of(program, index)} computes on DRAM"
        if row.lane >= len(row.extent) or row.reduction >> len(row.extent):
            yield f"{label_of(program, index)} names a dim beyond its {len(row.extent)}"
    elif row.opcode == Opcode.BARRIER:
        if row.operands or len(row.extent) != 1:
            yield f"{label_of(program, index)} touches memory, or does not say of how many cores it is"
    elif row.opcode == Opcode.DIRECT:
        yield from _direct_violations(program, index, row)
    elif row.opcode in (Opcode.GATHER, Opcode.SCATTER):
        yield from indexed_form(program, index, row)
    for operand in row.operands:
        written = operand.space == Space.DRAM and operand.access & Access.WRITE
        if written and not program.arguments[operand.target].written:
            yield f"{label_of(program, index)} writes argument {program.arguments[operand.target].name!r}, an input"


def _direct_violations(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    """Each operand is one load or store of a loop's body, in any space, over at most all of its iterations.

    Without any it computes: what its iterations hand on, or once what stands outside a loop.
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
    """Indices, what is moved, and last the memory, with a walker for each of its axes."""
    label, info = label_of(program, index), program.ops[row.op].indexed
    if info is None:
        yield f"{label} does not say what its indices mean"
        return
    count, moved = len(info.index_dims), row.operands[len(info.index_dims) : -1]
    least = 1 if row.opcode == Opcode.GATHER else 0  # what is scattered may be one number
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
        if any(dim >= len(row.extent) for dim in dims) or _elements(operand) != math.prod(row.extent[d] for d in dims):
            yield f"{label} has {_elements(operand)} indices along dims {dims} of {row.extent}"


def _matmul_violations(program: TileProgram, index: int, row: Instruction) -> Iterator[str]:
    label = label_of(program, index)
    if len(row.operands) != 3 or len(row.extent) != 4:
        yield f"{label} needs 3 operands and extents (batch, m, n, k), has {len(row.operands)} and {row.extent}"
        return
    batch, m, n, k = row.extent
    sizes = tuple(_elements(operand) for operand in row.operands)
    if sizes != (batch * m * k, batch * k * n, batch * m * n) and batch == 1:
        yield f"{label} multiplies {m}x{k} by {k}x{n}, its operands have {sizes} elements"
    if any(operand.space != Space.SCRATCHPAD for operand in row.operands):
        yield f"{label} computes on DRAM"
    if row.stationary not in (0, 1):
        yield f"{label} keeps operand {row.stationary} in the array: only 0 and 1 can stay"
    wanted = Access.READ_WRITE if row.accumulates else Access.WRITE
    if row.operands[ACCUMULATOR].access != wanted or any(o.access != Access.READ for o in row.operands[:2]):
        yield f"{label} must read two operands and {wanted.name} its accumulator"


def _elements(operand: Operand) -> int:
    count = 1
    for extent in operand.shape:
        count *= extent
    return count


def _bytes(operand: Operand) -> int:
    return _elements(operand) * operand.element_bytes
