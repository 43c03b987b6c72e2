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

import math
from typing import NamedTuple

import numpy as np

from simulator import channel_time
from simulator.banks import (
    ACT,
    ALIKE,
    BANKS,
    BUSES,
    COLUMN,
    FIGURES,
    PRE,
    PSEUDOS,
    RD,
    READ_DATA,
    REFRESH_INTERVAL,
    REFRESHED,
    activate,
    all_closed,
    bank_of,
    figures_of,
    first_cycle,
    first_cycle_of_all,
    give_column,
    idle_gates,
    is_fresh,
    mark_fresh,
    next_command,
    precharge,
    precharge_all,
    refresh_all,
    waits_for,
)
from simulator.jit import compiled
from simulator.memory_file import Memory
from simulator.program import I64

NEVER = 1 << 62

# What comes of looking for a request to take
_NOT_ASKED, _NO_ROOM, _TAKEN = 0, 1, 2

# The lists of a channel, and an entry of one: the request; its source, and whether what it found is counted; when it
# came
_READS, _WRITES, _OPENING, _LISTS = 0, 1, 2, 3
_REQUEST, _OWNER, _ARRIVAL, _ENTRY = 0, 1, 2, 3

# Figures beyond those of `banks`
_ENTRIES, _HIGH, _LOW, _SHARING = FIGURES, FIGURES + 1, FIGURES + 2, FIGURES + 3

# The clock of a channel: first what it does with its time (see channel_time.py), then where it is, when it will look
# again, and the lengths of its lists
_NOW, _WAKE, _NEXT_REFRESH, _REFRESHING, _DRAINS, _TURN, _COUNT = range(channel_time.SPENT, channel_time.SPENT + 7)
_CLOCK = _COUNT + _LISTS

# What a channel counts
READS, WRITES, ROW_HITS, ROW_MISSES, ROW_CONFLICTS, ACTIVATES, REFRESHES, FORWARDED = 0, 1, 2, 3, 4, 5, 6, 7
READ_CYCLES, LAST, COUNTERS = 8, 9, 10
"""The first eight are named in `spans.CHANNEL_COUNTERS`; then cycles from queue to data of all reads, and the last
cycle in which a request was taken."""

# Of a source in a channel: first what its transfer waited for (see channel_time.py), then the next of its requests,
# where they end, how many are not done, when the last one was; whether all that is left is on its way and since when,
# and cycles in which it was
CURSOR, STOP, REMAINING, LATEST, UNNOTED, SINCE, AWAY, _PART = range(channel_time.NOTES, channel_time.NOTES + 8)

# Of a source: first cycle at which it asks, requests that are not done, when the last was, its place among all begun
BEGIN, LEFT, DONE, PLACE, _SOURCE = 0, 1, 2, 3, 4

BUCKETS = 1024
"""Pieces of time for which the requests of a channel are counted: each as long as it must be, in powers of two."""


class Channels(NamedTuple):
    """All channels of a memory. (C channels, S sources)"""

    figures: I64
    gates: I64
    """C x rows of gates x gates."""
    queue: I64
    """C x list x entry x field."""
    clock: I64
    counters: I64
    history: I64
    """C x bucket: requests whose data moved."""
    bucket: I64
    """Length of a bucket in cycles, as a power of two."""
    parts: I64
    """C x S: what a source asks of a channel."""
    sources: I64
    requests: I64
    """1 x S x ...: what each source asks for, channel by channel; with a network 2 x S x ...: and when each comes."""


def idle_channels(memory: Memory, channels: int, sources: int, most_requests: int, ports: int = 1) -> Channels:
    """Channels with all rows closed and nothing asked for; a source may ask for so many requests at a time.

    Each channel has so many ports, and as many sources share one as another.
    """
    clock = np.zeros((channels, _CLOCK), np.int64)
    clock[:, channel_time.STATE] = channel_time.IDLE
    figures = figures_of(memory)
    clock[:, _NEXT_REFRESH], clock[:, _WAKE] = figures[REFRESH_INTERVAL], NEVER
    controller = [
        memory.queue_entries,
        math.floor(memory.drain_from * memory.queue_entries),
        math.ceil(memory.drain_to * memory.queue_entries),
        sources // ports,
    ]
    return Channels(
        figures=np.concatenate([figures, np.array(controller, np.int64)]),
        gates=idle_gates(memory, channels),
        queue=np.zeros((channels, _LISTS, memory.queue_entries, _ENTRY), np.int64),
        clock=clock,
        counters=np.zeros((channels, COUNTERS), np.int64),
        history=np.zeros((channels, BUCKETS), np.int64),
        bucket=np.zeros(1, np.int64),
        parts=np.zeros((channels, sources, _PART), np.int64),
        sources=np.zeros((sources, _SOURCE), np.int64),
        requests=np.zeros((1, sources, most_requests), np.int64),
    )


def drain(channels: Channels) -> None:
    """Serves all channels until nothing is asked for or queued."""
    for channel, clock in enumerate(channels.clock):
        parts, step = channels.parts[channel], int(channels.figures[REFRESH_INTERVAL])
        while np.any(parts[:, CURSOR] < parts[:, STOP]) or _queued(clock) > 0:
            advance_channel(channels, channel, int(clock[_NOW]) + step)


@compiled
def advance_channel(channels: Channels, channel: int, until: int) -> None:
    """Serves a channel through all cycles before `until`."""
    figures, gates, queue = channels.figures, channels.gates[channel], channels.queue[channel]
    clock, counters = channels.clock[channel], channels.counters[channel]
    parts, sources, requests = channels.parts[channel], channels.sources, channels.requests
    now = clock[_NOW]
    while now < until:
        if clock[channel_time.NOT_NOTED] > 0:
            _note_arrivals(clock, parts, sources, requests, now)
        if now >= clock[_NEXT_REFRESH]:
            clock[_REFRESHING] += figures[PSEUDOS]
            clock[_NEXT_REFRESH] += figures[REFRESH_INTERVAL]
            clock[_WAKE] = now
        if clock[_WAKE] <= now:
            queued = _queued(clock)
            clock[_WAKE] = _schedule(figures, gates, queue, clock, counters, parts, sources, requests, now)
            if _queued(clock) < queued:
                _note(channels.history, channels.bucket, channel, now)
        taken = _accept(figures, gates, queue, clock, counters, parts, sources, requests, now)
        if taken == _TAKEN:
            now += 1
            continue
        begin = _next_begin(parts, sources, requests, now)
        if begin > clock[_NEXT_REFRESH] and clock[_WAKE] == NEVER:
            _skip_refreshes(figures, gates, queue, clock, counters, min(begin, until))
        later = min(min(clock[_WAKE], clock[_NEXT_REFRESH]), begin)
        if taken == _NO_ROOM:
            clock[channel_time.FULL] += min(later, until) - now
        now = later
    clock[_NOW] = max(clock[_NOW], until)


@compiled
def _queued(clock: I64) -> int:
    return clock[_COUNT + _READS] + clock[_COUNT + _WRITES] + clock[_COUNT + _OPENING]


@compiled
def _note_arrivals(clock: I64, parts: I64, sources: I64, requests: I64, now: int) -> None:
    """Notes what the channel had done before requests came of those transfers that had none here."""
    for source in range(len(parts)):
        comes = _comes(parts, sources, requests, source) if parts[source, UNNOTED] == 1 else NEVER
        if comes <= now:
            channel_time.begin(parts[source], clock, comes)
            parts[source, AWAY] += comes - parts[source, SINCE]
            parts[source, UNNOTED] = 0


@compiled
def _comes(parts: I64, sources: I64, requests: I64, source: int) -> int:
    """When the next request of a source comes to the channel."""
    if len(requests) == 1:
        return sources[source, BEGIN]
    return max(sources[source, BEGIN], requests[1, source, parts[source, CURSOR]])


@compiled
def _done(clock: I64, parts: I64, sources: I64, requests: I64, source: int, now: int, done: int) -> None:
    """One request less of a source: what the channel still does for it is done at a cycle."""
    sources[source, LEFT] -= 1
    sources[source, DONE] = max(sources[source, DONE], done)
    parts[source, REMAINING] -= 1
    if parts[source, REMAINING] == 0:
        parts[source, LATEST] = done
        channel_time.end(parts[source], clock, now)
    elif (
        len(requests) == 2
        and parts[source, REMAINING] == parts[source, STOP] - parts[source, CURSOR]
        and requests[1, source, parts[source, CURSOR]] > now
    ):
        channel_time.pause(parts[source], clock, now)
        parts[source, UNNOTED], parts[source, SINCE] = 1, now


@compiled
def _accept(
    figures: I64,
    gates: I64,
    queue: I64,
    clock: I64,
    counters: I64,
    parts: I64,
    sources: I64,
    requests: I64,
    now: int,
) -> int:
    """Takes the next request of the first port, in turn, that has one for which there is room."""
    found = _NOT_ASKED
    ports = len(parts) // figures[_SHARING]
    for step in range(ports):
        port = clock[_TURN] + step
        if port >= ports:
            port -= ports
        source = _first_begun(parts, sources, requests, port * figures[_SHARING], (port + 1) * figures[_SHARING], now)
        if source < 0 or sources[source, BEGIN] > now:
            continue
        at = parts[source, CURSOR]
        request = int(requests[0, source, at])
        way = request & 1
        forwarded = way == _READS and _written(queue, clock[_COUNT + _WRITES], request)
        if forwarded:
            counters[FORWARDED] += 1
        elif clock[_COUNT + way] == figures[_ENTRIES]:
            found = _NO_ROOM
            continue
        else:
            entry = queue[way, clock[_COUNT + way]]
            entry[_REQUEST], entry[_OWNER], entry[_ARRIVAL] = request, source * 2, now
            clock[_COUNT + way] += 1
            if _turn(figures, clock) or (clock[_REFRESHING] > 0 and figures[REFRESHED] == 1):
                clock[_WAKE] = now + 1  # what comes may change which bank is refreshed next
            elif clock[_DRAINS] == way:
                time = first_cycle(figures, gates, request, next_command(figures, gates, request))
                clock[_WAKE] = min(clock[_WAKE], max(now + 1, time))
            if clock[channel_time.STATE] == channel_time.IDLE:
                channel_time.enter(clock, _state(figures, gates, queue, clock, now), now)
        parts[source, CURSOR] = at + 1
        if forwarded or way == _WRITES:
            _done(clock, parts, sources, requests, source, now, now + 1)
        counters[READS + way] += 1
        counters[LAST] = now
        clock[_TURN] = port + 1 if port + 1 < ports else 0
        return _TAKEN
    return found


@compiled
def _first_begun(parts: I64, sources: I64, requests: I64, first: int, last: int, now: int) -> int:
    """Of the sources that share a port, the one that began first of those with requests left; -1 without any.

    With a network only requests that have come stand in line.
    """
    found = -1
    for source in range(first, last):
        if parts[source, CURSOR] < parts[source, STOP] and (
            found < 0 or sources[source, PLACE] < sources[found, PLACE]
        ):
            if len(requests) == 2 and _comes(parts, sources, requests, source) > now:
                continue
            found = source
    return found


@compiled
def _written(queue: I64, writes: int, request: int) -> bool:
    """Whether a write of the same place is queued."""
    for place in range(writes):  # noqa: SIM110
        if queue[_WRITES, place, _REQUEST] == request + 1:
            return True
    return False


@compiled
def _next_begin(parts: I64, sources: I64, requests: I64, now: int) -> int:
    """When the next source begins to ask, or a request comes, of those that do not yet."""
    begin = NEVER
    for source in range(len(parts)):
        if parts[source, CURSOR] < parts[source, STOP]:
            comes = _comes(parts, sources, requests, source)
            if comes > now:
                begin = min(begin, comes)
    return begin


@compiled
def _turn(figures: I64, clock: I64) -> bool:
    """Turns from reads to writes or back if it is time to, and says whether it did."""
    reads, writes = clock[_COUNT + _READS], clock[_COUNT + _WRITES]
    turns = writes < figures[_LOW] and reads != 0 if clock[_DRAINS] == 1 else writes > figures[_HIGH] or reads == 0
    if turns:
        clock[_DRAINS] = 1 - clock[_DRAINS]
    return turns


@compiled
def _schedule(
    figures: I64,
    gates: I64,
    queue: I64,
    clock: I64,
    counters: I64,
    parts: I64,
    sources: I64,
    requests: I64,
    now: int,
) -> int:
    """Gives the commands of a cycle; returns the next cycle at which there may be one to give."""
    _turn(figures, clock)
    column, column_list, row, row_list, wake = _choose(figures, gates, queue, clock, now, False)
    if column >= 0:
        _give_column(figures, gates, queue, clock, counters, parts, sources, requests, now, column_list, column)
        if row_list == column_list and row > column:
            row -= 1
        if row >= 0:
            request = queue[row_list, row, _REQUEST]
            if first_cycle(figures, gates, request, next_command(figures, gates, request)) > now:
                # the data is of the row that would be closed
                _, _, row, row_list, _ = _choose(figures, gates, queue, clock, now, True)
        wake = now + 1
    if row >= 0:
        if _give_row(figures, gates, queue, clock, counters, now, row_list, row):
            wake = now + 1
    elif clock[_REFRESHING] > 0 and (column < 0 or figures[BUSES] == 2):
        wake = min(wake, _refresh(figures, gates, queue, clock, counters, now))
    if clock[channel_time.MOVING] < wake:
        channel_time.enter(clock, _state(figures, gates, queue, clock, now), now)
    return wake


@compiled
def _state(figures: I64, gates: I64, queue: I64, clock: I64, now: int) -> int:
    """What a channel does from now on where no data moves."""
    if _queued(clock) == 0:
        return channel_time.IDLE
    if clock[_REFRESHING] > 0 and figures[REFRESHED] > 1:
        return channel_time.REFRESH
    which = _OPENING if clock[_COUNT + _OPENING] > 0 else clock[_DRAINS]
    if clock[_COUNT + which] == 0:
        which = 1 - which
    if clock[_REFRESHING] > 0 and bank_of(figures, queue[which, 0, _REQUEST]) == _due(figures, gates, queue, clock):
        return channel_time.REFRESH
    return waits_for(figures, gates, queue[which, 0, _REQUEST], now)


@compiled
def _choose(
    figures: I64, gates: I64, queue: I64, clock: I64, now: int, rows_only: bool
) -> tuple[int, int, int, int, int]:
    """The requests whose column command and whose row command come first, and the next cycle at which another could."""
    column, column_list, row, row_list, wake = -1, -1, -1, -1, NEVER
    single, stopped = figures[BUSES] == 1, clock[_REFRESHING] > 0 and figures[REFRESHED] > 1
    due = _due(figures, gates, queue, clock) if clock[_REFRESHING] > 0 else -1
    for turn in range(1 if stopped else 2):
        which = clock[_DRAINS] if turn == 1 else _OPENING
        before = -1
        for place in range(clock[_COUNT + which]):
            request = queue[which, place, _REQUEST]
            alike = request & figures[ALIKE]
            if alike == before:
                continue  # what is true of the request before is true of this one
            before = alike
            if which != _OPENING and bank_of(figures, request) == due:
                continue
            command = next_command(figures, gates, request)
            if (row >= 0) if command < RD else (column >= 0 or rows_only):
                continue
            time = first_cycle(figures, gates, request, command)
            if time > now:
                wake = min(wake, time)
                continue
            if command < RD:
                row, row_list = place, which
            else:
                column, column_list = place, which
            if single or (row >= 0 and (column >= 0 or rows_only)):
                return column, column_list, row, row_list, wake
    return column, column_list, row, row_list, wake


@compiled
def _give_column(
    figures: I64,
    gates: I64,
    queue: I64,
    clock: I64,
    counters: I64,
    parts: I64,
    sources: I64,
    requests: I64,
    now: int,
    which: int,
    place: int,
) -> None:
    """Moves the data of a request, which leaves its list."""
    request, owner = queue[which, place, _REQUEST], queue[which, place, _OWNER]
    give_column(figures, gates, request, now)
    if owner & 1 == 0:
        counters[ROW_HITS] += 1
    if request & 1 == _READS:
        answered = now + figures[READ_DATA]
        counters[READ_CYCLES] += answered - queue[which, place, _ARRIVAL]
        _done(clock, parts, sources, requests, owner >> 1, now, answered)
    own = parts[owner >> 1, REMAINING] > 0 and parts[owner >> 1, UNNOTED] == 0
    channel_time.move(parts[owner >> 1], clock, now, figures[COLUMN], own)
    _remove(queue, clock, which, place)


@compiled
def _give_row(
    figures: I64, gates: I64, queue: I64, clock: I64, counters: I64, now: int, which: int, place: int
) -> bool:
    """Closes or opens a row for a request; not if a listed request waits for the row that would be closed."""
    request, last = queue[which, place, _REQUEST], clock[_COUNT + _OPENING]
    bank, command = bank_of(figures, request), next_command(figures, gates, request)
    if command == PRE:
        for other in range(last):
            if bank_of(figures, queue[_OPENING, other, _REQUEST]) == bank:
                return False
    if queue[which, place, _OWNER] & 1 == 0:
        queue[which, place, _OWNER] += 1
        counters[ROW_CONFLICTS if command == PRE else ROW_MISSES] += 1
    if command == PRE:
        precharge(figures, gates, bank, now)
        return True
    counters[ACTIVATES] += 1
    activate(figures, gates, request, now)
    if which != _OPENING and last < figures[_ENTRIES]:
        for field in range(_ENTRY):
            queue[_OPENING, last, field] = queue[which, place, field]
        clock[_COUNT + _OPENING] += 1
        _remove(queue, clock, which, place)
    return True


@compiled
def _remove(queue: I64, clock: I64, which: int, place: int) -> None:
    clock[_COUNT + which] -= 1
    for at in range(place, clock[_COUNT + which]):
        for field in range(_ENTRY):
            queue[which, at, field] = queue[which, at + 1, field]


@compiled
def _due(figures: I64, gates: I64, queue: I64, clock: I64) -> int:
    """The first of the banks that are refreshed next: of those left in a round, one that nobody waits for."""
    first = (figures[PSEUDOS] - clock[_REFRESHING]) % figures[PSEUDOS] * figures[BANKS]
    return first if figures[REFRESHED] > 1 else _next_of_round(figures, gates, queue, clock, first)


@compiled
def _next_of_round(figures: I64, gates: I64, queue: I64, clock: I64, first: int) -> int:
    """The bank of a pseudo-channel, whose first is given, that is refreshed next by itself."""
    due = -1
    for bank in range(first, first + figures[BANKS]):
        if not is_fresh(gates, bank):
            if not _waited_for(figures, queue, clock, bank):
                return bank
            due = bank if due < 0 else due
    return due


@compiled
def _waited_for(figures: I64, queue: I64, clock: I64, bank: int) -> bool:
    for which in range(_LISTS):
        for place in range(clock[_COUNT + which]):
            if bank_of(figures, queue[which, place, _REQUEST]) == bank:
                return True
    return False


@compiled
def _refresh(figures: I64, gates: I64, queue: I64, clock: I64, counters: I64, now: int) -> int:
    """Closes the rows of the banks whose refresh is due, or refreshes them; the next cycle to look again."""
    first = _due(figures, gates, queue, clock)
    last = first + figures[REFRESHED]
    for other in range(clock[_COUNT + _OPENING]):
        if first <= bank_of(figures, queue[_OPENING, other, _REQUEST]) < last:
            return NEVER  # its data comes first
    closed = all_closed(gates, first, last)
    time = first_cycle_of_all(figures, gates, first, last, ACT if closed else PRE)
    if time > now:
        return time
    if closed:
        refresh_all(figures, gates, first, last, now)
        clock[_REFRESHING] -= 1
        counters[REFRESHES] += 1
    else:
        precharge_all(figures, gates, first, last, now)
    return now + 1


@compiled
def _skip_refreshes(figures: I64, gates: I64, queue: I64, clock: I64, counters: I64, until: int) -> None:
    """Of a channel that stands idle with all rows closed: all refreshes but the last before a cycle at once."""
    if clock[_REFRESHING] > 0:
        return
    if not all_closed(gates, 0, figures[PSEUDOS] * figures[BANKS]):
        return
    skipped = max(0, (until - clock[_NEXT_REFRESH]) // figures[REFRESH_INTERVAL])
    clock[_NEXT_REFRESH] += skipped * figures[REFRESH_INTERVAL]
    if figures[REFRESHED] == 1:
        for pseudo in range(figures[PSEUDOS]):
            for _ in range(skipped % figures[BANKS]):
                bank = _next_of_round(figures, gates, queue, clock, pseudo * figures[BANKS])
                mark_fresh(figures, gates, bank)  # and that was long ago
    counters[REFRESHES] += skipped * figures[PSEUDOS]


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
