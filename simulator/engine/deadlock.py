"""Explains a deadlock: finds which instructions wait for one another, from the state in which the engine stopped.

A program of one core never deadlocks, since `verify_tables` allows only dependences on earlier instructions. Cores that
meet can deadlock: at a barrier that a core never reaches, or reaches only after an instruction that another core has
behind the barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.errors import Deadlock
from simulator.records.spans import SpanTable
from simulator.tileprogram.barriers import meeting_of, meetings
from simulator.tileprogram.circular_waits import circle, told
from simulator.tileprogram.program import Opcode, TileProgram
from simulator.units.cost_table import Work


def deadlock(
    program: TileProgram, asked: Work, spans: SpanTable, queues: Sequence[Sequence[int]], window: int, cycle: int
) -> Deadlock:
    """The error for a deadlocked launch; `queues` lists the waiting instructions, the head of each queue first."""
    rows = len(program)
    met = meeting_of(program)
    ahead = {row: queue[place] for queue in queues for place, row in enumerate(queue[1:])}
    waiting = [row for row in range(rows) if spans.done[row] < 0]

    def dependences(row: int) -> list[int]:
        sources = asked.dependence[asked.dependence_start[row] : asked.dependence_start[row + 1]].tolist()
        known = spans.issue if row in met else spans.done
        return [source for source in sources if known[source] < 0]

    def awaited(row: int) -> list[int]:
        if spans.issue[row] >= 0:
            return dependences(row) + ([ahead[row]] if row in ahead else [])
        own = [each for each in range(row) if program.core[each] == program.core[row]]
        late = [each for each in own if spans.done[each] < 0]
        if own and spans.issue[own[-1]] < 0:
            return [own[-1]]  # issue is in order
        if late and (row in met or late[0] in met or len(own) - own.index(late[0]) >= window):
            return [late[0]]
        full = (queue[0] for queue in queues if queue and asked.table.kind[queue[0]] == asked.table.kind[row])
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
