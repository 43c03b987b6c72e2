"""A core's issue stage: when its next instruction leaves the program, which queue it goes into, and who is complete."""

from __future__ import annotations

from simulator.compiled import compiled
from simulator.engine.state import (
    ARRAYS,
    AT_BARRIER,
    AT_ISSUE,
    AT_LAUNCH,
    AT_QUEUE,
    AT_WINDOW,
    BACKLOG,
    BASE,
    BEGIN,
    BLOCKED,
    COUNT,
    DEPTH,
    DMA,
    FREE,
    FREED,
    FREED_BY,
    HEAD,
    IN_TURN,
    INTERVAL,
    LENGTH,
    NEVER,
    NEXT,
    QUEUES,
    RETIRED,
    SCALAR,
    SYSTOLIC,
    TIME,
    TURN,
    WINDOW,
    Launch,
)
from simulator.records.spans import DONE, ISSUE, ISSUE_BLOCKER, ISSUE_CAUSE, UNIT
from simulator.tileprogram.program import I64
from simulator.units.cost_table import CHAIN, CLASS, CORE, CYCLES, MARK, MEETS


@compiled
def _queue_for(table: I64, figures: I64, unit: I64, row: int, turn: int, spans: I64, now: int) -> int:
    """The unit whose queue an instruction goes into, -1 while there is no room."""
    queues, arrays, depth = figures[QUEUES], figures[ARRAYS], figures[DEPTH]
    base = table[row, CORE] * (queues + arrays + 2)
    first, last = base + queues + arrays, base + queues + arrays + 1
    if table[row, CLASS] == DMA:
        first, last = base, base + queues
    elif table[row, CLASS] == SYSTOLIC:
        first, last = base + queues, base + queues + arrays
        if table[row, CHAIN] >= 0:
            first = spans[table[row, CHAIN], UNIT]
            last = first + 1
        elif figures[IN_TURN] == 1:
            first += turn
            last = first + 1
    elif table[row, CLASS] == SCALAR:
        first, last = last, last + 1
    best, least = -1, NEVER
    for number in range(first, last):
        if unit[number, COUNT] == depth:
            continue
        ahead = 2 * unit[number, COUNT] + (1 if unit[number, FREE] > now else 0)
        if table[row, CLASS] == SYSTOLIC:
            ahead = max(unit[number, FREE], now) + unit[number, BACKLOG]
        if ahead < least:
            best, least = number, ahead
    return best


@compiled
def issue_time(table: I64, figures: I64, launch: Launch, core: int) -> int:
    """When a core's next instruction could be issued, `NEVER` while something else must happen first."""
    stage, order, spans = launch.stages[core], launch.order, launch.spans
    index, base = stage[NEXT], stage[BASE]
    if index >= stage[LENGTH]:
        return NEVER
    row = int(order[base + index])
    time = launch.shared[BEGIN] if index == 0 else stage[TIME] + figures[INTERVAL]
    needed = _needed(table, figures, row, index)
    if needed > 0:
        if stage[RETIRED] < needed:
            return NEVER
        time = max(time, spans[launch.retired[base + needed - 1], DONE])
    if index > 0 and table[order[base + index - 1], MARK] == MEETS:
        met = order[base + index - 1]
        if spans[met, DONE] < 0:
            return NEVER
        time = max(time, spans[met, DONE])
    if _queue_for(table, figures, launch.unit, row, stage[TURN], spans, time) < 0:
        stage[BLOCKED] = 1
        return NEVER
    if stage[BLOCKED] == 1:
        time = max(time, stage[FREED])
    return time


@compiled
def _needed(table: I64, figures: I64, row: int, index: int) -> int:
    """How many of its core's instructions must be complete before one is issued: of a BARRIER all before it."""
    return index if table[row, MARK] == MEETS else index - figures[WINDOW] + 1


@compiled
def issue_next(time: int, table: I64, figures: I64, launch: Launch, core: int) -> None:
    """Issues a core's next instruction, and notes what its issue waited for."""
    unit, spans, met, by = launch.unit, launch.spans, launch.met, launch.by
    stage, order = launch.stages[core], launch.order
    index, base = stage[NEXT], stage[BASE]
    row = int(order[base + index])
    needed = _needed(table, figures, row, index)
    met[row, AT_LAUNCH], by[AT_LAUNCH] = launch.shared[BEGIN], -1
    if index > 0:
        before = order[base + index - 1]
        met[row, AT_ISSUE], by[AT_ISSUE] = stage[TIME] + figures[INTERVAL], before
        if table[before, MARK] == MEETS:
            met[row, AT_BARRIER], by[AT_BARRIER] = spans[before, DONE], before
    if needed > 0:
        column = AT_BARRIER if table[row, MARK] == MEETS else AT_WINDOW
        latest = launch.retired[base + needed - 1]
        if spans[latest, DONE] > met[row, column]:
            met[row, column], by[column] = spans[latest, DONE], latest
    if stage[BLOCKED] == 1:
        met[row, AT_QUEUE], by[AT_QUEUE] = stage[FREED], stage[FREED_BY]
    cause = AT_LAUNCH
    for candidate in range(AT_QUEUE + 1):
        if met[row, candidate] >= met[row, cause]:
            cause = candidate
    if met[row, AT_BARRIER] >= met[row, cause]:
        cause = AT_BARRIER
    number = _queue_for(table, figures, unit, row, stage[TURN], spans, time)
    if table[row, CLASS] == SYSTOLIC and table[row, CHAIN] < 0:
        stage[TURN] = (stage[TURN] + 1) % figures[ARRAYS]
    place = (unit[number, HEAD] + unit[number, COUNT]) % figures[DEPTH]
    launch.queue[number, place] = row
    unit[number, COUNT] += 1
    unit[number, BACKLOG] += table[row, CYCLES]
    spans[row, UNIT], spans[row, ISSUE] = number, time
    spans[row, ISSUE_CAUSE], spans[row, ISSUE_BLOCKER] = cause, by[cause]
    stage[NEXT], stage[TIME], stage[BLOCKED] = index + 1, time, 0


@compiled
def retire(launch: Launch, core: int) -> None:
    """Moves past a core's oldest instructions whose completion is known."""
    stage, order, retired, spans = launch.stages[core], launch.order, launch.retired, launch.spans
    done, base = stage[RETIRED], stage[BASE]
    while done < stage[LENGTH] and spans[order[base + done], DONE] >= 0:
        row = order[base + done]
        later = done > 0 and spans[retired[base + done - 1], DONE] > spans[row, DONE]
        retired[base + done] = retired[base + done - 1] if later else row
        done += 1
    stage[RETIRED] = done
