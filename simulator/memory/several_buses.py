"""The buses of a simple memory that is divided into parts: one for each part, with an equal share of the bandwidth.

A transfer has a share of bytes on the bus of every part that it accesses. It is granted as soon as one of these buses
is free; each bus carries the transfer's share after the shares of earlier transfers. With share(p) in whole requests:

    sent    the latest of  max(free(p), granted) + share(p) / (bytes per cycle / parts)  over all parts p with a share

All else is as with one bus (see dram.py). The delay of a transfer by its other buses counts as `Wait.MEMORY_BUS`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.machine.machine import Machine
from simulator.tileprogram.program import I64
from simulator.units.cost_table import Work


class Buses(NamedTuple):
    """The state of the buses."""

    cycle: int
    byte: int
    """`cycle` and `byte` are the lengths of a cycle and of a byte's transfer, in a common unit."""
    free: I64
    """For each bus, the time at which it is free, in that unit."""
    user: I64
    """For each bus, the instruction of this launch that used it last, -1 for none."""
    asked: I64
    """`Work.by_part`."""


def buses(machine: Machine) -> Buses | None:
    """The idle buses of a machine with several; None for a single bus or banked memory."""
    parts = machine.memory_parts
    if parts == 1 or machine.dram.kind != "simple":
        return None
    rate, idle = machine.bus_bytes_per_cycle / parts, np.zeros(parts, np.int64)
    return Buses(rate.numerator, rate.denominator, idle, idle - 1, np.zeros((0, 2, parts), np.int64))


def launched(before: Buses, asked: Work) -> Buses:
    """Returns the same buses, prepared for another launch's transfers."""
    return before._replace(user=np.full_like(before.user, -1), asked=asked.by_part)


@compiled
def grant(of: Buses, row: int, ready: int) -> int:
    """The first cycle, not before `ready`, at which a transfer may begin."""
    return max(ready, of.free[_first(of, row)] // of.cycle)


@compiled
def granted_last(of: Buses, row: int) -> int:
    """The instruction that was last granted the bus for which a transfer waits; -1 for none."""
    return int(of.user[_first(of, row)])


@compiled
def _first(of: Buses, row: int) -> int:
    """The bus that is free first, among the buses with a share of a transfer."""
    first = -1
    for bus in range(len(of.free)):
        asked = of.asked[row, 0, bus] + of.asked[row, 1, bus]
        if asked > 0 and (first < 0 or of.free[bus] < of.free[first]):
            first = bus
    return first


@compiled
def serve(of: Buses, row: int, start: int) -> int:
    """Begins a transfer at a granted cycle; returns the cycle in which its last request is on its bus."""
    sent = start
    for bus in range(len(of.free)):
        asked = of.asked[row, 0, bus] + of.asked[row, 1, bus]
        if asked > 0:
            begin = max(of.free[bus], start * of.cycle)
            of.free[bus] = begin + asked * of.byte
            of.user[bus] = row
            sent = max(sent, -(-of.free[bus] // of.cycle))
    return sent


@compiled
def alone(of: Buses, row: int, start: int) -> int:
    """The cycle in which a transfer's last request would be on its bus if all buses were free at its begin."""
    most = 0
    for bus in range(len(of.free)):
        most = max(most, of.asked[row, 0, bus] + of.asked[row, 1, bus])
    return start + -(-most * of.byte // of.cycle)


@compiled
def waited_for(of: Buses, order: I64, starts: I64, out: I64) -> None:
    """Writes to `out` for each transfer, in the order of grants, the transfer for which it waited, -1 for none.

    `of` must have idle buses; this runs the transfers on them.
    """
    for place in range(len(order)):
        out[place] = granted_last(of, order[place])
        serve(of, order[place], int(starts[order[place]]))
