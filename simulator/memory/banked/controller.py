"""The controller of one DRAM channel, event by event.

The controller has a queue of reads, a queue of writes, and a list of requests for which a row is being opened; no other
request may close such a row. The requests of this list come first, then those of one queue: the first request in order
whose next command can be given (FR-FCFS). Reads go first until the write queue is filled above one mark; then writes go
first until it is below another mark; writes are also served while there is no read. A refresh of all banks closes the
rows of a pseudo-channel; until the refresh command has been given, only listed requests are served.

A write is done when it is in the queue: a read of the same place is answered from there. A read is done when its data
has passed the bus.

Requests come from sources, several of which share a port. In a port they wait in line: all requests of the source that
began first come before those of other sources. A channel takes one request per cycle, from its ports in turn; a port
whose first request finds its queue full waits. Cycles in which nothing can happen are skipped.
"""

from __future__ import annotations

import numpy as np

from simulator.compiled import compiled, compiled_apart
from simulator.memory.banked import banks, channel_time
from simulator.memory.banked.channels import BUCKETS, Channel, Channels, rows_of
from simulator.memory.banked.commands import schedule, skip_refreshes, state, turn
from simulator.memory.banked.fields import LISTS, NEVER, READS, WRITES, Clock, Counter, Part, Setting, Source
from simulator.memory.banked.request_queues import is_written, put, queued
from simulator.memory.banked.request_sources import done, first_at, next_begin, note_arrivals, step
from simulator.tileprogram.program import I64

# The results of `_accept`
_NOT_ASKED, _NO_ROOM, _TAKEN = 0, 1, 2


def drain(channels: Channels) -> None:
    """Serves all channels until no request is left."""
    interval = int(channels.figures[banks.REFRESH_INTERVAL])
    for channel, clock in enumerate(channels.clock):
        parts = channels.parts[channel]
        while np.any(parts[:, Part.CURSOR] < parts[:, Part.STOP]) or np.any(
            clock[Clock.COUNT : Clock.COUNT + LISTS] > 0
        ):
            advance_channel(channels, channel, int(clock[Clock.NOW]) + interval)


@compiled_apart
def advance_channel(channels: Channels, channel: int, until: int) -> None:
    """Serves a channel through all cycles before `until`."""
    of = rows_of(channels, channel)
    clock, figures = of.clock, of.figures
    now = clock[Clock.NOW]
    while now < until:
        if clock[channel_time.NOT_NOTED] > 0:
            note_arrivals(of, now)
        if now >= clock[Clock.NEXT_REFRESH]:
            clock[Clock.REFRESHING] += figures[banks.PSEUDOS]
            clock[Clock.NEXT_REFRESH] += figures[banks.REFRESH_INTERVAL]
            clock[Clock.WAKE] = now
        if clock[Clock.WAKE] <= now:
            before = queued(of)
            clock[Clock.WAKE] = schedule(of, now)
            if queued(of) < before:
                _note(channels.history, channels.bucket, channel, now)
        taken = _accept(of, now)
        if taken == _TAKEN:
            now += 1
            continue
        begin = next_begin(of, now)
        if begin > clock[Clock.NEXT_REFRESH] and clock[Clock.WAKE] == NEVER:
            skip_refreshes(of, min(begin, until))
        later = min(min(clock[Clock.WAKE], clock[Clock.NEXT_REFRESH]), begin)
        if taken == _NO_ROOM:
            clock[channel_time.FULL] += min(later, until) - now
        now = later
    clock[Clock.NOW] = max(clock[Clock.NOW], until)


@compiled
def _accept(of: Channel, now: int) -> int:
    """Takes a request from the first port, in turn, whose first request has room in its queue; returns the result."""
    found = _NOT_ASKED
    ports = len(of.parts) // of.figures[Setting.SHARING]
    for each in range(ports):
        port = of.clock[Clock.TURN] + each
        if port >= ports:
            port -= ports
        source = first_at(of, port, now)
        if source < 0 or of.sources[source, Source.BEGIN] > now:
            continue
        request = int(of.requests[0, source, of.parts[source, Part.CURSOR]])
        way = request & 1
        forwarded = way == READS and is_written(of, request)
        if not forwarded and of.clock[Clock.COUNT + way] == of.figures[Setting.ENTRIES]:
            found = _NO_ROOM
            continue
        step(of, port, source)
        if forwarded:
            of.counters[Counter.FORWARDED] += 1
        else:
            _queue(of, request, source, now)
        if forwarded or way == WRITES:
            done(of, source, now, now + 1)
        of.counters[way] += 1
        of.counters[Counter.LAST] = now
        of.clock[Clock.TURN] = port + 1 if port + 1 < ports else 0
        return _TAKEN
    return found


@compiled
def _queue(of: Channel, request: int, source: int, now: int) -> None:
    """Puts a request into its queue, and sets the cycle in which the controller looks again."""
    figures, clock, way = of.figures, of.clock, request & 1
    put(of, way, request, source, now)
    if turn(of) or (clock[Clock.REFRESHING] > 0 and figures[banks.REFRESHED] == 1):
        clock[Clock.WAKE] = now + 1  # a new request may change the bank to refresh next
    elif clock[Clock.DRAINS] == way:
        time = banks.first_cycle(figures, of.gates, request, banks.next_command(figures, of.gates, request))
        clock[Clock.WAKE] = min(clock[Clock.WAKE], max(now + 1, time))
    if clock[channel_time.STATE] == channel_time.IDLE:
        channel_time.enter(clock, state(of, now), now)


@compiled
def _note(history: I64, bucket: I64, channel: int, now: int) -> None:
    """Counts a request whose data moves in cycle `now`, in the piece of time of this cycle."""
    while now >> bucket[0] >= BUCKETS:
        for each in range(len(history)):
            for at in range(BUCKETS // 2):
                history[each, at] = history[each, 2 * at] + history[each, 2 * at + 1]
            for at in range(BUCKETS // 2, BUCKETS):
                history[each, at] = 0
        bucket[0] += 1
    history[channel, now >> bucket[0]] += 1
