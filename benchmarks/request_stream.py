"""A stream of requests into a memory by itself, without a machine: what `benchmarks/dram_accuracy.py` measures."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.machine.dram_file import Memory
from simulator.memory.banked.address_map import address_map
from simulator.memory.banked.channels import idle_channels
from simulator.memory.banked.controller import drain
from simulator.memory.banked.fields import READS, Counter
from simulator.memory.dram import ask
from simulator.records.spans import CHANNEL_COUNTERS, CHANNEL_CYCLES
from simulator.tileprogram.program import I64


@dataclass(frozen=True, slots=True)
class Stream:
    """The result of a stream."""

    cycles: int
    """Of the memory's clock, until the last request was in a queue: as the reference counts."""
    average_read_latency: float
    """Cycles from the queue to the data, of the reads that the banks answered."""
    counters: dict[str, int]
    """Over all channels: `spans.CHANNEL_COUNTERS`."""
    spent: dict[str, int]
    """Cycles over all channels, until each was idle: `spans.CHANNEL_CYCLES`."""


def run_stream(memory: Memory, addresses: I64, writes: I64, channels: int = 1) -> Stream:
    """Offers requests to the channels of a memory, each channel's in order, one a cycle, as long as there is room."""
    served = idle_channels(memory, channels, 1, len(addresses))
    aligned = addresses // memory.request_bytes * memory.request_bytes
    ask(served, address_map(memory, channels), 0, 0, aligned + writes)
    drain(served)
    counts = served.counters.sum(0)
    answered = int(counts[READS] - counts[Counter.FORWARDED])
    return Stream(
        cycles=int(served.counters[:, Counter.LAST].max()) + 1,
        average_read_latency=int(counts[Counter.READ_CYCLES]) / max(answered, 1),
        counters=dict(zip(CHANNEL_COUNTERS, counts.tolist(), strict=False)),
        spent=dict(zip(CHANNEL_CYCLES, served.clock.sum(0).tolist(), strict=False)),
    )
