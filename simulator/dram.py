"""The memory behind the DMA queues: fixed latency and one bus of the machine's bandwidth.

The engine asks a memory two things, in order of time: `grant`, the first cycle at which a transfer that is ready could
begin, and `serve`, which begins it. All a memory knows is in two arrays of integers, its parameters and its state;
the first parameter says which model they belong to. Another model, of banks and rows, is another branch in these two
functions with its own layout of the arrays: the compiled engine needs no indirect call, and nothing in it changes.

Here transfers hold the bus one after another in the order they are granted, each as long as its whole requests take
at full bandwidth. Time on the bus is kept in fractions of a cycle, so no bandwidth is lost to rounding:

    a transfer alone     ceil(request bytes / bytes per cycle) + latency
    n transfers at once  ceil(n * request bytes / bytes per cycle) + latency
"""

from __future__ import annotations

import numpy as np

from simulator.jit import compiled
from simulator.machine import Machine
from simulator.program import I64

FLAT = 0
_MODEL, _LATENCY, _CYCLE, _BYTE = 0, 1, 2, 3
_BUS_FREE = 0


def parameters(machine: Machine) -> I64:
    """Model, latency, and the length of a cycle and of a byte's transfer in one common unit of time."""
    rate = machine.dram_bytes_per_cycle
    return np.array([FLAT, machine.dram_latency_cycles, rate.numerator, rate.denominator], np.int64)


def idle_state() -> I64:
    return np.zeros(1, np.int64)


@compiled
def grant(memory: I64, state: I64, ready: int) -> int:
    """The first cycle, not before `ready`, at which a transfer may begin."""
    return max(ready, state[_BUS_FREE] // memory[_CYCLE])


@compiled
def serve(memory: I64, state: I64, start: int, address: int, size: int, writes: int) -> int:
    """Begins a transfer of `size` request bytes at a granted cycle; returns when its last request is on the bus.

    Address and direction do not matter to this model.
    """
    begin = max(state[_BUS_FREE], start * memory[_CYCLE])
    state[_BUS_FREE] = begin + size * memory[_BYTE]
    return -(-state[_BUS_FREE] // memory[_CYCLE])


@compiled
def latency(memory: I64) -> int:
    """Cycles from the last request on the bus to its data, or to the word that it is written."""
    return memory[_LATENCY]
