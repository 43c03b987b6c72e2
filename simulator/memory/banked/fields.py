"""The fields of the arrays of channels.py, one enumeration for each kind of row."""

from __future__ import annotations

from enum import IntEnum

from simulator.memory.banked import channel_time
from simulator.memory.banked.banks import FIGURES

NEVER = 1 << 62

READS, WRITES, OPENING, LISTS = 0, 1, 2, 3
"""The lists of a channel, and the number of lists."""


class Entry(IntEnum):
    """Fields of an entry of a list: the request; its source times 2, plus 1 once its hit, miss or conflict is counted;
    its arrival; the next entry of its run, or of the free entries, -1 for none; for the first of a run, the last."""

    REQUEST, OWNER, ARRIVAL, NEXT, RUN_END = range(5)


class Run(IntEnum):
    """Fields of a run in a list: its first entry, its bank, its next command (-1 if that must be looked up), and a
    cycle before which that command cannot be given."""

    FIRST, BANK, COMMAND, EARLY = range(4)


class Setting(IntEnum):
    """Figures of the controller, after those of `banks`."""

    ENTRIES, HIGH, LOW, SHARING = range(FIGURES, FIGURES + 4)


class Clock(IntEnum):
    """Fields of a channel, after its time by state (see channel_time.py): its cycle, the cycle in which it looks again,
    its next refresh, the refreshes that are due, the queue that goes first, the port whose turn it is, the first free
    entry, and for each list the number of its requests (`COUNT`) and of its runs (`RUNS`)."""

    NOW, WAKE, NEXT_REFRESH, REFRESHING, DRAINS, TURN, FREE, COUNT = range(channel_time.SPENT, channel_time.SPENT + 8)
    RUNS = COUNT + LISTS


class Counter(IntEnum):
    """Counters of a channel, after the requests by direction: the first six as in `spans.CHANNEL_COUNTERS`, the cycles
    from queue to data of all reads, and the last cycle in which a request was taken."""

    ROW_HITS, ROW_MISSES, ROW_CONFLICTS, ACTIVATES, REFRESHES, FORWARDED, READ_CYCLES, LAST = range(2, 10)


class Part(IntEnum):
    """Fields of a source in a channel, after the waits of its transfer (see channel_time.py): its next request, the end
    of its requests, the number not done, the cycle in which the last was done; 1 if all remaining requests are on their
    way, since which cycle, and all cycles in which they were."""

    CURSOR, STOP, REMAINING, LATEST, UNNOTED, SINCE, AWAY = range(channel_time.NOTES, channel_time.NOTES + 7)


class Source(IntEnum):
    """Fields of a source: the first cycle of its requests, the number not done, the cycle in which the last was done,
    and its place in the order of begins."""

    BEGIN, LEFT, DONE, PLACE = range(4)
