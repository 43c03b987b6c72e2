"""Barriers: where cores meet.

A core comes to a BARRIER when all its earlier instructions are complete. It goes on when all cores of the meeting have
come and the signal of the last one has crossed the interconnect. BARRIERs of one op in one iteration are one meeting,
and their extent says how many cores it takes. So an instruction after a meeting starts after all instructions of these
cores before it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.tileprogram.program import Opcode, TileProgram


def meetings(program: TileProgram) -> list[list[int]]:
    """The BARRIERs of each meeting, in program order."""
    found: dict[tuple[int, ...], list[int]] = {}
    for row in np.flatnonzero(program.opcode == Opcode.BARRIER).tolist():
        found.setdefault((int(program.op[row]), *program.iteration[row].tolist()), []).append(row)
    return list(found.values())


def meeting_of(program: TileProgram) -> dict[int, list[int]]:
    """The meeting that each BARRIER belongs to."""
    return {row: meeting for meeting in meetings(program) for row in meeting}


def violations(program: TileProgram) -> Iterator[str]:
    """Meetings to which a core comes twice, or to which more cores come than they are for."""
    for meeting in meetings(program):
        cores, sizes = program.core[meeting].tolist(), program.extent[meeting, 0].tolist()
        if len(set(sizes)) > 1:
            yield f"instructions {meeting} are one meeting, of {' and of '.join(map(str, sizes))} cores"
        elif len(set(cores)) < len(cores) or len(cores) > sizes[0]:
            yield f"instructions {meeting}, of cores {cores}, are one meeting of {sizes[0]} cores"


class Crossed:
    """The BARRIERs before an instruction, found while a program is walked in order."""

    def __init__(self, program: TileProgram) -> None:
        self._program, self._meeting = program, meeting_of(program)
        self._since: dict[int, list[int]] = {}
        self._last: dict[int, list[int]] = {}

    def before(self, index: int) -> list[int]:
        """The instructions that a BARRIER puts before the next one: each is complete before it starts.

        For a BARRIER these are its core's instructions since the last one; for the last of a meeting in program order,
        also the others of the meeting. For any other instruction they are its core's last BARRIER, and the last one of
        that meeting.
        """
        core = int(self._program.core[index])
        found = [row for row in self._last.get(core, ()) if row < index]
        if index in self._meeting:
            meeting = self._meeting[index]
            found += self._since.pop(core, [])
            found += meeting[:-1] if index == meeting[-1] else []
            self._last[core] = [index, meeting[-1]]
        self._since.setdefault(core, []).append(index)
        return sorted(set(found) - {index})
