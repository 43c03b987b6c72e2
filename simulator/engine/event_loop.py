"""The event loop: what happens within a launch, earliest first.

Every core runs its own instructions. They leave the program in order, one every `issue_interval_cycles`, into a queue
in front of one of its units: a copy into the DMA queue with the least before it, a matmul to the array that accumulates
its chain, or else to the array that would be free first, or whose turn it is, as `systolic_selection` says; a vector
pass to the vector unit, a loop of accesses to the scalar unit. Issue waits while all queues it could take are full, and
while an instruction `issue_window` places before is not complete. The head of a queue starts when its unit is free, its
dependences are met and, for what goes to a memory that all cores share (DRAM, or the common memory), that memory grants
it; a matmul's preload may begin while its array still streams.

A BARRIER is issued when all before it on its core is complete, and starts when the others of its meeting have been
issued; nothing after it is issued until it is complete.

Three kinds of events exist, an issue, a start, and with banked memory the end of a transfer; the loop always takes the
earliest that is possible (an end first, then an issue, then what has been ready longest, so that who comes first to the
memory is served first, then what comes first in its core's order). An instruction's whole future is known when it
starts, but that of a transfer in banked memory: until it has ended, nothing that waits for it has a time. So a start is
possible once the future of everything it waits for is known, and events come in order of time. If none is possible
although something has not started, instructions wait for one another for ever: `deadlock` tells which.
"""

from __future__ import annotations

import numpy as np

from simulator.compiled import compiled
from simulator.engine.deadlock import deadlock
from simulator.engine.issue import issue_next, issue_time, retire
from simulator.engine.start import end_transfer, granted, ready_time, start_head, unit_of
from simulator.engine.state import (
    ARRAYS,
    BACKLOG,
    BASE,
    BEGIN,
    BLOCKED,
    CORES,
    COUNT,
    DEPTH,
    FREE,
    FREED,
    FREED_BY,
    HEAD,
    ISSUE_STATE,
    LENGTH,
    NEVER,
    NEXT,
    OVER,
    PAUSED,
    QUEUES,
    READY,
    RETIRED,
    RUNNING,
    SHADOW,
    STARTED,
    STUCK,
    TIME,
    TURN,
    UNIT_STATE,
    WINDOW,
)
from simulator.engine.watch import EVENTS, Watch
from simulator.memory import dram
from simulator.memory.chiplet_buses import Buses
from simulator.memory.network import Network
from simulator.records.spans import CAUSES, DONE, SPAN_COLUMNS
from simulator.tileprogram.program import I32, I64, U8, TileProgram
from simulator.units.cost_table import COMMON, REQUESTED, Work


def run(
    program: TileProgram,
    asked: Work,
    figures: I64,
    memory: I64,
    state: I64,
    banked: dram.Banked | None,
    net: Network | None,
    lines: Buses | None,
    waits: I32,
    begin: int,
    watch: Watch,
) -> tuple[I64, I64]:
    """Spans of one launch, and when each of their constraints was met; fills in what they waited for within."""
    rows = len(asked.table)
    by = np.zeros(CAUSES, np.int64)  # and by whom, of the instruction that is at hand
    cores = int(figures[CORES])
    units = cores * (int(figures[QUEUES] + figures[ARRAYS]) + 2)
    unit = np.full((units, UNIT_STATE), -1, np.int64)
    unit[:, (HEAD, COUNT, SHADOW, BACKLOG)] = 0
    figures = figures.copy()
    figures[DEPTH] = min(int(figures[DEPTH]), max(rows, 1))  # more than all never wait
    queue = np.zeros((units, int(figures[DEPTH])), np.int64)
    order = np.argsort(program.core, kind="stable").astype(np.int32)  # core by core
    stage = np.full((cores, ISSUE_STATE), -1, np.int64)
    stage[:, (NEXT, BLOCKED, RETIRED, TURN)], stage[:, TIME] = 0, begin
    stage[:, LENGTH] = np.bincount(program.core, minlength=cores)
    stage[:, BASE] = np.cumsum(stage[:, LENGTH]) - stage[:, LENGTH]
    place = np.zeros(rows, np.int32)  # of an instruction in its core's order
    place[order] = np.arange(rows) - stage[program.core[order], BASE]
    shared = np.array([-1, 0, begin, 0, -1], np.int64)
    spans = np.full((rows, SPAN_COLUMNS), -1, np.int64)
    met = np.full((rows, CAUSES), -1, np.int64)  # when each constraint was met
    retired = np.zeros(rows, np.int32)  # who is complete last of all of a core up to each, in its order
    came = PAUSED
    while came == PAUSED:
        came = _loop(
            asked.table,
            asked.dependence_start,
            asked.dependence,
            asked.dependence_kind,
            figures,
            memory,
            state,
            banked,
            net,
            lines,
            unit,
            queue,
            order,
            place,
            stage,
            shared,
            retired,
            spans,
            met,
            by,
            waits,
            EVENTS,
        )
        if came == PAUSED:
            watch.look(int(shared[STARTED]), int(stage[:, TIME].max()))
    if came == STUCK:
        queues = [
            [int(queue[of, (row[HEAD] + at) % len(queue[of])]) for at in range(row[COUNT])]
            for of, row in enumerate(unit)
        ]
        raise deadlock(program, asked, spans, queues, int(figures[WINDOW]), int(spans[:, DONE].max(initial=begin)))
    return spans, met


@compiled
def _loop(
    table: I64,
    wait_start: I64,
    wait: I32,
    wait_kind: U8,
    figures: I64,
    memory: I64,
    state: I64,
    banked: dram.Banked | None,
    net: Network | None,
    lines: Buses | None,
    unit: I64,
    queue: I64,
    order: I32,
    place: I32,
    stage: I64,
    shared: I64,
    retired: I32,
    spans: I64,
    met: I64,
    by: I64,
    waits: I32,
    events: int,
) -> int:
    """Takes the earliest possible event until every instruction has started and every transfer has ended.

    Returns `OVER` then, `PAUSED` after so many events (a cycle of a banked memory counts as one), and `STUCK` if no
    event is possible.
    """
    begin, units = shared[BEGIN], len(unit) // len(stage)
    while shared[STARTED] < len(table) or shared[RUNNING] > 0:
        if events == 0:
            return PAUSED
        events -= 1
        at, best, chosen, first = NEVER, -1, -1, 0
        for number in range(len(unit)):
            if unit[number, COUNT] == 0 or unit[number, FREE] == NEVER:
                continue
            head = queue[number, unit[number, HEAD]]
            if unit[number, READY] < 0:
                unit[number, READY] = ready_time(head, number, table, wait_start, wait, wait_kind, unit, spans, figures)
            time = unit[number, READY]
            if time < 0:
                continue
            if table[head, REQUESTED] > 0:
                time = granted(memory, state, lines, head, time)
            elif table[head, COMMON] > 0:
                time = dram.grant_common(memory, state, time)
            ready = unit[number, READY]
            tie = best >= 0 and time == at
            if time < at or (tie and (ready < first or (ready == first and place[head] < place[best]))):
                at, best, chosen, first = time, head, number, ready
        issue, issuing = NEVER, -1
        for core in range(len(stage)):
            time = issue_time(table, figures, unit, order, stage[core], retired, spans, begin)
            if time < issue:
                issue, issuing = time, core
        if banked is not None:  # the compiler leaves this out where there are no banks
            before = dram.reached(state)
            source = dram.advance(memory, state, banked, net, min(issue, at)) if shared[RUNNING] > 0 else -1
            events = max(0, events - (dram.reached(state) - before))
            if source == dram.ON_THE_WAY:
                continue
            if source >= 0:
                number = unit_of(source, figures)
                end_transfer(number, source, table, memory, banked, unit, shared, spans, waits)
                retire(order, stage[number // units], retired, spans)
                continue
        if issuing >= 0 and issue <= at:
            issue_next(issue, table, figures, unit, queue, order, stage[issuing], retired, spans, met, by, begin)
        elif best < 0:
            return STUCK
        else:
            own = stage[chosen // units]
            start_head(
                best,
                chosen,
                at,
                table,
                wait_start,
                wait,
                wait_kind,
                figures,
                memory,
                state,
                banked,
                net,
                lines,
                unit,
                shared,
                spans,
                met,
                by,
                waits,
            )
            retire(order, own, retired, spans)
            unit[chosen, HEAD] = (unit[chosen, HEAD] + 1) % figures[DEPTH]
            unit[chosen, COUNT] -= 1
            unit[chosen, READY] = -1
            own[FREED], own[FREED_BY] = at, best
            shared[STARTED] += 1
    return OVER
