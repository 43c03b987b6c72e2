"""Checks the skipped instructions of a trace: follows zeros byte by byte, from the tensors' data on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.optional.feature import Audited
from simulator.optional.zero_tiles.skipping import known
from simulator.records.spans import Via
from simulator.tileprogram.boxes import bytes_of, elements_of
from simulator.tileprogram.program import Access, Opcode, Space
from simulator.units.unit import Mask


def violations(audited: Audited) -> Iterator[str]:
    """Yields skipped instructions whose data is not known to be zeros.

    A launch from a file, without its data, cannot be checked.
    """
    trace = audited.trace
    for index, launched, rows in trace.programs():
        left_out = trace.via[rows] == Via.SKIPPED
        if not left_out.any() or not launched.filled:
            continue
        empty, data = dict[tuple[int, int], Mask](), known(launched)
        for buffer, slots in ((number, each.slots) for number, each in enumerate(launched.program.buffers)):
            size = launched.program.buffers[buffer].slot_bytes
            empty |= {(buffer, slot): np.zeros(size, np.bool_) for slot in range(slots)}
        for row in range(len(launched.program)):
            instruction, name = launched.program.instruction(row), f"instruction {row} of launch {index}"
            if left_out[row] and instruction.opcode == Opcode.LOAD:
                place = instruction.operands[0].target
                values = data[place][elements_of(instruction.operands[0])] if place in data else None
                if values is None or values.any():
                    yield f"{name} was skipped, and what it loads is not known to be zeros"
            elif left_out[row]:
                factors = [empty[each.target, each.slot][bytes_of(each)] for each in instruction.operands[:2]]
                if instruction.opcode != Opcode.MATMUL or not any(factor.all() for factor in factors):
                    yield f"{name} was skipped, and none of its factors is known to be zeros"
            for operand in instruction.operands:
                if operand.space == Space.SCRATCHPAD and operand.access & Access.WRITE:
                    load = left_out[row] and instruction.opcode == Opcode.LOAD
                    empty[operand.target, operand.slot][bytes_of(operand)] = load
