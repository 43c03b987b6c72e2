"""Lifetimes: the stretches of time in which a slot of the scratchpad held live data.

A lifetime is a filling of a slot (see tileprogram/slot_fillings.py) on the timeline: from the start of the first
instruction that touches the filling until its last use has ended and its last write is complete. Fillings of one slot
that overlap in time, because parts of the slot are filled again while others are still read, are one lifetime.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from simulator.tileprogram.program import I64, Access, Space, TileProgram
from simulator.tileprogram.slot_fillings import Fillings, fillings
from simulator.trace_record import TraceRecord


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One stretch of time in which a slot holds live data, in cycles; in instructions for a program without a trace."""

    launch: int
    buffer: int
    slot: int
    start: int
    read: int
    """The time at which its contents are read for the first time; `end` if never."""
    end: int
    fillings: tuple[int, ...]
    """The numbers of the program's fillings in this lifetime."""


def lifetimes(trace: TraceRecord) -> Iterator[tuple[Fillings, list[Lifetime]]]:
    """For each launch, the fillings of its program, and the lifetimes sorted by buffer, slot and time."""
    trace.check_has_programs(_WHY)
    known = dict[int, Fillings]()
    for number, launched in enumerate(trace.launches):
        key = id(launched.program)
        found = lifetimes_of(trace, number, known.get(key))
        known[key] = found[0]
        yield found


def lifetimes_of(trace: TraceRecord, launch: int, filled: Fillings | None = None) -> tuple[Fillings, list[Lifetime]]:
    """The fillings and lifetimes of one launch; `filled` are the fillings of its program, if they are known already."""
    trace.check_has_programs(_WHY)
    program, here = trace.launches[launch].program, trace.rows_of(launch)
    filled = fillings(program) if filled is None else filled
    return filled, _of_launch(launch, program, filled, trace.start[here], trace.end[here], trace.done[here])


_WHY = "which say what lies in the scratchpad"


def in_program_order(program: TileProgram) -> tuple[Fillings, list[Lifetime]]:
    """The fillings and lifetimes of a program that has not run: each instruction takes one step, in program order."""
    steps, filled = np.arange(len(program), dtype=np.int64), fillings(program)
    return filled, _of_launch(0, program, filled, steps, steps + 1, steps + 1)


def _of_launch(launch: int, program: TileProgram, filled: Fillings, start: I64, end: I64, done: I64) -> list[Lifetime]:
    count = len(filled)
    here = np.flatnonzero(program.space == Space.SCRATCHPAD)
    owner, filling = program.owners()[here], filled.of_operand[here]
    access = program.access[here]
    begin, read, over = np.full(count, _LATER), np.full(count, _LATER), np.zeros(count, np.int64)
    only_read = access == Access.READ
    np.minimum.at(begin, filling, start[owner])
    np.minimum.at(read, filling[only_read], start[owner[only_read]])
    np.maximum.at(over, filling, np.where(only_read, end[owner], done[owner]))
    out = list[Lifetime]()
    for number in np.lexsort((begin, filled.slot, filled.buffer)).tolist():
        places = (int(filled.buffer[number]), int(filled.slot[number]))
        times = (int(begin[number]), int(min(read[number], over[number])), int(over[number]))
        made = Lifetime(launch, *places, *times, (number,))
        before = out[-1] if out else None
        if before and (before.buffer, before.slot) == places and made.start < before.end:
            out[-1] = replace(
                before,
                read=min(before.read, made.read),
                end=max(before.end, made.end),
                fillings=(*before.fillings, number),
            )
        else:
            out.append(made)
    return out


_LATER = np.iinfo(np.int64).max
