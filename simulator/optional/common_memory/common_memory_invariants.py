"""Checks the common memory's invariants in a trace, byte by byte, in the order of launches and of time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.optional.common_memory.residents import Resident, held_bytes
from simulator.optional.feature import Audited
from simulator.records.spans import Via
from simulator.tileprogram.boxes import bytes_of
from simulator.tileprogram.program import I64, Opcode, Space

_NOT_THERE = np.iinfo(np.int64).max


def violations(audited: Audited) -> Iterator[str]:
    """Yields residents without room, copies that find a box before it is there, and copies from the wrong memory."""
    trace, residents = audited.trace, audited.trace.asked.get("residents", ())
    if not residents:
        return
    held, capacity = held_bytes(residents, len(trace.launches)), trace.machine.common_memory.bytes
    for launch in np.flatnonzero(held > capacity).tolist():
        yield f"{held[launch]} bytes are resident in launch {launch}, the common memory holds {capacity}"
    there = {each.name: np.full(each.bytes, _NOT_THERE) for each in residents}
    for launch, launched, rows in trace.programs():
        here = {each.address: each for each in residents if each.kept(launch)}
        copies = np.isin(launched.program.opcode, [Opcode.LOAD, Opcode.STORE])
        brought = list[tuple[Resident, I64, int]]()
        for row in np.flatnonzero(copies).tolist():
            span, instruction = rows.start + row, launched.program.instruction(row)
            operand = next(each for each in instruction.operands if each.space == Space.DRAM)
            resident, common = here.get(launched.addresses[operand.target]), trace.via[span] == Via.SECOND
            name = f"instruction {row} of launch {launch}"
            if trace.via[span] == Via.SKIPPED:
                continue
            if resident is None:
                if common:
                    yield f"{name} asks the common memory for what is not resident"
                continue
            if resident.alone != common and (resident.alone or instruction.opcode == Opcode.STORE):
                yield f"{name} goes to {'the common memory' if common else 'DRAM'} with {resident.name!r}"
            brought.append((resident, bytes_of(operand), span))
        for resident, places, span in brought:  # boxes that a launch brings are there when it is complete
            if trace.via[span] == Via.DRAM:
                there[resident.name][places] = np.minimum(there[resident.name][places], trace.done[span])
        for resident, places, span in brought:
            found = there[resident.name][places].max(initial=0)
            if trace.via[span] == Via.SECOND and not resident.alone and found > trace.start[span]:
                yield f"span {span} takes {resident.name!r} from the common memory before all of it is there"
