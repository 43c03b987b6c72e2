"""A core's issue stage: the cycle and the queue of its next issue, and the instructions that are complete."""

from __future__ import annotations

from simulator.compiled import compiled
from simulator.engine.state import NEVER, Figures, Kinds, Launch, LoopWork
from simulator.records.spans import Cause
from simulator.units.cost_table import CostTable
from simulator.units.unit import MEETS, Selection


@compiled
def _queue_for(row: int, table: CostTable, kinds: Kinds, figures: Figures, launch: Launch, now: int) -> int:
    """The unit to whose queue an instruction goes, -1 while no allowed queue has room."""
    kind, core, units = table.kind[row], table.core[row], launch.units
    first = core * figures.units + kinds.first[kind]
    last = first + kinds.number[kind]
    if table.chain[row] >= 0:  # the array that holds the sum it adds to
        first = launch.spans.unit[table.chain[row]]
        last = first + 1
    elif kinds.selection[kind] == Selection.IN_TURN:
        first += launch.stages.turn[core, kind]
        last = first + 1
    best, least = -1, NEVER
    for number in range(first, last):
        if units.standing[number] == figures.depth:
            continue
        ahead = 2 * units.standing[number] + (1 if units.free[number] > now else 0)
        if kinds.selection[kind] == Selection.FREE_FIRST:
            ahead = max(units.free[number], now) + units.backlog[number]
        if ahead < least:
            best, least = number, ahead
    return best


@compiled
def issue_time(work: LoopWork, kinds: Kinds, figures: Figures, launch: Launch, core: int) -> int:
    """The cycle in which a core's next instruction can issue; `NEVER` while another event must come first."""
    stages, order, spans, table = launch.stages, launch.order, launch.spans, work.table
    index, base = stages.next[core], stages.base[core]
    if index >= stages.length[core]:
        return NEVER
    row = int(order[base + index])
    time = launch.shared.begin[0] if index == 0 else stages.time[core] + figures.interval
    needed = _needed(table, figures, row, index)
    if needed > 0:
        if stages.retired[core] < needed:
            return NEVER
        time = max(time, spans.done[launch.retired[base + needed - 1]])
    if index > 0 and table.mark[order[base + index - 1]] == MEETS:
        met = order[base + index - 1]
        if spans.done[met] < 0:
            return NEVER
        time = max(time, spans.done[met])
    if _queue_for(row, table, kinds, figures, launch, time) < 0:
        stages.blocked[core] = 1
        return NEVER
    if stages.blocked[core] == 1:
        time = max(time, stages.freed[core])
    return time


@compiled
def _needed(table: CostTable, figures: Figures, row: int, index: int) -> int:
    """Number of its core's first instructions that must be complete before `row` issues: all before a BARRIER."""
    return index if table.mark[row] == MEETS else index - figures.window + 1


@compiled
def issue_next(time: int, work: LoopWork, kinds: Kinds, figures: Figures, launch: Launch, core: int) -> None:
    """Issues a core's next instruction, and records when each constraint of its issue was met."""
    units, spans, met, by = launch.units, launch.spans, launch.met, launch.by
    stages, order, table = launch.stages, launch.order, work.table
    index, base = stages.next[core], stages.base[core]
    row = int(order[base + index])
    needed = _needed(table, figures, row, index)
    met[row, Cause.LAUNCH], by[Cause.LAUNCH] = launch.shared.begin[0], -1
    if index > 0:
        before = order[base + index - 1]
        met[row, Cause.ISSUE], by[Cause.ISSUE] = stages.time[core] + figures.interval, before
        if table.mark[before] == MEETS:
            met[row, Cause.BARRIER], by[Cause.BARRIER] = spans.done[before], before
    if needed > 0:
        column = Cause.BARRIER.value if table.mark[row] == MEETS else Cause.WINDOW.value
        latest = launch.retired[base + needed - 1]
        if spans.done[latest] > met[row, column]:
            met[row, column], by[column] = spans.done[latest], latest
    if stages.blocked[core] == 1:
        met[row, Cause.QUEUE_FULL], by[Cause.QUEUE_FULL] = stages.freed[core], stages.freed_by[core]
    cause = Cause.LAUNCH.value
    for candidate in range(Cause.QUEUE_FULL.value + 1):
        if met[row, candidate] >= met[row, cause]:
            cause = candidate
    if met[row, Cause.BARRIER] >= met[row, cause]:
        cause = Cause.BARRIER.value
    number, kind = _queue_for(row, table, kinds, figures, launch, time), table.kind[row]
    if table.chain[row] < 0:
        stages.turn[core, kind] = (stages.turn[core, kind] + 1) % kinds.number[kind]
    units.queue[number, (units.head[number] + units.standing[number]) % figures.depth] = row
    units.standing[number] += 1
    units.backlog[number] += table.cycles[row]
    spans.unit[row], spans.issue[row] = number, time
    spans.issue_cause[row], spans.issue_blocker[row] = cause, by[cause]
    stages.next[core], stages.time[core], stages.blocked[core] = index + 1, time, 0


@compiled
def retire(launch: Launch, core: int) -> None:
    """Counts a core's oldest instructions as retired up to the first whose completion is not known."""
    stages, order, retired, spans = launch.stages, launch.order, launch.retired, launch.spans
    done, base = stages.retired[core], stages.base[core]
    while done < stages.length[core] and spans.done[order[base + done]] >= 0:
        row = order[base + done]
        later = done > 0 and spans.done[retired[base + done - 1]] > spans.done[row]
        retired[base + done] = retired[base + done - 1] if later else row
        done += 1
    stages.retired[core] = done
