"""The common memory as a part of a machine; simulator/optional/common_memory simulates it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from simulator.machine.machine_record import MachineRecord, cycles_of, per_cycle
from simulator.machine.optional.shape import Shape


def bytes_per_cycle(machine: MachineRecord) -> Fraction:
    """The bandwidth of the common memory, as precise as `Machine.dram_bytes_per_cycle`; 0 if there is none."""
    return per_cycle(machine, machine.common_memory.bytes_per_second)


def latency_cycles(machine: MachineRecord) -> int:
    """Cycles from a copy's last byte on the bus to its end, the way through the interconnect included."""
    return machine.network.latency_cycles + cycles_of(machine, machine.common_memory.latency_ns)


def _mistakes(machine: MachineRecord) -> Iterator[str]:
    if machine.common_memory.bytes and not bytes_per_cycle(machine):
        rate = "common_memory_bytes_per_second, at least a byte in 10,000 cycles"
        yield f"with common_memory_bytes = {machine.common_memory.bytes} the machine needs {rate}"


SHAPE = Shape(mistakes=_mistakes)
