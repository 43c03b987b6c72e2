"""A stream of requests into a memory by itself, without a machine: what `benchmarks/dram.py` measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.address_map import address_map, channel_of, coordinate_of
from simulator.controller import (
    BEGIN,
    COUNTER_NAMES,
    COUNTERS,
    CURSOR,
    DONE,
    FORWARDED,
    LAST,
    LEFT,
    READ_CYCLES,
    READS,
    STOP,
    Channels,
    drain,
    idle_channels,
)
from simulator.jit import compiled
from simulator.memory_file import Memory
from simulator.program import I64


@dataclass(frozen=True, slots=True)
class Stream:
    """What became of a stream."""

    cycles: int
    """Of the memory's clock, until the last request was in a queue: as the reference counts."""
    average_read_latency: float
    """Cycles from the queue to the data, of the reads that the banks answered."""
    counters: dict[str, int]
    """Over all channels: `controller.COUNTER_NAMES`."""


def run_stream(memory: Memory, addresses: I64, writes: I64, channels: int = 1) -> Stream:
    """Offers requests to the channels of a memory, each channel's in order, one a cycle, as long as there is room."""
    served = idle_channels(memory, channels, 1, len(addresses))
    ask(served, address_map(memory, channels), 0, 0, addresses, writes)
    counts = np.zeros(COUNTERS, np.int64)
    for channel in range(channels):
        drain(served, channel)
        counts += served.counters[channel]
    answered = int(counts[READS] - counts[FORWARDED])
    return Stream(
        cycles=int(served.counters[:, LAST].max()) + 1,
        average_read_latency=int(counts[READ_CYCLES]) / max(answered, 1),
        counters=dict(zip(COUNTER_NAMES, counts.tolist(), strict=False)),
    )


@compiled
def ask(asked: Channels, bits: I64, source: int, begin: int, addresses: I64, writes: I64) -> None:
    """Gives a source the requests of these addresses, to be asked for from a cycle on: sorted by channel, in order."""
    channels = len(asked.parts)
    count = np.zeros(channels + 1, np.int64)
    for address in addresses:
        count[channel_of(bits, address) + 1] += 1
    for channel in range(channels):
        count[channel + 1] += count[channel]
        asked.parts[channel, source, CURSOR], asked.parts[channel, source, STOP] = count[channel], count[channel + 1]
    for index in range(len(addresses)):
        address = addresses[index]
        channel = channel_of(bits, address)
        asked.requests[source, count[channel]] = coordinate_of(bits, address) * 2 + writes[index]
        count[channel] += 1
    asked.sources[source, BEGIN], asked.sources[source, LEFT] = begin, len(addresses)
    asked.sources[source, DONE] = begin
