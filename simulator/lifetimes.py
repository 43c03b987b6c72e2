"""Lifetimes: from which cycle to which a slot of the scratchpad held something.

A lifetime is a filling of a slot (see fillings.py) on the timeline: from the start of the first instruction that
touches it until what it was filled with is used for the last time and the last write to it is complete. Fillings of one
slot that meet in time, because other parts of it are filled anew while some are still read, are one lifetime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import SimulatorError
from simulator.fillings import Fillings, fillings, owners
from simulator.program import I64, Access, Space, TileProgram

if TYPE_CHECKING:
    from simulator.trace import Trace


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One stretch of time in which a slot holds something; of a program without a trace, in instructions."""

    launch: int
    buffer: int
    slot: int
    first: int
    read: int
    """When something that was filled in is read for the first time; `last` if it never is."""
    last: int
    """The first cycle in which it is not needed any more."""
    fillings: tuple[int, ...]
    """Numbers of the program's fillings that it holds."""


def lifetimes(trace: Trace) -> list[Lifetime]:
    """The lifetimes of all launches, by launch, buffer, slot and time."""
    if trace.kernels and not trace.launches:
        raise SimulatorError("this trace was loaded without its programs, which say what lies in the scratchpad")
    known = dict[int, Fillings]()
    starts = np.searchsorted(trace.launch, np.arange(len(trace.launches))).tolist()
    out = list[Lifetime]()
    for launch, first in enumerate(starts):
        program = trace.launches[launch].program
        here = slice(first, first + len(program))
        if id(program) not in known:
            known[id(program)] = fillings(program)
        out += _of_launch(launch, program, known[id(program)], trace.start[here], trace.end[here], trace.done[here])
    return out


def in_program_order(program: TileProgram) -> list[Lifetime]:
    """The lifetimes of a program that nobody ran: each instruction takes one step, in program order."""
    steps = np.arange(len(program), dtype=np.int64)
    return _of_launch(0, program, fillings(program), steps, steps + 1, steps + 1)


def _of_launch(
    launch: int, program: TileProgram, filled: Fillings, start: I64, end: I64, done: I64
) -> list[Lifetime]:
    count = len(filled)
    here = np.flatnonzero(program.space == Space.SCRATCHPAD)
    owner, filling = owners(program)[here], filled.of_operand[here]
    access = program.access[here]
    first, read, last = np.full(count, _LATER), np.full(count, _LATER), np.zeros(count, np.int64)
    np.minimum.at(first, filling, start[owner])
    only_read = access == Access.READ
    np.minimum.at(read, filling[only_read], start[owner[only_read]])
    np.maximum.at(last, filling, np.where(only_read, end[owner], done[owner]))
    out = list[Lifetime]()
    order = np.lexsort((first, filled.slot, filled.buffer))
    for number in order.tolist():
        made = Lifetime(
            launch,
            int(filled.buffer[number]),
            int(filled.slot[number]),
            int(first[number]),
            int(min(read[number], last[number])),
            int(last[number]),
            (number,),
        )
        before = out[-1] if out else None
        if before and (before.buffer, before.slot) == (made.buffer, made.slot) and made.first < before.last:
            out[-1] = _joined(before, made)
        else:
            out.append(made)
    return out


_LATER = np.iinfo(np.int64).max


def _joined(a: Lifetime, b: Lifetime) -> Lifetime:
    return Lifetime(
        a.launch, a.buffer, a.slot, a.first, min(a.read, b.read), max(a.last, b.last), a.fillings + b.fillings
    )
