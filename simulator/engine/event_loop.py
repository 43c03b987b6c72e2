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

from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.engine.deadlock import deadlock
from simulator.engine.issue import issue_next, issue_time, retire
from simulator.engine.start import end_transfer, granted, ready_time, start_head, unit_of
from simulator.engine.state import (
    ARRAYS,
    BACKLOG,
    BASE,
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
    Asked,
    Launch,
    Parts,
)
from simulator.engine.watch import EVENTS, Watch
from simulator.memory import dram
from simulator.memory.chiplet_buses import Buses
from simulator.memory.network import Network
from simulator.records.spans import CAUSES, DONE, SPAN_COLUMNS
from simulator.tileprogram.program import I32, I64, TileProgram
from simulator.units.cost_table import COMMON, REQUESTED, Work


class Hardware(NamedTuple):
    """A machine as the loop knows it; banks, a network and buses of chiplets are None where there are none."""

    parts: Parts
    banked: dram.Banked | None
    net: Network | None
    lines: Buses | None


def run(program: TileProgram, work: Work, hardware: Hardware, waits: I32, begin: int, watch: Watch) -> tuple[I64, I64]:
    """Spans of one launch, and when each of their constraints was met; fills in what they waited for within."""
    parts, banked, net, lines = hardware
    figures = parts.figures.copy()
    figures[DEPTH] = min(int(figures[DEPTH]), max(len(work.table), 1))  # more than all never wait
    parts = parts._replace(figures=figures)
    asked = Asked(work.table, work.dependence_start, work.dependence, work.dependence_kind)
    launch = _about_to_begin(program, figures, waits, begin)
    came = PAUSED
    while came == PAUSED:
        # what may be None are arguments of their own: the compiler leaves out what is for machines that have them
        came = _loop(asked, parts, banked, net, lines, launch, EVENTS)
        if came == PAUSED:
            watch.look(int(launch.shared[STARTED]), int(launch.stages[:, TIME].max()))
    if came == STUCK:
        queue, latest = launch.queue, int(launch.spans[:, DONE].max(initial=begin))
        queues = [
            [int(queue[of, (row[HEAD] + at) % len(queue[of])]) for at in range(row[COUNT])]
            for of, row in enumerate(launch.unit)
        ]
        raise deadlock(program, work, launch.spans, queues, int(figures[WINDOW]), latest)
    return launch.spans, launch.met


def _about_to_begin(program: TileProgram, figures: I64, waits: I32, begin: int) -> Launch:
    """A launch of which nothing has been issued."""
    rows, cores = len(program), int(figures[CORES])
    units = cores * (int(figures[QUEUES] + figures[ARRAYS]) + 2)
    unit = np.full((units, UNIT_STATE), -1, np.int64)
    unit[:, (HEAD, COUNT, SHADOW, BACKLOG)] = 0
    order = np.argsort(program.core, kind="stable").astype(np.int32)
    stages = np.full((cores, ISSUE_STATE), -1, np.int64)
    stages[:, (NEXT, BLOCKED, RETIRED, TURN)], stages[:, TIME] = 0, begin
    stages[:, LENGTH] = np.bincount(program.core, minlength=cores)
    stages[:, BASE] = np.cumsum(stages[:, LENGTH]) - stages[:, LENGTH]
    place = np.zeros(rows, np.int32)
    place[order] = np.arange(rows) - stages[program.core[order], BASE]
    return Launch(
        unit=unit,
        queue=np.zeros((units, int(figures[DEPTH])), np.int64),
        order=order,
        place=place,
        stages=stages,
        shared=np.array([-1, 0, begin, 0, -1], np.int64),
        retired=np.zeros(rows, np.int32),
        spans=np.full((rows, SPAN_COLUMNS), -1, np.int64),
        met=np.full((rows, CAUSES), -1, np.int64),
        by=np.zeros(CAUSES, np.int64),
        waits=waits,
    )


@compiled
def _loop(
    asked: Asked,
    parts: Parts,
    banked: dram.Banked | None,
    net: Network | None,
    lines: Buses | None,
    launch: Launch,
    events: int,
) -> int:
    """Takes the earliest possible event until every instruction has started and every transfer has ended.

    Returns `OVER` then, `PAUSED` after so many events (a cycle of a banked memory counts as one), and `STUCK` if no
    event is possible.
    """
    unit, queue, stages, shared, place = launch.unit, launch.queue, launch.stages, launch.shared, launch.place
    table, units = asked.table, len(launch.unit) // len(launch.stages)
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
                unit[number, READY] = ready_time(head, number, asked, launch)
            time = unit[number, READY]
            if time < 0:
                continue
            if table[head, REQUESTED] > 0:
                time = granted(parts, lines, head, time)
            elif table[head, COMMON] > 0:
                time = dram.grant_common(parts.memory, parts.memory_state, time)
            ready = unit[number, READY]
            tie = best >= 0 and time == at
            if time < at or (tie and (ready < first or (ready == first and place[head] < place[best]))):
                at, best, chosen, first = time, head, number, ready
        issue, issuing = NEVER, -1
        for core in range(len(stages)):
            time = issue_time(table, parts.figures, launch, core)
            if time < issue:
                issue, issuing = time, core
        if banked is not None:  # the compiler leaves this out where there are no banks
            before = dram.reached(parts.memory_state)
            source = -1
            if shared[RUNNING] > 0:
                source = dram.advance(parts.memory, parts.memory_state, banked, net, min(issue, at))
            events = max(0, events - (dram.reached(parts.memory_state) - before))
            if source == dram.ON_THE_WAY:
                continue
            if source >= 0:
                number = unit_of(source, parts.figures)
                end_transfer(number, source, asked, parts, banked, launch)
                retire(launch, number // units)
                continue
        if issuing >= 0 and issue <= at:
            issue_next(issue, table, parts.figures, launch, issuing)
        elif best < 0:
            return STUCK
        else:
            start_head(best, at, asked, parts, banked, net, lines, launch)
            retire(launch, chosen // units)
            unit[chosen, HEAD] = (unit[chosen, HEAD] + 1) % parts.figures[DEPTH]
            unit[chosen, COUNT] -= 1
            unit[chosen, READY] = -1
            stages[chosen // units, FREED], stages[chosen // units, FREED_BY] = at, best
            shared[STARTED] += 1
    return OVER
