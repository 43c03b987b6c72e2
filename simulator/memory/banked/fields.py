"""The fields of the arrays that hold the state of a memory's channels (channels.py), by the thing that has them."""

from __future__ import annotations

from enum import IntEnum

from simulator.memory.banked import channel_time
from simulator.memory.banked.banks import FIGURES

NEVER = 1 << 62

READS, WRITES, OPENING, LISTS = 0, 1, 2, 3
"""The lists of a channel, and how many there are."""


class Entry(IntEnum):
    """Of an entry of a list: the request; its source, and whether what it found is counted; when it came; the next of
    its run, or of the entries that are free, -1 for none; and of the first of a run its last."""

    REQUEST, OWNER, ARRIVAL, NEXT, RUN_END = range(5)


class Run(IntEnum):
    """Of a run in a list: its first entry, its bank, the command that it needs next, -1 if that must be looked up, and
    a cycle before which it cannot be given."""

    FIRST, BANK, COMMAND, EARLY = range(4)


class Setting(IntEnum):
    """Figures of the controller, beyond those of `banks`."""

    ENTRIES, HIGH, LOW, SHARING = range(FIGURES, FIGURES + 4)


class Clock(IntEnum):
    """Of a channel: first what it does with its time (see channel_time.py), then where it is, when it will look again,
    the first free entry, and of each list how many requests it has, and how many runs."""

    NOW, WAKE, NEXT_REFRESH, REFRESHING, DRAINS, TURN, FREE, COUNT = range(channel_time.SPENT, channel_time.SPENT + 8)
    RUNS = channel_time.SPENT + 7 + LISTS


class Counter(IntEnum):
    """Counters of a channel, after the requests by direction; the first six of these are named in
    `spans.CHANNEL_COUNTERS`, too. Then cycles from queue to data of all reads, and the last cycle in which a request
    was taken."""

    ROW_HITS, ROW_MISSES, ROW_CONFLICTS, ACTIVATES, REFRESHES, FORWARDED, READ_CYCLES, LAST = range(2, 10)


class Part(IntEnum):
    """Of a source in a channel: first what its transfer waited for (see channel_time.py), then the next of its
    requests, where they end, how many are not done, when the last one was; whether all that is left is on its way and
    since when, and cycles in which it was."""

    CURSOR, STOP, REMAINING, LATEST, UNNOTED, SINCE, AWAY = range(channel_time.NOTES, channel_time.NOTES + 7)


class Source(IntEnum):
    """Of a source: first cycle at which it asks, requests that are not done, when the last was, its place among all
    begun."""

    BEGIN, LEFT, DONE, PLACE = range(4)
