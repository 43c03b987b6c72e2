"""Why a program never ends: which instruction waits for which, followed until the way leads in a circle."""

from __future__ import annotations

import numpy as np

from simulator.barriers import meeting_of
from simulator.costs import CLASS, Work
from simulator.errors import Deadlock
from simulator.program import I64, Opcode, TileProgram
from simulator.spans import DONE, ISSUE, START


def deadlock(program: TileProgram, asked: Work, spans: I64) -> Deadlock:
    """The error that tells it, given what was issued, started and done when no event was possible any more."""
    rows, told = list[int](), list[str]()
    row: int | None = int(np.flatnonzero(spans[:, START] < 0)[0])
    while row is not None and row not in rows:
        rows.append(row)
        row, what = _awaited(program, asked, spans, row)
        told.append(f"{_label(program, rows[-1])} waits for {what}")
    first = 0 if row is None else rows.index(row)
    return Deadlock(program.kernel, tuple(rows[first:]), told[first:], circle=row is not None)


def _awaited(program: TileProgram, asked: Work, spans: I64, row: int) -> tuple[int | None, str]:
    """What an instruction that has not started waits for, and how that is said; None for what does not exist."""
    core = int(program.core[row])
    own = np.flatnonzero(program.core[:row] == core)
    if spans[row, ISSUE] < 0:
        if len(own) and spans[own[-1], ISSUE] < 0:
            return _one(program, int(own[-1]), "to be issued before it")
        late = own[spans[own, DONE] < 0]
        if program.opcode[row] == Opcode.BARRIER or (len(own) and program.opcode[own[-1]] == Opcode.BARRIER):
            return _one(program, int(late[0]), "to be complete")
        ahead = late[spans[late, START] < 0]
        same = ahead[asked.table[ahead, CLASS] == asked.table[row, CLASS]]
        return _one(program, int((same if len(same) else late)[0]), "to make room")
    if program.opcode[row] == Opcode.BARRIER:
        return _missing(program, spans, row)
    for edge in range(int(program.dependence_start[row]), int(program.dependence_start[row + 1])):
        if spans[program.dependence[edge], DONE] < 0:
            return _one(program, int(program.dependence[edge]), "to be complete")
    queued = own[(spans[own, START] < 0) & (asked.table[own, CLASS] == asked.table[row, CLASS])]
    return _one(program, int(queued[0]), "to leave its queue")


def _missing(program: TileProgram, spans: I64, row: int) -> tuple[int | None, str]:
    """What a BARRIER to which its own core has come waits for."""
    meeting = meeting_of(program)[row]
    for other in meeting:
        if spans[other, ISSUE] < 0:
            return _one(program, other, "to be reached")
    cores = sorted(program.core[meeting].tolist())
    return None, f"{program.extent[row, 0]} cores, but only {', '.join(map(str, cores))} ever come to this barrier"


def _one(program: TileProgram, row: int, what: str) -> tuple[int, str]:
    return row, f"{_label(program, row)} {what}"


def _label(program: TileProgram, row: int) -> str:
    opcode, op = Opcode(program.opcode[row]).name, program.ops[int(program.op[row])]
    return f"instruction {row} ({opcode} on core {program.core[row]}, line {op.line})"
