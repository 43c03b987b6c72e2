"""Barriers: where cores meet.

A core comes to a BARRIER when all its earlier instructions are complete. It goes on when all cores of the meeting have
come and the signal of the last core has crossed the interconnect. BARRIERs of one op in one iteration are one meeting;
their extent is the number of cores that must come. So an instruction after a meeting starts after all instructions of
these cores before the meeting.
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
    """BARRIER -> its meeting, the list of all its BARRIERs."""
    return {row: meeting for meeting in meetings(program) for row in meeting}


def violations(program: TileProgram) -> Iterator[str]:
    """Yields meetings whose BARRIERs differ in their number of cores, and meetings with too many or repeated cores."""
    for meeting in meetings(program):
        cores, sizes = program.core[meeting].tolist(), program.extent[meeting, 0].tolist()
        if len(set(sizes)) > 1:
            yield f"instructions {meeting} are one meeting, of {' and of '.join(map(str, sizes))} cores"
        elif len(set(cores)) < len(cores) or len(cores) > sizes[0]:
            yield f"instructions {meeting}, of cores {cores}, are one meeting of {sizes[0]} cores"


class Crossed:
    """Finds the instructions that BARRIERs put before an instruction; call `before` for all instructions in order."""

    def __init__(self, program: TileProgram) -> None:
        self._program, self._meeting = program, meeting_of(program)
        self._since: dict[int, list[int]] = {}
        self._last: dict[int, list[int]] = {}

    def before(self, index: int) -> list[int]:
        """The instructions that are complete before the next instruction, `index`, starts, because of BARRIERs.

        For a BARRIER these are its core's instructions since its core's last BARRIER; for the last BARRIER of a meeting
        in program order, also the others of the meeting. For any other instruction they are its core's last BARRIER,
        and the last BARRIER of that meeting.
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
