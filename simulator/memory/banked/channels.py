"""The state of a memory's channels: their banks, their queues, their clock, and the requests of each source.

Every channel is a row of each array; `rows_of` gives the rows of one channel.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.machine.dram_file import Memory
from simulator.memory.banked import channel_time
from simulator.memory.banked.banks import REFRESH_INTERVAL, figures_of, idle_gates
from simulator.memory.banked.fields import LISTS, NEVER, Clock, Counter, Entry, Part, Run, Source
from simulator.tileprogram.program import I64

BUCKETS = 1024
"""The number of buckets of time in which requests are counted; a bucket's length doubles when time outgrows them."""


class Channels(NamedTuple):
    """All channels of a memory. (C channels, S sources)"""

    figures: I64
    gates: I64
    """C x rows of gates x gates."""
    entries: I64
    """C x entry x field: the entries of all lists."""
    lists: I64
    """C x list x field x run."""
    clock: I64
    counters: I64
    first: I64
    """C x port: the source whose requests are taken next; -1 if that has to be found."""
    history: I64
    """C x bucket: requests whose data moved."""
    bucket: I64
    """The length of a bucket in cycles, as an exponent of two: an array of one."""
    parts: I64
    """C x S x field: the state of a source's requests in a channel, see `Part`."""
    sources: I64
    requests: I64
    """1 x S x request: each source's requests, channel by channel. With a network 2 x ...: also their arrivals."""


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
    """Channels with all rows closed and no requests; a source may have `most_requests` requests at a time.

    Each channel has `ports` ports, each shared by equally many sources.
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
