"""The bus of a second memory, beside DRAM, that all cores share.

Copies that it serves hold its bus one after another, in the order they are granted. With size in bytes:

    a copy    granted + max(size / bytes per cycle of the bus, size / bytes per cycle of the queue) + latency

The links of a network are not on the way. Time on the bus is kept in fractions of a cycle, as in dram.py.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from simulator.compiled import compiled
from simulator.tileprogram.program import I64


class SecondBus(NamedTuple):
    """A second memory as the event loop knows it; without one no copy asks for it."""

    latency: int
    """Cycles from a copy's last byte on the bus to its destination."""
    cycle: int
    byte: int
    """The length of a cycle, and of a byte's transfer, in a common unit."""
    free: I64
    """When the bus is free, in that unit: an array of one."""


def second_bus(latency: int, bytes_per_cycle: Fraction) -> SecondBus:
    """The idle bus."""
    return SecondBus(latency, bytes_per_cycle.numerator, bytes_per_cycle.denominator, np.zeros(1, np.int64))


@compiled
def grant(of: SecondBus, ready: int) -> int:
    """The first cycle, not before `ready`, at which a copy may begin."""
    return max(ready, of.free[0] // of.cycle)


@compiled
def serve(of: SecondBus, start: int, size: int) -> int:
    """Begins a copy at a granted cycle; returns when its last byte is on the bus."""
    begin = max(of.free[0], start * of.cycle)
    of.free[0] = begin + size * of.byte
    return -(-of.free[0] // of.cycle)
