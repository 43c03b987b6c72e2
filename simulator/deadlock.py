"""What is wrong when nothing can start and nothing can issue: who waits for whom, from the state the engine stopped in.

A program whose dependences all go backward never gets there, and no other passes `verify_tables`. So this is for
faults, of the simulator or of what makes programs; without it they would hang.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.circles import circle, told
from simulator.costs import CLASS, Work
from simulator.errors import Deadlock
from simulator.program import I64, Opcode, TileProgram
from simulator.spans import DONE, ISSUE


def deadlock(
    program: TileProgram, asked: Work, spans: I64, queues: Sequence[Sequence[int]], window: int, cycle: int
) -> Deadlock:
    """The error for a launch that stands still, its instructions in `queues`, the first of each queue first."""
    rows = len(spans)
    ahead = {row: queue[place] for queue in queues for place, row in enumerate(queue[1:])}
    waiting = [row for row in range(rows) if spans[row, DONE] < 0]

    def dependences(row: int) -> list[int]:
        sources = asked.dependence[asked.dependence_start[row] : asked.dependence_start[row + 1]].tolist()
        return [source for source in sources if spans[source, DONE] < 0]

    def awaited(row: int) -> list[int]:
        if spans[row, ISSUE] >= 0:
            return dependences(row) + ([ahead[row]] if row in ahead else [])
        if row > 0 and spans[row - 1, ISSUE] < 0:
            return [row - 1]  # issue is in order
        if row - waiting[0] >= window:
            return [waiting[0]]
        return [queue[0] for queue in queues if queue and asked.table[queue[0], CLASS] == asked.table[row, CLASS]]

    names = [f"{row} {Opcode(program.opcode[row]).name}" for row in circle(waiting[0], awaited)]
    return Deadlock(program.kernel, cycle, len(waiting), rows, told(names))
