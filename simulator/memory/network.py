"""The interconnect as links that carry one byte after another; machine/topology.py lists the links.

Each byte takes its part of a cycle on a link, in the order in which packets are sent. Each direction has its own links,
and the buffers between links are unlimited. A read takes the way back from its request on: queues request no faster
than answers could come.

    simple memory    a transfer is one packet. Equal parts of its bytes (of its bytes in each part of the memory) take
                     the ways of all channels. It ends no sooner than all bytes have passed all links:
                     granted + max(memory, queue, links) + latency + cycles of the longest way's hops
    banked memory    a packet is `interconnect_packet_bytes`. A queue sends the next packet when its own link has
                     carried the last, so queues share their common links. A request comes to its channel when its
                     bytes have passed all links, plus the latency of the interconnect and of its hops

Links between parts of the memory may have another width. If a way has only such links, a source sends its packets as if
the first link were its own; if a way has no link at all, packets do not wait for one another.

Times are in ticks, chosen so that cycles of both clocks and the time of a byte on any link are whole numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.machine.machine import Machine
from simulator.machine.topology import READ, WRITE, hop_cycles, topology
from simulator.memory.banked.address_map import channel_of
from simulator.memory.banked.channels import Channels
from simulator.memory.banked.fields import NEVER, Part
from simulator.tileprogram.program import I64
from simulator.units.cost_table import Work
from simulator.units.unit_table import asking


class LinkFigures(NamedTuple):
    """The machine's figures that determine the traffic on links; times are in ticks."""

    cycle: int
    memory_cycle: int
    """`cycle` and `memory_cycle` are the ticks of a cycle of the machine's clock and of a banked memory's clock."""
    latency: int
    request: int
    """Bytes of a request."""
    packet: int
    """Requests of a packet."""
    channels: int


class Network(NamedTuple):
    """The links of a machine, and their state."""

    figures: LinkFigures
    way_start: I64
    """For each direction, source and channel: where the links of its way begin in `way`."""
    way: I64
    hops: I64
    """Cycles of the hops on each source's way to each channel, beyond the latency of the interconnect."""
    byte: I64
    """For each link, the ticks of a byte."""
    free: I64
    """For each link, the tick from which it is free."""
    carried: I64
    """For each link, the bytes it carried."""
    asked: I64
    """For each instruction, the bytes in requests that it reads and writes in each part of a simple memory."""
    order: I64
    """For each source, its requests in sending order: channel, and place among the source's requests."""
    sent: I64
    number: I64
    """For each source, the number of its transfer's requests that are sent (`sent`), and of all (`number`)."""
    next: I64
    """For each source, the tick in which its next packet is sent."""


def network(machine: Machine) -> Network | None:
    """The idle network of a machine; None for a machine without links."""
    if not machine.has_links:
        return None
    made = topology(machine, asking(machine))
    widths, ratio = made.widths(machine), Fraction(1)
    way = machine.network.latency_cycles
    if machine.dram.kind == "banked":
        ratio, way = machine.dram_clock_ratio, machine.way_to_banks_cycles
    whole = math.lcm(*widths)
    cycle = whole * ratio.numerator
    figures = LinkFigures(
        cycle=cycle,
        memory_cycle=whole * ratio.denominator,
        latency=cycle * way,
        request=machine.dram.request_bytes,
        packet=max(1, machine.network.packet_bytes // machine.dram.request_bytes),
        channels=machine.dram.channels,
    )
    ways = [way for direction in (made.ways[READ], made.ways[WRITE]) for source in direction for way in source]
    return Network(
        figures=figures,
        way_start=np.cumsum([0, *map(len, ways)], dtype=np.int64),
        way=np.array([link for way in ways for link in way], np.int64),
        hops=np.array(made.hops, np.int64) * hop_cycles(machine),
        byte=np.array([whole // width * ratio.numerator for width in widths], np.int64),
        free=np.zeros(len(made.links), np.int64),
        carried=np.zeros(len(made.links), np.int64),
        asked=np.zeros((0, 2, machine.memory_parts), np.int64),
        order=np.zeros((len(made.hops), 0, 2), np.int64),
        **{name: np.zeros(len(made.hops), np.int64) for name in ("sent", "number", "next")},
    )


def launched(before: Network, machine: Machine, asked: Work) -> Network:
    """Returns the same network, prepared for another launch.

    For a simple memory in one part, the requests of a loop that reads and writes are divided in proportion to its
    bytes.
    """
    requested = asked.table.requested
    if machine.dram.kind == "banked":
        most = int(requested.max(initial=0)) // machine.dram.request_bytes
        return before._replace(order=np.zeros((len(before.hops), most, 2), np.int64))
    if machine.memory_parts > 1:
        return before._replace(asked=asked.by_part)
    written = requested * asked.written // np.maximum(asked.read + asked.written, 1)
    return before._replace(asked=np.stack([requested - written, written], axis=1)[:, :, None])


@compiled
def _pass(of: Network, direction: int, source: int, channel: int, size: int, at: int) -> int:
    """Sends bytes over a way's links from a tick on; returns the tick in which all have passed all links."""
    number = (direction * len(of.hops) + source) * of.figures.channels + channel
    passed = int(at)
    for place in range(of.way_start[number], of.way_start[number + 1]):
        link = of.way[place]
        of.free[link] = max(of.free[link], at) + size * of.byte[link]
        of.carried[link] += size
        passed = max(passed, int(of.free[link]))
    return passed


@compiled
def carry(of: Network, source: int, row: int, start: int) -> int:
    """Carries a transfer of simple memory from a cycle on; returns the cycle in which all its bytes have passed."""
    at, parts = start * of.figures.cycle, of.asked.shape[2]
    passed, channels = at, of.figures.channels // parts
    for direction in range(2):
        for part in range(parts):
            whole = of.asked[row, direction, part]
            for channel in range(channels):
                share = whole * (channel + 1) // channels - whole * channel // channels
                if share > 0:
                    passed = max(passed, _pass(of, direction, source, part * channels + channel, share, at))
    return -(-passed // of.figures.cycle)


@compiled
def longest_way(of: Network, source: int, row: int) -> int:
    """Cycles that the hops of a transfer's longest way take, in simple memory."""
    most, parts = 0, of.asked.shape[2]
    channels = of.figures.channels // parts
    for channel in range(of.figures.channels):
        if of.asked[row, 0, channel // channels] + of.asked[row, 1, channel // channels] > 0:
            most = max(most, of.hops[source, channel])
    return most


@compiled
def begin(of: Network, channels: Channels, source: int, bits: I64, asked: I64, start: int) -> None:
    """Prepares a source's transfer for sending from a cycle on, and sends its first packet."""
    for number in range(len(asked)):
        channel = channel_of(bits, asked[number])
        part = channels.parts[channel, source]
        of.order[source, number, 0], of.order[source, number, 1] = channel, part[Part.CURSOR]
        channels.requests[1, source, part[Part.CURSOR]] = NEVER
        part[Part.CURSOR] += 1
    for channel in range(len(channels.parts)):
        channels.parts[channel, source, Part.CURSOR] -= channels.parts[channel, source, Part.REMAINING]
    of.sent[source], of.number[source] = 0, len(asked)
    of.next[source] = start * of.figures.cycle
    _send(of, channels, source)


@compiled
def _send(of: Network, channels: Channels, source: int) -> None:
    """Sends a source's next packet."""
    sent, at = of.sent[source], of.next[source]
    last = min(sent + of.figures.packet, of.number[source])
    for number in range(sent, last):
        channel, place = of.order[source, number, 0], of.order[source, number, 1]
        direction = channels.requests[0, source, place] & 1
        passed = _pass(of, direction, source, channel, of.figures.request, at)
        passed += of.figures.latency + of.hops[source, channel] * of.figures.cycle
        channels.requests[1, source, place] = -(-passed // of.figures.memory_cycle)
        own = _own_link(of, direction, source, channel)
        if own >= 0:
            of.next[source] = max(of.next[source], of.free[own])
    of.sent[source] = last


@compiled
def _own_link(of: Network, direction: int, source: int, channel: int) -> int:
    """The source's own link on a way: the first link there, the last one back; -1 if the way has no link."""
    number = (direction * len(of.hops) + source) * of.figures.channels + channel
    if of.way_start[number] == of.way_start[number + 1]:
        return -1
    return int(of.way[of.way_start[number]] if direction == WRITE else of.way[of.way_start[number + 1] - 1])


@compiled
def next_packet(of: Network) -> int:
    """The cycle of the memory's clock in which the next packet is sent, `NEVER` if there is none."""
    at = NEVER
    for source in range(len(of.hops)):
        if of.sent[source] < of.number[source]:
            at = min(at, -(-of.next[source] // of.figures.memory_cycle))
    return at


@compiled
def send_until(of: Network, channels: Channels, cycle: int) -> None:
    """Sends all packets up to a cycle of the memory's clock, in order of time."""
    while True:
        first, at = -1, (cycle + 1) * of.figures.memory_cycle
        for source in range(len(of.hops)):
            if of.sent[source] < of.number[source] and of.next[source] < at:
                first, at = source, of.next[source]
        if first < 0 or at > cycle * of.figures.memory_cycle:
            return
        _send(of, channels, first)
