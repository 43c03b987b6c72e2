"""The bus of a memory that all cores share: that of a simple DRAM, and that of a second memory beside it.

Transfers hold the bus one after another, in the order they are granted. Time on it is kept in fractions of a cycle, so
no bandwidth is lost to rounding. For a second memory, where the links of a network are not on the way, with size in
bytes:

    a copy    granted + max(size / bytes per cycle of the bus, size / bytes per cycle of the queue) + latency
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.tileprogram.program import I64


class Bus(NamedTuple):
    """A memory with one bus as the event loop knows it; a machine without it has no transfer that asks for it."""

    latency: int
    """Cycles from a transfer's last byte on the bus to its destination, or to the answer that it is written."""
    cycle: int
    byte: int
    """The length of a cycle, and of a byte's transfer, in a common unit."""
    free: I64
    """When the bus is free, in that unit: an array of one."""


def idle_bus(latency: int, bytes_per_cycle: Fraction) -> Bus:
    return Bus(latency, bytes_per_cycle.numerator, bytes_per_cycle.denominator, np.zeros(1, np.int64))


@compiled
def grant(of: Bus, ready: int) -> int:
    """The first cycle, not before `ready`, at which a transfer may begin."""
    return max(ready, of.free[0] // of.cycle)


@compiled
def serve(of: Bus, start: int, size: int) -> int:
    """Begins a transfer at a granted cycle; returns when its last byte is on the bus."""
    begin = max(of.free[0], start * of.cycle)
    of.free[0] = begin + size * of.byte
    return -(-of.free[0] // of.cycle)
