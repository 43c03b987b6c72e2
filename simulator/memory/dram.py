"""The memory behind the DMA queues: a latency and one bus, or channels of banks.

The engine asks in order of time, and is compiled for each of the two models, without the code of the other.

**Simple.** Transfers hold the bus one after another, first ready first served, each as long as its whole requests take
at the memory's bandwidth, or through the ports of a simple interconnect: one request per port and cycle. See bus.py:

    a transfer alone     ceil(request bytes / bytes per cycle) + latency
    n transfers at once  ceil(n * request bytes / bytes per cycle) + latency

A memory that is divided into parts has a bus for each: several_buses.py.

**Banked.** A transfer begins when its queue is free, and its end is unknown until its last request is done: the
transfers of several queues compete for banks, request by request. So its begin returns no end, and the engine lets the
memory `advance`: to the engine's next event, or to the end of a transfer if that comes first. The requests of a
transfer (see units/request_addresses.py) reach all channels one latency of the interconnect after its begin. Each
channel has one port per core, in which requests wait in the order in which their transfers began. A channel takes one
request per cycle of its clock, from the cores in turn; channels do not depend on one another.

    a transfer           until the last of its requests is done, and no less than its queue and the interconnect take

Channels advance one after another, in stretches of time in which no transfer can end, so that no other can begin: a
transfer with n requests left for a channel does not end in the next n cycles. Times are whole cycles of two clocks,
whose ratio is a fraction of two integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled, compiled_apart
from simulator.machine.machine import Machine
from simulator.memory import network
from simulator.memory.banked import channel_time
from simulator.memory.banked.address_map import address_map, channel_of, coordinate_of
from simulator.memory.banked.banks import READ_DATA
from simulator.memory.banked.channels import Channels, idle_channels
from simulator.memory.banked.controller import advance_channel, drain
from simulator.memory.banked.fields import NEVER, Part, Source
from simulator.memory.banked.requests import request_counts, requests_of
from simulator.memory.network import Network
from simulator.memory.pages import Pages, translate
from simulator.records.spans import CHANNEL_COUNTERS, CHANNEL_CYCLES, Statistics, Wait
from simulator.tileprogram.program import I32, I64
from simulator.units.cost_table import Work
from simulator.units.request_addresses import Walks, no_walks
from simulator.units.unit_table import asking

STRETCH = 1 << 12
"""Cycles after which `advance` returns: with a request per cycle in each of some tens of channels, after some 10 ms."""
ON_THE_WAY = -2


class MemoryFigures(NamedTuple):
    """The figures of the machine's memory that the event loop reads."""

    banked: bool
    cycle: int
    byte: int
    """`byte` cycles of a banked memory's clock take the same time as `cycle` cycles of the machine's clock."""
    request: int
    way: int
    """Cycles of the machine from a transfer's begin to its first request at a banked memory."""


class MemoryState(NamedTuple):
    """The state of a banked memory that changes, each value an array of one."""

    reached: I64
    """The cycle of the memory's clock up to which time has passed."""
    quiet: I64
    """The cycle of the memory's clock before which no transfer ends."""


class Banked(NamedTuple):
    """The state of a banked memory: its channels, and the transfers of a launch."""

    channels: Channels
    bits: I64
    walks: Walks
    asked: I64
    """Room for the requests of one transfer."""
    running: I64
    """For each source: 1 while one of its transfers is in flight."""
    pages: Pages | None
    """The pages that translate addresses; None for a memory in one part."""


def figures_of(machine: Machine) -> MemoryFigures:
    banked, request = machine.dram.kind == "banked", machine.dram.request_bytes
    if not banked:
        return MemoryFigures(banked, 1, 1, request, 0)
    ratio = machine.dram_clock_ratio
    return MemoryFigures(banked, ratio.denominator, ratio.numerator, request, machine.way_to_banks_cycles)


def idle_state() -> MemoryState:
    return MemoryState(reached=np.zeros(1, np.int64), quiet=np.full(1, NEVER, np.int64))


def banked(machine: Machine) -> Banked | None:
    """The state of a machine's banked memory before its first transfer; None for a simple memory."""
    if machine.dram.kind == "simple":
        return None
    memory, sources = machine.banked_memory(), machine.core.count * asking(machine)
    channels = idle_channels(memory, machine.dram.channels, sources, 0, ports=machine.core.count)
    bits, nothing = address_map(memory, machine.dram.channels // machine.memory_parts), np.zeros(0, np.int64)
    return Banked(channels, bits, no_walks(), nothing, np.zeros(sources, np.int64), None)


def launched(before: Banked, machine: Machine, asked: Work, pages: Pages | None) -> Banked:
    """Returns the same channels, prepared for another launch's transfers, with room for exactly its requests."""
    counts = request_counts(asked.walks, machine.dram.request_bytes)
    asked.table.requested[:] = counts * machine.dram.request_bytes
    columns = 2 if machine.has_links else 1
    requests = np.zeros((columns, len(before.running), counts.max(initial=0)), np.int64)
    channels = before.channels._replace(requests=requests)
    room = np.zeros(requests.shape[2], np.int64)
    return before._replace(channels=channels, walks=asked.walks, asked=room, pages=pages)


@compiled_apart
def begin_transfer(
    memory: MemoryFigures, state: MemoryState, of: Banked, net: Network | None, source: int, row: int, start: int
) -> None:
    """Begins a transfer of a source at a granted cycle."""
    count = requests_of(of.walks, row, memory.request, of.asked)
    translate(of.pages, of.asked[:count])
    begin = max(_to_memory(memory, start + memory.way), state.reached[0])
    most = ask(of.channels, of.bits, source, begin, of.asked[:count])
    of.running[source] = 1
    state.quiet[0] = min(state.quiet[0], begin + most)
    if net is not None:
        network.begin(net, of.channels, source, of.bits, of.asked[:count], start)
        state.quiet[0] = min(state.quiet[0], network.next_packet(net))


@compiled_apart
def advance(memory: MemoryFigures, state: MemoryState, of: Banked, net: Network | None, until: int) -> int:
    """Lets time pass up to a cycle or until a transfer ends; returns the source of that transfer, -1 if none ended.

    After a stretch of many cycles it returns `ON_THE_WAY`: call it again.
    """
    limit = NEVER if until >= NEVER else _to_memory(memory, until)
    while True:
        if limit < state.quiet[0] or state.quiet[0] == NEVER:
            return -1
        quiet = NEVER
        if net is not None:
            network.send_until(net, of.channels, min(state.reached[0], limit))
            quiet = max(network.next_packet(net), state.reached[0])
        for source in range(len(of.running)):
            if of.running[source] == 0:
                continue
            if of.channels.sources[source, Source.LEFT] == 0:
                of.running[source] = 0
                return source
            most = 0
            for channel in range(len(of.channels.parts)):
                part = of.channels.parts[channel, source]
                most = max(most, part[Part.STOP] - part[Part.CURSOR])
            least = most if most > 0 else of.channels.figures[READ_DATA]  # only a read is taken but not done
            quiet = min(quiet, state.reached[0] + least)
        state.quiet[0] = quiet
        if limit < quiet or limit <= state.reached[0]:
            return -1
        way = memory.way * memory.byte // memory.cycle  # requests of a next transfer arrive no sooner
        reached = min(quiet + way, limit)
        state.reached[0] = min(reached, state.reached[0] + STRETCH)
        for channel in range(len(of.channels.parts)):
            advance_channel(of.channels, channel, state.reached[0])
        if state.reached[0] < reached:
            return ON_THE_WAY


@compiled
def ended(memory: MemoryFigures, of: Banked, source: int) -> int:
    """The machine's cycle in which the last request of a source's ended transfer was done."""
    done = int(of.channels.sources[source, Source.DONE])
    return -(-done * memory.cycle // memory.byte)


@compiled
def waited(memory: MemoryFigures, of: Banked, source: int, waits: I32, for_memory: bool) -> None:
    """Records the waits of a transfer that has ended: on its way, and in the channel that was done last.

    Waits are in the machine's cycles. With `for_memory` False the transfer's own unit was slower than the memory, so
    only the way counts.
    """
    waits[Wait.INTERCONNECT] = memory.way
    if not for_memory:
        return
    last = 0
    for channel in range(len(of.channels.parts)):
        if of.channels.parts[channel, source, Part.LATEST] > of.channels.parts[last, source, Part.LATEST]:
            last = channel
    cycles = int(of.channels.parts[last, source, Part.AWAY])
    before = cycles * memory.cycle // memory.byte
    waits[Wait.INTERCONNECT] += before
    for state in range(channel_time.IDLE):
        cycles += of.channels.parts[last, source, state]
        now = cycles * memory.cycle // memory.byte
        waits[Wait.MEMORY_BUS.value + state], before = now - before, now


def statistics(memory: MemoryFigures, of: Banked | None, end: int) -> Statistics:
    """Each channel's cycles by state until cycle `end`, and its counters and bytes after all its requests are done.

    Cycles are the machine's. No channels for a simple memory.
    """
    if of is None:
        return Statistics(
            channels=np.zeros((0, len(CHANNEL_COUNTERS)), np.int64),
            channel_cycles=np.zeros((0, len(CHANNEL_CYCLES)), np.int64),
            channel_bytes=np.zeros((0, 0), np.int64),
            channel_times=np.zeros(1, np.int64),
        )
    reached = _to_memory(memory, end + memory.way) + 1  # as far as `advance` may have come
    for channel in range(len(of.channels.parts)):
        advance_channel(of.channels, channel, reached)
        channel_time.pass_time(of.channels.clock[channel], reached)
    passed = of.channels.clock[:, : channel_time.STATES].cumsum(1) * memory.cycle // memory.byte
    full = of.channels.clock[:, channel_time.FULL, None] * memory.cycle // memory.byte
    states = np.diff(np.minimum(passed, end), axis=1, prepend=0)
    drain(of.channels)
    used = int(np.flatnonzero(of.channels.history.any(0)).max(initial=-1)) + 1
    borders = np.arange(used + 1, dtype=np.int64) << int(of.channels.bucket[0])
    return Statistics(
        channels=of.channels.counters[:, : len(CHANNEL_COUNTERS)].copy(),
        channel_cycles=np.concatenate([states, np.minimum(full, end)], axis=1),
        channel_bytes=of.channels.history[:, :used] * memory.request,
        channel_times=-(-borders * memory.cycle // memory.byte),
    )


@compiled
def _to_memory(memory: MemoryFigures, cycle: int) -> int:
    """The first cycle of the memory's clock that begins no sooner than this cycle of the machine's clock."""
    return -(-cycle * memory.byte // memory.cycle)


@compiled
def ask(channels: Channels, bits: I64, source: int, begin: int, asked: I64) -> int:
    """Gives a source the requests of a transfer, sorted by channel; returns the most requests for one channel.

    A request is the address at which it starts, plus 1 if it writes.
    """
    for channel in range(len(channels.parts)):
        part = channels.parts[channel, source]
        for each in range(channel_time.NOTES):
            part[each] = 0
        part[Part.REMAINING], part[Part.LATEST], part[Part.SINCE], part[Part.AWAY] = 0, 0, begin, 0
    for request in asked:
        channels.parts[channel_of(bits, request), source, Part.REMAINING] += 1
    most, before = 0, 0
    for channel in range(len(channels.parts)):
        part = channels.parts[channel, source]
        part[Part.CURSOR] = part[Part.STOP] = before
        before, most = before + part[Part.REMAINING], max(most, part[Part.REMAINING])
        if part[Part.REMAINING] > 0:
            part[Part.UNNOTED] = 1
            channels.clock[channel, channel_time.NOT_NOTED] += 1
    for request in asked:
        part = channels.parts[channel_of(bits, request), source]
        channels.requests[0, source, part[Part.STOP]] = coordinate_of(bits, request) * 2 + (request & 1)
        part[Part.STOP] += 1
    channels.sources[source, Source.BEGIN], channels.sources[source, Source.LEFT] = begin, len(asked)
    channels.sources[source, Source.DONE] = begin
    last = 0
    for other in range(len(channels.sources)):
        last = max(last, channels.sources[other, Source.PLACE])
    channels.sources[source, Source.PLACE] = last + 1
    return most
