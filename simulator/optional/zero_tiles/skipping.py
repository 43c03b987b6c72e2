"""Zero tiles: the instructions that a machine with `skips_zero_tiles` leaves out when a tensor's numbers are known.

Each tile of a tensor that is all zeros has a flag, which comes with the tensor. A copy of such a tile to the scratchpad
moves nothing: the tile in the scratchpad gets the flag, and its readers read zeros. If all tiles of one factor of a
product have the flag, the product adds nothing and is skipped; an accumulator without any added product is zeros. Any
other write to a tile takes its flag away, so computed tiles are never skipped. A skipped instruction issues and waits
like any other, and then takes no time. The simulator does not change the numbers of a run: if the other factor holds an
infinity, a real machine that skips would give other numbers.

The data decides what is skipped. It comes with the launch, in `Launched.filled`; without it nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator.errors import LaunchError
from simulator.machine.machine import Machine
from simulator.records.spans import Launched
from simulator.tileprogram.boxes import distinct_boxes, in_pieces
from simulator.tileprogram.program import Access, Opcode, Space, TileProgram
from simulator.units.unit import Mask


def skipped(launched: Launched, machine: Machine) -> Mask | None:
    """For each instruction of a launch, True if it is skipped; None if the machine or the launch rules out skipping."""
    if not machine.core.skips_zero_tiles or not launched.filled:
        return None
    found = _empty_loads(launched.program, known(launched))
    if found.any():
        _mark_products(launched.program, found)
    return found


def known(launched: Launched) -> Mapping[int, Mask]:
    """Argument -> its nonzero elements, for arguments with known numbers that the launch does not change."""
    arguments = zip(launched.addresses, launched.program.arguments, strict=True)
    written = {address for address, argument in arguments if argument.written}
    return {place: filled for place, filled in launched.filled.items() if launched.addresses[place] not in written}


def _empty_loads(program: TileProgram, filled: Mapping[int, Mask]) -> Mask:
    """For each instruction, True if it loads a box of zeros alone from DRAM."""
    owner = program.owners()
    loads = (program.space == Space.DRAM) & (program.opcode[owner] == Opcode.LOAD)
    found = np.zeros(len(program), np.bool_)
    for place, elements in filled.items():
        operands = np.flatnonzero(loads & (program.target == place))
        boxes, _, box = distinct_boxes(program, operands)
        empty = np.array([not _box(elements, program, operand).any() for operand in boxes.tolist()], np.bool_)
        found[owner[operands[empty[box]]]] = True
    return found


def _box(elements: Mask, program: TileProgram, operand: int) -> Mask:
    """The operand's box as a view of `elements`."""
    shape, strides = program.shape[operand].tolist(), program.strides[operand].tolist()
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    begin = int(program.offset[operand])
    if begin + sum(min(step, 0) for step in steps) < 0 or begin + sum(max(step, 0) for step in steps) >= len(elements):
        raise LaunchError(f"{program.kernel!r} loads elements of which `filled` does not tell: it has {len(elements)}")
    return np.lib.stride_tricks.as_strided(elements[begin:], shape, [stride * elements.itemsize for stride in strides])


def _mark_products(program: TileProgram, found: Mask) -> None:
    """Marks in `found` the products with a factor of flagged tiles alone; follows the flags in program order."""
    flags = _Flags(program)
    for row in range(len(program)):
        first, last = int(program.operand_start[row]), int(program.operand_start[row + 1])
        opcode = program.opcode[row]
        if opcode == Opcode.MATMUL:
            found[row] = any(bool(flags.of(operand).all()) for operand in (first, first + 1))
        for operand in range(first, last):
            if program.space[operand] == Space.SCRATCHPAD and program.access[operand] & Access.WRITE:
                flags.of(operand)[...] = found[row] and opcode == Opcode.LOAD


class _Flags:
    """The flagged pieces of each slot; a piece is as large as the smallest element of the buffer's operands."""

    def __init__(self, program: TileProgram) -> None:
        self._program = program
        inside = program.space == Space.SCRATCHPAD
        self._piece = np.full(len(program.buffers), 8, np.int64)
        np.minimum.at(self._piece, program.target[inside], program.element_bytes[inside])
        self._slots: dict[tuple[int, int], Mask] = {}

    def of(self, operand: int) -> Mask:
        """A view of the flags of an operand's box."""
        program = self._program
        buffer, slot = int(program.target[operand]), int(program.slot[operand])
        piece = int(self._piece[buffer])
        if (buffer, slot) not in self._slots:
            self._slots[buffer, slot] = np.zeros(program.buffers[buffer].slot_bytes // piece, np.bool_)
        return in_pieces(self._slots[buffer, slot], piece, program, operand)
