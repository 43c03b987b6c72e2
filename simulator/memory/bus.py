"""The bus of a memory that all cores share: of a simple DRAM, or of a second memory beside DRAM.

Transfers hold the bus one after another, in the order in which they are granted. Its time is kept in fractions of a
cycle, so no bandwidth is lost to rounding. For a second memory, whose transfers pass no links of a network, with size
in bytes:

    a copy    granted + max(size / bytes per cycle of the bus, size / bytes per cycle of the queue) + latency
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.tileprogram.program import I64


class Bus(NamedTuple):
    """The event loop's state of a memory with one bus. If a machine lacks the memory, no transfer asks for it."""

    latency: int
    """Cycles from a transfer's last byte on the bus to its destination, or to the answer that it is written."""
    cycle: int
    byte: int
    """`cycle` and `byte` are the lengths of a cycle and of a byte's transfer, in a common unit."""
    free: I64
    """The time at which the bus is free, in that unit: an array of one."""


def idle_bus(latency: int, bytes_per_cycle: Fraction) -> Bus:
    return Bus(latency, bytes_per_cycle.numerator, bytes_per_cycle.denominator, np.zeros(1, np.int64))


@compiled
def grant(of: Bus, ready: int) -> int:
    """The first cycle, not before `ready`, at which a transfer may begin."""
    return max(ready, of.free[0] // of.cycle)


@compiled
def serve(of: Bus, start: int, size: int) -> int:
    """Begins a transfer at a granted cycle; returns the cycle in which its last byte is on the bus."""
    begin = max(of.free[0], start * of.cycle)
    of.free[0] = begin + size * of.byte
    return -(-of.free[0] // of.cycle)
