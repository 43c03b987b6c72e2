"""The state of a memory's channels: their banks, their queues, their clock, and the requests of each source.

Every channel is a row of each array; `rows_of` gives the rows of one channel.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.machine.dram_file import Memory
from simulator.memory.banked import channel_time
from simulator.memory.banked.banks import FIGURES, REFRESH_INTERVAL, figures_of, idle_gates
from simulator.tileprogram.program import I64

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


BUCKETS = 1024
"""Buckets of time in which a channel's requests are counted: their length grows as needed, in powers of two."""


class Channels(NamedTuple):
    """All channels of a memory. (C channels, S sources)"""

    figures: I64
    gates: I64
    """C x rows of gates x gates."""
    entries: I64
    """C x entry x field: of all lists."""
    lists: I64
    """C x list x field x run."""
    clock: I64
    counters: I64
    first: I64
    """C x port: the source whose requests are taken next; -1 if it has to be found."""
    history: I64
    """C x bucket: requests whose data moved."""
    bucket: I64
    """Length of a bucket in cycles, as a power of two."""
    parts: I64
    """C x S: the state of a source's requests in a channel."""
    sources: I64
    requests: I64
    """1 x S x ...: each source's requests, channel by channel; with a network 2 x S x ...: also when each arrives."""


class Channel(NamedTuple):
    """One channel: see `Channels`."""

    figures: I64
    gates: I64
    entries: I64
    lists: I64
    clock: I64
    counters: I64
    first: I64
    parts: I64
    sources: I64
    requests: I64


@compiled
def rows_of(of: Channels, channel: int) -> Channel:
    """The rows of a channel."""
    return Channel(
        of.figures,
        of.gates[channel],
        of.entries[channel],
        of.lists[channel],
        of.clock[channel],
        of.counters[channel],
        of.first[channel],
        of.parts[channel],
        of.sources,
        of.requests,
    )


def idle_channels(memory: Memory, channels: int, sources: int, most_requests: int, ports: int = 1) -> Channels:
    """Channels with all rows closed and no requests; a source may have so many requests at a time.

    Each channel has so many ports, each shared by equally many sources.
    """
    clock = np.zeros((channels, Clock.RUNS + LISTS), np.int64)
    clock[:, channel_time.STATE] = channel_time.IDLE
    figures = figures_of(memory)
    clock[:, Clock.NEXT_REFRESH], clock[:, Clock.WAKE] = figures[REFRESH_INTERVAL], NEVER
    controller = [
        memory.queue_entries,
        math.floor(memory.drain_from * memory.queue_entries),
        math.ceil(memory.drain_to * memory.queue_entries),
        sources // ports,
    ]
    entries = np.zeros((channels, LISTS * memory.queue_entries, len(Entry)), np.int64)
    entries[:, :, Entry.NEXT] = np.arange(1, LISTS * memory.queue_entries + 1)
    return Channels(
        figures=np.concatenate([figures, np.array(controller, np.int64)]),
        gates=idle_gates(memory, channels),
        entries=entries,
        lists=np.zeros((channels, LISTS, len(Run), memory.queue_entries), np.int64),
        clock=clock,
        counters=np.zeros((channels, Counter.LAST + 1), np.int64),
        first=np.full((channels, ports), -1, np.int64),
        history=np.zeros((channels, BUCKETS), np.int64),
        bucket=np.zeros(1, np.int64),
        parts=np.zeros((channels, sources, Part.AWAY + 1), np.int64),
        sources=np.zeros((sources, len(Source)), np.int64),
        requests=np.zeros((1, sources, most_requests), np.int64),
    )
