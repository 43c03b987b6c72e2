"""What is wrong when nothing can start and nothing can issue: who waits for whom, from the state the engine stopped in.

A program of one core whose dependences all go backward never gets there, and no other passes `verify_tables`. Cores
that meet can: at a barrier to which one of them never comes, or only after what another does behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.errors import Deadlock
from simulator.records.spans import DONE, ISSUE
from simulator.tileprogram.barriers import meeting_of, meetings
from simulator.tileprogram.circular_waits import circle, told
from simulator.tileprogram.program import I64, Opcode, TileProgram
from simulator.units.cost_table import CLASS, Work


def deadlock(
    program: TileProgram, asked: Work, spans: I64, queues: Sequence[Sequence[int]], window: int, cycle: int
) -> Deadlock:
    """The error for a launch that stands still, its instructions in `queues`, the first of each queue first."""
    rows = len(spans)
    met = meeting_of(program)
    ahead = {row: queue[place] for queue in queues for place, row in enumerate(queue[1:])}
    waiting = [row for row in range(rows) if spans[row, DONE] < 0]

    def dependences(row: int) -> list[int]:
        sources = asked.dependence[asked.dependence_start[row] : asked.dependence_start[row + 1]].tolist()
        column = ISSUE if row in met else DONE
        return [source for source in sources if spans[source, column] < 0]

    def awaited(row: int) -> list[int]:
        if spans[row, ISSUE] >= 0:
            return dependences(row) + ([ahead[row]] if row in ahead else [])
        own = [each for each in range(row) if program.core[each] == program.core[row]]
        late = [each for each in own if spans[each, DONE] < 0]
        if own and spans[own[-1], ISSUE] < 0:
            return [own[-1]]  # issue is in order
        if late and (row in met or late[0] in met or len(own) - own.index(late[0]) >= window):
            return [late[0]]
        full = (queue[0] for queue in queues if queue and asked.table[queue[0], CLASS] == asked.table[row, CLASS])
        return [head for head in full if program.core[head] == program.core[row]]

    def named(row: int) -> str:
        on = f" on core {program.core[row]}" if program.core.any() else ""
        return f"{row} {Opcode(program.opcode[row]).name}{on}"

    absent = [
        f"only core {' and '.join(map(str, program.core[meeting]))} of {size} ever comes to the barrier {meeting[0]}"
        for meeting in meetings(program)
        if len(meeting) < (size := int(program.extent[meeting[0], 0]))
    ]
    names = [] if absent else list(map(named, circle(waiting[0], awaited)))
    return Deadlock(program.kernel, cycle, len(waiting), rows, told(names), "; ".join(absent))
