"""Gives a program more slots, so that its waits for a free slot get shorter or vanish.

Slots of a buffer take turns: the load of the next tile waits until the tile in its slot has been used. With more slots
the program has the same instructions in the same order, and its tiles take turns in more slots.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.buffer_addresses import ordered
from simulator.tileprogram.program import DependenceKind, Opcode, Space, TileProgram

FOR_ROOM = (DependenceKind.WRITE_AFTER_READ, DependenceKind.WRITE_AFTER_WRITE, DependenceKind.REUSE)
"""The kinds of waits that vanish if every written tile has a place of its own."""

_WRITES_MEMORY = (Opcode.STORE, Opcode.SCATTER, Opcode.DIRECT)


def with_room_for_all(program: TileProgram) -> TileProgram:
    """Returns the program without waits for free slots: a bound on its speed, not a program to run."""
    owner = np.repeat(np.arange(len(program)), np.diff(program.dependence_start))
    gone = np.isin(program.dependence_kind, FOR_ROOM) & ~np.isin(program.opcode[owner], _WRITES_MEMORY)
    counts = np.bincount(owner[~gone], minlength=len(program))
    return dataclasses.replace(
        program,
        dependence_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        dependence=program.dependence[~gone],
        dependence_kind=program.dependence_kind[~gone],
    )


def with_slots(program: TileProgram, slots: int, capacity: int) -> TileProgram | None:
    """Returns the program with `slots` slots in every buffer whose slots take turns.

    If no buffer has more than one slot, those buffers get more whose tiles are loaded or stored several times. None if
    a scratchpad of `capacity` bytes does not hold all buffers side by side, or a buffer's slots are not used in turn.
    """
    slot, buffers, free = program.slot.copy(), list(program.buffers), dict[int, int]()
    single = all(buffer.slots == 1 for buffer in buffers)
    for number, buffer in enumerate(buffers):
        here = np.flatnonzero((program.space == Space.SCRATCHPAD) & (program.target == number))
        steps = _tiles_moved(program, here) if single else np.diff(slot[here], prepend=slot[here[:1]]) % buffer.slots
        if np.any(steps > 1):
            return None
        if steps.any():
            slot[here] = np.cumsum(steps) % slots
            buffer = dataclasses.replace(buffer, slots=slots)
        offset = free.get(buffer.core, 0)
        buffers[number] = dataclasses.replace(buffer, offset=offset)
        free[buffer.core] = offset + buffer.bytes
    if max(free.values(), default=0) > capacity:
        return None
    return ordered(dataclasses.replace(program, slot=slot, buffers=tuple(buffers)))


def _tiles_moved(program: TileProgram, here: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each use of a one-slot buffer, 1 if another tile begins there, else 0: at a load after a use, or at a use
    after a store."""
    owner = np.repeat(program.opcode, np.diff(program.operand_start))[here]
    loads, stores = np.isin(owner, [Opcode.LOAD, Opcode.GATHER]), np.isin(owner, _WRITES_MEMORY)
    begins = (loads[1:] & ~loads[:-1]) | (stores[:-1] & ~stores[1:])
    return np.concatenate([np.zeros(min(len(here), 1), np.int64), begins.astype(np.int64)])
