"""Checks that a tile program is well formed and orders all its conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from simulator.errors import ProgramError
from simulator.tileprogram import barriers
from simulator.tileprogram.buffer_addresses import clashes
from simulator.tileprogram.circular_waits import circle, told
from simulator.tileprogram.conflicts import conflicts, unordered
from simulator.tileprogram.hazards import ACCUMULATOR
from simulator.tileprogram.opcodes import Access, DependenceKind, OpClass, Opcode, Space
from simulator.tileprogram.operand_forms import form_of, indexed_form, label_of, operand_forms
from simulator.tileprogram.program import I32, I64, MAX_RANK, TileProgram

MOST = 20
"""The number of violations of one kind after which the search for more stops."""
LARGEST = 2**48
"""The most bytes or points of a plausible program; sums of many such numbers are still exact in 64 bits."""


def verify(program: TileProgram) -> None:
    """Raises `ProgramError` unless the program is well formed and orders all its conflicts.

    A conflict is a pair of instructions that touch the same bytes, at least one writing. A path of dependences orders
    the pair; the path may also step from one vector instruction of a core to its next, and from one loop of direct
    accesses to the next, since these units are in order. No other queue keeps order, but a meeting of cores puts all
    instructions before it ahead of all after it. Conflicts are found from the operands' boxes alone
    (`conflicts.conflicts`).
    """
    verify_structure(program)
    found = [
        f"{label_of(program, conflict.later)} does not wait for {label_of(program, conflict.earlier)}: "
        f"both touch {conflict.where}"
        for conflict in islice(unordered(program, conflicts(program)), MOST)
    ]
    if found:
        raise ProgramError(program.kernel, found)


def verify_structure(program: TileProgram) -> None:
    """Raises `ProgramError` unless indices, boxes, slots and dependences are valid; does not check conflicts."""
    verify_tables(program)
    found = [line for index in range(len(program)) for line in operand_forms(program, index)]
    if found:
        raise ProgramError(program.kernel, found)


def verify_tables(program: TileProgram) -> None:
    """Runs the checks of `verify_structure` on whole columns: quick enough to run before every simulation."""
    found = list(_table_violations(program))
    if not found:
        found = [*_form_violations(program), *_buffer_violations(program), *_operand_violations(program)]
        found += _dependence_violations(program)
    if not found:
        found = list(barriers.violations(program))
    if not found:
        found = [
            f"buffers {low.name!r} and {high.name!r} share scratchpad bytes from {high.offset} on, "
            "and are in use at the same time"
            for low, high in islice(clashes(program), MOST)
        ]
    if found:
        raise ProgramError(program.kernel, found)


def _table_violations(program: TileProgram) -> Iterator[str]:
    """Checks lengths and ranges of columns, on which all other checks rely."""
    rows, operands = len(program.opcode), len(program.space)
    for name, starts, count in (
        ("operand_start", program.operand_start, operands),
        ("dependence_start", program.dependence_start, len(program.dependence)),
        ("origin_start", program.origin_start, len(program.origin)),
    ):
        if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != count or np.any(np.diff(starts) < 0):
            yield f"{name} does not divide {count} entries among {rows} instructions"
    for name, values, limit in (
        ("opcode", program.opcode, len(Opcode)),
        ("op", program.op, len(program.ops)),
        ("rank", program.rank, MAX_RANK + 1),
        ("operand_rank", program.operand_rank, MAX_RANK + 1),
        ("space", program.space, len(Space)),
        ("dependence_kind", program.dependence_kind, len(DependenceKind)),
        ("origin", program.origin, len(program.origin_names)),
    ):
        bad = np.flatnonzero((values < 0) | (values >= limit))
        if len(bad):
            yield f"{name}[{bad[0]}] = {values[bad[0]]} is not between 0 and {limit - 1}"
    bad = np.flatnonzero((program.access < Access.READ) | (program.access > Access.READ_WRITE))
    if len(bad):
        yield f"access[{bad[0]}] = {program.access[bad[0]]} is neither read nor write"
    if np.any(program.extent < 1) or np.any(program.shape < 1):
        yield "an instruction or operand has an extent below 1: an empty tile is no instruction"
    if np.any(program.element_bytes < 1):
        yield "an operand's element has less than one byte"
    if np.any(program.core < 0):
        yield "an instruction runs on a negative core"
    yield from _record_violations(program)
    yield from _overflows(program)


def _record_violations(program: TileProgram) -> Iterator[str]:
    """Checks that the entries for arguments, buffers and ops are complete."""
    for argument in program.arguments:
        if len(argument.shape) != len(argument.strides) or min(argument.shape, default=0) < 0:
            yield f"argument {argument.name!r} has the shape {argument.shape} and the strides {argument.strides}"
        if argument.element_bytes < 1:
            yield f"argument {argument.name!r} has elements of {argument.element_bytes} bytes"
    for buffer in program.buffers:
        if buffer.element_bytes < 1 or buffer.core < 0:
            yield f"buffer {buffer.name!r} has elements of {buffer.element_bytes} bytes on core {buffer.core}"
    for op in program.ops:
        counts = (*op.class_counts, op.computed_bytes, op.line)
        if len(op.class_counts) != len(OpClass) or not 0 <= min(counts) <= max(counts) <= LARGEST:
            yield f"op {op.name!r} at line {op.line} has the counts {op.class_counts}, {op.computed_bytes} bytes"
        elif len(op.wide_counts) != len(OpClass) or any(
            not 0 <= wide <= count for wide, count in zip(op.wide_counts, op.class_counts, strict=True)
        ):
            yield f"op {op.name!r} at line {op.line} has {op.wide_counts} operations of {op.class_counts} on 64 bits"
        for chain in op.carried:
            if not 1 <= chain.iterations <= LARGEST or max(chain.class_counts, default=0) > LARGEST:
                told = f"{chain.class_counts} operations in {chain.iterations} iterations"
                yield f"op {op.name!r} at line {op.line} has a chain of {told}"
        if len(op.loops) > program.iteration.shape[1]:
            yield f"op {op.name!r} is in {len(op.loops)} loops, and iterations have {program.iteration.shape[1]} places"


def _form_violations(program: TileProgram) -> Iterator[str]:
    """Yields instructions without the operands or dims that every reader of their opcode relies on."""
    operands = np.diff(program.operand_start)
    for opcode in map(Opcode, np.unique(program.opcode).tolist()):
        rows = np.flatnonzero(program.opcode == opcode)
        form = form_of(opcode)
        too_many = operands[rows] > (LARGEST if form.most is None else form.most)
        for index in rows[(operands[rows] < form.least) | too_many][:MOST]:
            expected = str(form.least) if form.most is not None else f"{form.least} or more"
            yield f"{label_of(program, index)} has {operands[index]} operands, expected {expected}"
        if form.dims is not None:
            for index in rows[program.rank[rows] != form.dims][:MOST]:
                yield f"{label_of(program, index)} has {program.rank[index]} dims, expected {form.dims}"
        if opcode in (Opcode.GATHER, Opcode.SCATTER):
            wrong = (line for row in rows.tolist() for line in indexed_form(program, row, program.instruction(row)))
            yield from islice(wrong, MOST)
    for index in np.flatnonzero((program.lane < -1) | (program.lane >= np.maximum(program.rank, 1)))[:MOST]:
        yield f"{label_of(program, index)} lays dim {program.lane[index]} of {program.rank[index]} along the lanes"
    for index in np.flatnonzero((program.stationary > 1) | (program.accumulates > 1))[:MOST]:
        kept = program.stationary[index]
        yield f"{label_of(program, index)} keeps operand {kept} in the array: only 0 and 1 can stay"


def _overflows(program: TileProgram) -> Iterator[str]:
    """Yields sizes whose products would not be exact in 64 bits: all later checks rely on exact products."""
    reach = np.abs(program.offset).astype(float)
    for dim in range(MAX_RANK):  # one column at a time: long programs are large
        reach += np.abs(program.strides[:, dim] * program.shape[:, dim].astype(float))
    for what, sizes in (
        ("the box of operand", reach * program.element_bytes),
        ("the elements of operand", program.shape.prod(1, dtype=float) * program.element_bytes),
        ("the points of instruction", program.extent.prod(1, dtype=float)),
    ):
        for index in np.flatnonzero(sizes > LARGEST)[:MOST]:
            yield f"{what} {index} come to {sizes[index]:.3g}: at most {LARGEST:.3g} can be reckoned with"
    for argument in program.arguments:
        reached = argument.offset + sum(n * abs(s) for n, s in zip(argument.shape, argument.strides, strict=True))
        if (size := reached * argument.element_bytes) > LARGEST:
            yield f"argument {argument.name!r} spans {size:.3g} bytes: at most {LARGEST:.3g}"
    for buffer in program.buffers:
        if buffer.offset + buffer.bytes > LARGEST:
            yield f"buffer {buffer.name!r} ends at byte {buffer.offset + buffer.bytes:.3g}: at most {LARGEST:.3g}"


def _buffer_violations(program: TileProgram) -> Iterator[str]:
    for buffer in program.buffers:
        if buffer.slots < 1 or buffer.slot_bytes < 1 or buffer.offset < 0:
            yield f"buffer {buffer.name!r} has {buffer.slots} slots of {buffer.slot_bytes} bytes at {buffer.offset}"


def _operand_violations(program: TileProgram) -> Iterator[str]:
    """Yields operands that name a missing argument, buffer or slot, or reach outside of it."""
    arguments = np.array([_storage_elements(a.shape, a.strides, a.offset) for a in program.arguments], np.int64)
    argument_bytes = arguments * np.array([a.element_bytes for a in program.arguments], np.int64)
    slot_bytes = np.array([buffer.slot_bytes for buffer in program.buffers], np.int64)
    slots = np.array([buffer.slots for buffer in program.buffers], np.int64)
    reach = program.strides * (program.shape - 1)
    size = program.element_bytes
    first = (program.offset + np.minimum(reach, 0).sum(1)) * size
    end = (program.offset + np.maximum(reach, 0).sum(1) + 1) * size
    owner = program.owners()
    for space, what, room, names in (
        (Space.DRAM, "argument", argument_bytes, [a.name for a in program.arguments]),
        (Space.SCRATCHPAD, "buffer", slot_bytes, [b.name for b in program.buffers]),
    ):
        here = np.flatnonzero(program.space == space)
        target = program.target[here]
        missing = here[(target < 0) | (target >= len(room))]
        for index in missing[:MOST]:
            label, named = label_of(program, int(owner[index])), f"{what} {program.target[index]}"
            yield f"{label} names {named}, which is not there: {_numbered(names) or 'it has none'}"
        if len(missing):
            continue
        outside = here[(first[here] < 0) | (end[here] > room[target])]
        for index in outside[:MOST]:
            name, most = names[program.target[index]], room[program.target[index]]
            reached = f"reaches bytes {first[index]} to {end[index]} of {name!r}"
            yield f"{label_of(program, int(owner[index]))} {reached}, which has {most}"
        depth = slots[target] if space == Space.SCRATCHPAD else np.ones(len(here), np.int64)
        for index in here[(program.slot[here] < 0) | (program.slot[here] >= depth)][:MOST]:
            name = names[program.target[index]]
            yield f"{label_of(program, int(owner[index]))} uses slot {program.slot[index]} of {name!r}"
    here = np.flatnonzero(program.space == Space.SCRATCHPAD)
    cores = np.array([buffer.core for buffer in program.buffers], np.int64)
    if not np.any((program.target[here] < 0) | (program.target[here] >= len(cores))):
        for index in here[cores[program.target[here]] != program.core[owner[here]]][:MOST]:
            buffer, core = program.buffers[program.target[index]], program.core[owner[index]]
            label = label_of(program, int(owner[index]))
            yield f"{label} runs on core {core} and uses {buffer.name!r}, in the scratchpad of core {buffer.core}"


def _numbered(names: list[str], most: int = 8) -> str:
    shown = [f"{number} is {name!r}" for number, name in enumerate(names[:most])]
    return ", ".join(shown + (["..."] if len(names) > most else []))


def _storage_elements(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> int:
    if 0 in shape:
        return 0
    return offset + 1 + sum((extent - 1) * max(stride, 0) for extent, stride in zip(shape, strides, strict=True))


def _dependence_violations(program: TileProgram) -> Iterator[str]:
    owner = np.repeat(np.arange(len(program)), np.diff(program.dependence_start))
    unknown = np.flatnonzero((program.dependence < 0) | (program.dependence >= len(program)))
    for index in unknown[:MOST]:
        label = label_of(program, int(owner[index]))
        yield f"{label} waits for instruction {program.dependence[index]}, which is not there"
    if len(unknown):
        return
    wrong = np.flatnonzero(program.dependence >= owner)
    for index in wrong[:MOST]:
        yield (
            f"{label_of(program, int(owner[index]))} waits for instruction {program.dependence[index]}, "
            f"which is not earlier in the program{_circle(program, int(owner[index]))}"
        )
    if len(wrong):
        return
    links = np.flatnonzero(program.dependence_kind == DependenceKind.ACCUMULATE)
    earlier, later = program.dependence[links], owner[links]
    wrong = ~_chains(program, earlier, later)
    wrong[1:] |= later[1:] == later[:-1]  # a matmul cannot follow two matmuls
    for index in np.flatnonzero(wrong)[:MOST]:
        yield f"{label_of(program, int(later[index]))} cannot accumulate onto {label_of(program, int(earlier[index]))}"


def _circle(program: TileProgram, first: int) -> str:
    """The end of a message: the circle by which an instruction that waits for a later one waits for itself, if any."""
    starts, sources = program.dependence_start, program.dependence
    found = circle(first, lambda row: sources[starts[row] : starts[row + 1]].tolist())
    if not found:
        return ": it could never start"
    names = [f"{row} {Opcode(program.opcode[row]).name}" for row in found]
    return f": a circle in which all wait for ever: {told(names)}"


def _chains(program: TileProgram, earlier: I32, later: I64) -> npt.NDArray[np.bool_]:
    """For each pair, True if both are matmuls on one core and the later adds to the accumulator box of the earlier."""
    fits = (program.opcode[earlier] == Opcode.MATMUL) & (program.opcode[later] == Opcode.MATMUL)
    fits &= (program.accumulates[later] == 1) & (program.core[earlier] == program.core[later])
    fits &= np.diff(program.operand_start)[later] > ACCUMULATOR
    fits &= np.diff(program.operand_start)[earlier] > ACCUMULATOR
    first = np.where(fits, program.operand_start[earlier] + ACCUMULATOR, 0)
    second = np.where(fits, program.operand_start[later] + ACCUMULATOR, 0)
    for column in (program.space, program.target, program.slot, program.offset, program.shape, program.strides):
        same = column[first] == column[second]
        fits &= same if same.ndim == 1 else same.all(1)
    return fits
