"""The common memory: a second memory between the scratchpads and DRAM, which all cores share.

A plan says which tensors the common memory keeps, from which launch to which (`Resident`); nothing else enters it. The
plan and the programs determine which copies the common memory serves. There are two kinds of residents:

    in both       a tensor that DRAM holds as well: a weight, an input, a result. The first copy of a box brings it from
                  DRAM, and the common memory keeps it in passing; writes go to both memories. A launch finds all
                  bytes that earlier launches brought or wrote, whatever their tiles were, and boxes that it brought
                  itself.
    here alone    a tensor that is made and used up while it is resident. None of its bytes are in DRAM.

A copy that the common memory serves takes this memory's bus (memory/bus.py) and the latency of the interconnect, but no
links of a crossbar or mesh. Keeping a box in passing costs nothing beside the way from DRAM. A copy waits for the copy
that brought its box; if the cores' order does not guarantee that the other copy comes first, it goes to DRAM itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.errors import CommonMemoryFull, LaunchError
from simulator.machine.machine import Machine
from simulator.optional.feature import Followed
from simulator.records.spans import Launched
from simulator.tileprogram.boxes import distinct_boxes, in_pieces
from simulator.tileprogram.program import I64, U8, Opcode, Space, TileProgram
from simulator.units.cost_table import Spared, none_spared
from simulator.units.unit import Mask


@dataclass(frozen=True, slots=True)
class Resident:
    """A tensor that the common memory keeps from launch `first` to launch `last`, both included."""

    name: str
    address: int
    """The address of the tensor's storage in DRAM, as launches give it for the argument."""
    bytes: int
    first: int
    last: int
    alone: bool
    """True if the tensor is in the common memory alone, not in DRAM as well."""

    def kept(self, launch: int) -> bool:
        return self.first <= launch <= self.last


@dataclass(slots=True)
class _Kept:
    """The present parts of a resident: a bool for each `piece` bytes, as long as its smallest element so far."""

    resident: Resident
    piece: int
    present: Mask


def check_plan(residents: Sequence[Resident], machine: Machine, launches: int) -> None:
    """Raises `CommonMemoryFull` if more is resident in some launch than the common memory holds."""
    held = held_bytes(residents, launches)
    fullest = int(held.argmax()) if launches else 0
    if launches and held[fullest] > machine.common_memory.bytes:
        crowd = [(each.name, each.bytes) for each in residents if each.kept(fullest)]
        raise CommonMemoryFull(fullest, int(held[fullest]), machine.common_memory.bytes, crowd)


def held_bytes(residents: Sequence[Resident], launches: int) -> I64:
    """For each launch, the number of bytes that are resident."""
    change = np.zeros(launches + 1, np.int64)
    for each in residents:
        change[max(each.first, 0)] += each.bytes
        change[min(each.last, launches - 1) + 1] -= each.bytes
    return np.cumsum(change)[:launches]


class CommonMemory(Followed):
    """Tracks the contents of the common memory, from launch to launch."""

    def __init__(self, residents: Sequence[Resident]) -> None:
        self.residents = residents
        self._there: dict[str, _Kept] = {}

    def spare(
        self, number: int, launched: Launched, spared: Spared | None = None, via: U8 | None = None
    ) -> Spared | None:
        """Adds the copies of the next launch that the common memory serves to `spared`, without skipped copies."""
        here = {each.address: each for each in self.residents if each.kept(number) and each.bytes}
        places: dict[Resident, list[int]] = {}
        for place, address in enumerate(launched.addresses):
            if address in here:
                places.setdefault(here[address], []).append(place)
        if not places:
            return spared
        program, waits = launched.program, list[tuple[int, int]]()
        served, _, left_out = spared or none_spared(len(program))
        for resident, arguments in places.items():
            operands = _copied(program, arguments, resident, f"launch {number} of {launched.kernel!r}")
            operands = operands[~left_out[program.owners()[operands]]]
            owner = program.owners()[operands]
            if resident.alone:
                served[owner] = True
            else:
                waits += self._both(resident, program, operands, owner, served)
        return Spared(served, np.array(waits, np.int64).reshape(-1, 2), left_out)

    def _both(
        self, resident: Resident, program: TileProgram, operands: I64, owner: I64, served: Mask
    ) -> Iterator[tuple[int, int]]:
        """Marks the loads that find their box in `served`; yields (load, copy) if a copy of this launch brings it."""
        nothing = _Kept(resident, 8, np.zeros(-(-resident.bytes // 8), np.bool_))
        kept = self._there.setdefault(resident.name, nothing)
        piece = int(program.element_bytes[operands].min(initial=kept.piece))
        kept.present, kept.piece = np.repeat(kept.present, kept.piece // piece), piece
        boxes, first, box = distinct_boxes(program, operands)
        known = np.array(
            [bool(in_pieces(kept.present, kept.piece, program, operand).all()) for operand in boxes.tolist()], np.bool_
        )
        loads = program.opcode[owner] == Opcode.LOAD
        served[owner[loads & known[box]]] = True
        crossed = _crossed(program)
        for load in np.flatnonzero(loads & ~known[box]).tolist():
            row, brought = int(owner[load]), int(owner[first[box[load]]])
            if row != brought and (program.core[row] == program.core[brought] or crossed[brought] <= crossed[row]):
                served[row] = True
                yield row, brought
        for operand in boxes.tolist():
            in_pieces(kept.present, kept.piece, program, operand)[...] = True


def saved_bytes(resident: Resident, launches: Sequence[tuple[int, Launched]]) -> tuple[int, int]:
    """Bytes of reads and of writes that a resident keeps from DRAM, in `launches`: those that use it, numbered."""
    memory, read, written = CommonMemory((resident,)), 0, 0
    for number, launched in launches:
        served = memory.spare(number, launched)
        if served is None:
            continue
        program = launched.program
        operands = np.flatnonzero((program.space == Space.DRAM) & served.rows[program.owners()])
        size = program.shape[operands].prod(1) * program.element_bytes[operands]
        reads = program.opcode[program.owners()[operands]] == Opcode.LOAD
        read, written = read + int(size[reads].sum()), written + int(size[~reads].sum())
    return read, written


def _copied(program: TileProgram, arguments: Sequence[int], resident: Resident, where: str) -> I64:
    """The DRAM operands of these arguments. Raises unless all belong to copies within the resident."""
    operands = np.flatnonzero((program.space == Space.DRAM) & np.isin(program.target, arguments))
    opcodes = program.opcode[program.owners()[operands]]
    others = np.setdiff1d(opcodes, [Opcode.LOAD, Opcode.STORE])
    if len(others):
        raise LaunchError(
            f"{where}: a {Opcode(others[0]).name} asks for elements of {resident.name!r}, and the common memory serves "
            "copies of whole boxes"
        )
    steps = (program.shape[operands] - 1) * program.strides[operands]
    lowest = program.offset[operands] + np.minimum(steps, 0).sum(1)
    end = (program.offset[operands] + np.maximum(steps, 0).sum(1) + 1) * program.element_bytes[operands]
    if lowest.min(initial=0) < 0 or end.max(initial=0) > resident.bytes:
        raise LaunchError(f"{where}: a copy leaves {resident.name!r}, which is resident with {resident.bytes} bytes")
    return operands


def _crossed(program: TileProgram) -> I64:
    """For each instruction, the number of BARRIERs of its core up to it."""
    barriers = program.opcode == Opcode.BARRIER
    crossed = np.zeros(len(program), np.int64)
    for core in np.unique(program.core[barriers]).tolist():
        mine = program.core == core
        crossed[mine] = np.cumsum(barriers[mine])
    return crossed
