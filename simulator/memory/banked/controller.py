"""The controller of one DRAM channel, event by event.

It has a queue of reads, one of writes, and a list of requests whose row is being opened for them, which no other
request may close. First come the requests of that list, then those of one queue: the first in its order whose next
command can be given (FR-FCFS). Reads go first, until the write queue is filled beyond one mark; then writes, until it
is below another; and writes while there is no read. A refresh of all banks closes the rows of a pseudo-channel, and
until it has been given only listed requests are served.

A write is done when it is in the queue: a read of the same place is answered from there. A read is done when its data
has passed the bus.

Requests come from sources, several of which share a port. In a port they stand in line, those of the source that
began first before all others'. A channel takes one a cycle, from its ports in turn; a port whose first request finds
its queue full waits. Nothing is computed for cycles in which nothing can happen.
"""

from __future__ import annotations

import numpy as np

from simulator.compiled import compiled, compiled_apart
from simulator.memory.banked import channel_time
from simulator.memory.banked.banks import PSEUDOS, REFRESH_INTERVAL, REFRESHED, first_cycle, next_command
from simulator.memory.banked.channels import (
    BEGIN,
    BUCKETS,
    COUNT,
    CURSOR,
    DRAINS,
    ENTRIES,
    FORWARDED,
    LAST,
    LISTS,
    NEVER,
    NEXT_REFRESH,
    NOW,
    READS,
    REFRESHING,
    SHARING,
    STOP,
    TURN,
    WAKE,
    WRITES,
    Channel,
    Channels,
    rows_of,
)
from simulator.memory.banked.commands import schedule, skip_refreshes, state, turn
from simulator.memory.banked.request_queues import is_written, put, queued
from simulator.memory.banked.request_sources import done, first_at, next_begin, note_arrivals, step
from simulator.tileprogram.program import I64

# The outcome of looking for a request to take
_NOT_ASKED, _NO_ROOM, _TAKEN = 0, 1, 2


def drain(channels: Channels) -> None:
    """Serves all channels until no request is left."""
    interval = int(channels.figures[REFRESH_INTERVAL])
    for channel, clock in enumerate(channels.clock):
        parts = channels.parts[channel]
        while np.any(parts[:, CURSOR] < parts[:, STOP]) or np.any(clock[COUNT : COUNT + LISTS] > 0):
            advance_channel(channels, channel, int(clock[NOW]) + interval)


@compiled_apart
def advance_channel(channels: Channels, channel: int, until: int) -> None:
    """Serves a channel through all cycles before `until`."""
    of = rows_of(channels, channel)
    clock, figures = of.clock, of.figures
    now = clock[NOW]
    while now < until:
        if clock[channel_time.NOT_NOTED] > 0:
            note_arrivals(of, now)
        if now >= clock[NEXT_REFRESH]:
            clock[REFRESHING] += figures[PSEUDOS]
            clock[NEXT_REFRESH] += figures[REFRESH_INTERVAL]
            clock[WAKE] = now
        if clock[WAKE] <= now:
            before = queued(of)
            clock[WAKE] = schedule(of, now)
            if queued(of) < before:
                _note(channels.history, channels.bucket, channel, now)
        taken = _accept(of, now)
        if taken == _TAKEN:
            now += 1
            continue
        begin = next_begin(of, now)
        if begin > clock[NEXT_REFRESH] and clock[WAKE] == NEVER:
            skip_refreshes(of, min(begin, until))
        later = min(min(clock[WAKE], clock[NEXT_REFRESH]), begin)
        if taken == _NO_ROOM:
            clock[channel_time.FULL] += min(later, until) - now
        now = later
    clock[NOW] = max(clock[NOW], until)


@compiled
def _accept(of: Channel, now: int) -> int:
    """Takes the next request of the first port, in turn, that has one for which there is room."""
    found = _NOT_ASKED
    ports = len(of.parts) // of.figures[SHARING]
    for each in range(ports):
        port = of.clock[TURN] + each
        if port >= ports:
            port -= ports
        source = first_at(of, port, now)
        if source < 0 or of.sources[source, BEGIN] > now:
            continue
        request = int(of.requests[0, source, of.parts[source, CURSOR]])
        way = request & 1
        forwarded = way == READS and is_written(of, request)
        if not forwarded and of.clock[COUNT + way] == of.figures[ENTRIES]:
            found = _NO_ROOM
            continue
        step(of, port, source)
        if forwarded:
            of.counters[FORWARDED] += 1
        else:
            _queue(of, request, source, now)
        if forwarded or way == WRITES:
            done(of, source, now, now + 1)
        of.counters[way] += 1
        of.counters[LAST] = now
        of.clock[TURN] = port + 1 if port + 1 < ports else 0
        return _TAKEN
    return found


@compiled
def _queue(of: Channel, request: int, source: int, now: int) -> None:
    """Puts a request into its queue, and wakes the controller in time."""
    figures, clock, way = of.figures, of.clock, request & 1
    put(of, way, request, source, now)
    if turn(of) or (clock[REFRESHING] > 0 and figures[REFRESHED] == 1):
        clock[WAKE] = now + 1  # a new request may change which bank is refreshed next
    elif clock[DRAINS] == way:
        time = first_cycle(figures, of.gates, request, next_command(figures, of.gates, request))
        clock[WAKE] = min(clock[WAKE], max(now + 1, time))
    if clock[channel_time.STATE] == channel_time.IDLE:
        channel_time.enter(clock, state(of, now), now)


@compiled
def _note(history: I64, bucket: I64, channel: int, now: int) -> None:
    """Counts a request whose data moves into its piece of time."""
    while now >> bucket[0] >= BUCKETS:
        for each in range(len(history)):
            for at in range(BUCKETS // 2):
                history[each, at] = history[each, 2 * at] + history[each, 2 * at + 1]
            for at in range(BUCKETS // 2, BUCKETS):
                history[each, at] = 0
        bucket[0] += 1
    history[channel, now >> bucket[0]] += 1
