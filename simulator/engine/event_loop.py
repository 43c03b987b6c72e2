"""The event loop: the events of a launch, earliest first.

Every core runs its own instructions. They issue in order, one every `issue_interval_cycles`, into a queue in front of
one of the core's units: a copy into the DMA queue with the least work queued; a matmul to the array that accumulates
its chain, or else, by `systolic_selection`, to the array that would be free first or whose turn it is; a vector pass to
the vector unit, a loop of accesses to the scalar unit. Issue stalls while all allowed queues are full, and while the
instruction `issue_window` places before is not complete. The head of a queue starts when its unit is free, its
dependences are met and, if it accesses a memory that all cores share (DRAM, or a second memory), that memory grants the
access. A matmul's preload may begin while its array still streams.

A BARRIER issues when every instruction before it on its core is complete, and starts when the others of its meeting
have issued; no instruction after it issues until it is complete.

There are three kinds of events: an issue, a start, and with banked memory the end of a transfer; the loop always takes
the earliest possible event. Of several in one cycle it takes an end first, then an issue, then the start that has been
ready longest (so the memory serves first come, first served), then the first in its core's order. An instruction's end
is known when it starts, except for a transfer in banked memory: until the transfer has ended, instructions that wait
for it cannot be given a time. So a start is possible once the ends of all instructions that it waits for are known, and
events come in order of time. If no event is possible although some instruction has not started, instructions wait for
one another for ever: `deadlock` names them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.engine.deadlock import deadlock
from simulator.engine.issue import issue_next, issue_time, retire
from simulator.engine.start import end_transfer, granted, ready_time, start_head, unit_of
from simulator.engine.state import NEVER, OVER, PAUSED, STUCK, Launch, LoopWork, Parts, about_to_begin
from simulator.engine.watch import EVENTS, Watch
from simulator.memory import bus, dram
from simulator.memory.network import Network
from simulator.memory.several_buses import Buses
from simulator.records.spans import CAUSES, SpanTable
from simulator.tileprogram.program import I32, I64, TileProgram
from simulator.units.cost_table import Work


class Hardware(NamedTuple):
    """The parts of a machine for the loop; `banked`, `net` and `lines` are None if the machine has no such part."""

    parts: Parts
    banked: dram.Banked | None
    net: Network | None
    lines: Buses | None


def run(
    program: TileProgram, work: Work, hardware: Hardware, waits: I32, begin: int, watch: Watch
) -> tuple[SpanTable, I64]:
    """Runs one launch; returns its spans and when each of their constraints was met, and fills in `waits`."""
    parts, banked, net, lines = hardware
    rows = len(program)
    depth = min(parts.figures.depth, max(rows, 1))  # no more instructions can wait than there are
    parts = parts._replace(figures=parts.figures._replace(depth=depth))
    loop_work = LoopWork(work.table, work.dependence_start, work.dependence, work.dependence_kind)
    launch = about_to_begin(program, parts, SpanTable.of(rows), np.full((rows, CAUSES), -1, np.int64), waits, begin)
    came = PAUSED
    while came == PAUSED:
        # each part that may be None is an argument of its own: the compiler then leaves out the code for it
        came = _loop(loop_work, parts, banked, net, lines, launch, EVENTS)
        if came == PAUSED:
            watch.look(int(launch.shared.started[0]), int(launch.stages.time.max()))
    if came == STUCK:
        latest = int(launch.spans.done.max(initial=begin))
        raise deadlock(program, work, launch.spans, _standing(launch), parts.figures.window, latest)
    return launch.spans, launch.met


def _standing(launch: Launch) -> list[list[int]]:
    """For each unit, the instructions queued in front of it, the head first."""
    units = launch.units
    return [
        [int(queue[(head + at) % len(queue)]) for at in range(count)]
        for queue, head, count in zip(units.queue, units.head.tolist(), units.standing.tolist(), strict=True)
    ]


@compiled
def _loop(
    work: LoopWork,
    parts: Parts,
    banked: dram.Banked | None,
    net: Network | None,
    lines: Buses | None,
    launch: Launch,
    events: int,
) -> int:
    """Takes the earliest possible event until every instruction has started and every transfer has ended.

    Returns `OVER` then, `PAUSED` after `events` events (each cycle of a banked memory counts as one), and `STUCK` if no
    event is possible.
    """
    units, stages, shared, place = launch.units, launch.stages, launch.shared, launch.place
    table, figures, kinds = work.table, parts.figures, parts.kinds
    while shared.started[0] < len(place) or shared.running[0] > 0:
        if events == 0:
            return PAUSED
        events -= 1
        at, best, chosen, first = NEVER, -1, -1, 0
        for number in range(len(units.standing)):
            if units.standing[number] == 0 or units.free[number] == NEVER:
                continue
            head = units.queue[number, units.head[number]]
            if units.ready[number] < 0:
                units.ready[number] = ready_time(head, number, work, kinds, launch)
            time = units.ready[number]
            if time < 0:
                continue
            if table.requested[head] > 0:
                time = granted(parts, lines, head, time)
            elif table.second[head] > 0:
                time = bus.grant(parts.second, time)
            ready = units.ready[number]
            tie = best >= 0 and time == at
            if time < at or (tie and (ready < first or (ready == first and place[head] < place[best]))):
                at, best, chosen, first = time, head, number, ready
        issue, issuing = NEVER, -1
        for core in range(figures.cores):
            time = issue_time(work, kinds, figures, launch, core)
            if time < issue:
                issue, issuing = time, core
        if banked is not None:  # the compiler leaves this out where there are no banks
            before = parts.memory_state.reached[0]
            source = -1
            if shared.running[0] > 0:
                source = dram.advance(parts.memory, parts.memory_state, banked, net, min(issue, at))
            events = max(0, events - (parts.memory_state.reached[0] - before))
            if source == dram.ON_THE_WAY:
                continue
            if source >= 0:
                number = unit_of(source, parts)
                end_transfer(number, source, work, parts, banked, launch)
                retire(launch, number // figures.units)
                continue
        if issuing >= 0 and issue <= at:
            issue_next(issue, work, kinds, figures, launch, issuing)
        elif best < 0:
            return STUCK
        else:
            start_head(best, at, work, parts, banked, net, lines, launch)
            retire(launch, chosen // figures.units)
            units.head[chosen] = (units.head[chosen] + 1) % figures.depth
            units.standing[chosen] -= 1
            units.ready[chosen] = -1
            stages.freed[chosen // figures.units], stages.freed_by[chosen // figures.units] = at, best
            shared.started[0] += 1
    return OVER
