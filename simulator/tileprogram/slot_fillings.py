"""Fillings: the successive contents of each slot of the scratchpad.

A slot is filled, read, and filled again. A filling begins with an instruction that only writes to the slot after its
old contents were read, and has all accesses up to the next such instruction. If a later access reads a byte that was
not written since, the instruction only added to the contents: both are one filling. Boxes are compared byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from simulator.tileprogram.boxes import Box, box_of, holds_together
from simulator.tileprogram.program import I64, Access, Space, TileProgram


@dataclass(frozen=True, slots=True)
class Fillings:
    """The fillings of a program, numbered slot by slot in program order."""

    buffer: I64
    slot: I64
    of_operand: I64
    """M: the filling to which each operand of the program belongs; -1 for operands in DRAM."""

    def __len__(self) -> int:
        return len(self.buffer)


@dataclass(frozen=True, slots=True)
class _Touch:
    instruction: int
    operand: int
    box: Box
    access: int


@dataclass(slots=True)
class _Filling:
    operands: list[int] = field(default_factory=list[int])
    written: dict[Box, None] = field(default_factory=dict[Box, None])
    is_read: bool = False


def fillings(program: TileProgram) -> Fillings:
    """The fillings of every slot."""
    touches = dict[tuple[int, int], list[_Touch]]()
    owner = program.owners()
    for operand in np.flatnonzero(program.space == Space.SCRATCHPAD).tolist():
        told = program.operand(operand)
        touch = _Touch(int(owner[operand]), operand, box_of(told), told.access)
        touches.setdefault((told.target, told.slot), []).append(touch)
    buffer, slot = list[int](), list[int]()
    of_operand = np.full(len(program.space), -1, np.int64)
    for place in sorted(touches):
        for found in _of_slot(touches[place]):
            of_operand[found.operands] = len(buffer)
            buffer.append(place[0])
            slot.append(place[1])
    return Fillings(np.array(buffer, np.int64), np.array(slot, np.int64), of_operand)


def _of_slot(touches: list[_Touch]) -> list[_Filling]:
    known = dict[tuple[frozenset[Box], Box], bool]()

    def is_held(box: Box, written: dict[Box, None]) -> bool:
        if box in written:
            return True
        key = frozenset(written), box
        if key not in known:
            known[key] = holds_together(written, box)
        return known[key]

    found = [_Filling()]
    for _, group in groupby(touches, key=lambda touch: touch.instruction):
        together = list(group)
        reads = [touch for touch in together if touch.access & Access.READ]
        if not reads and found[-1].is_read:
            found.append(_Filling())
        for touch in reads:
            while len(found) > 1 and not is_held(touch.box, found[-1].written):
                _add_to(found)
            found[-1].is_read = True
        found[-1].operands += [touch.operand for touch in together]
        found[-1].written |= dict.fromkeys(touch.box for touch in together if touch.access & Access.WRITE)
    return found


def _add_to(found: list[_Filling]) -> None:
    """Joins the last filling, which only added to the contents, to the filling before."""
    last = found.pop()
    found[-1].operands += last.operands
    found[-1].written |= last.written
    found[-1].is_read = True
