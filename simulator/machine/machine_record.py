"""The figures of a machine: a plain record of its parts, which any code may read.

parts.py explains the figures of each part; `provenance` says which are published, and where.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from simulator.machine import parts
from simulator.machine.provenance import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRecord:
    """One NPU. Figures are per core, except those of memory, interconnect and host link, which all cores share."""

    name: str
    clock_mhz: float
    core: parts.Core
    array: parts.SystolicArray
    vector: parts.VectorUnit
    scalar: parts.ScalarUnit
    scratchpad: parts.Scratchpad
    common_memory: parts.CommonMemory
    dram: parts.Dram
    network: parts.Network
    chiplet: parts.Chiplets
    dma: parts.DmaQueues
    host: parts.Host
    energy: parts.Energy
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def assumed(self) -> tuple[str, ...]:
        """The figures that were chosen because nobody published them."""
        return self.provenance.assumed

    @property
    def fitted(self) -> tuple[tuple[str, str], ...]:
        """(figure, by what and to which measurement it was fitted) for each fitted figure."""
        return self.provenance.fitted

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """(figure, where it comes from) for each published figure."""
        return self.provenance.sources

    @property
    def clock_khz(self) -> int:
        return round(self.clock_mhz * 1000)

    @property
    def macs_per_cycle(self) -> int:
        """Products that all arrays of a core together add up in a cycle, at best: with factors that take one pass."""
        return self.array.count * self.array.rows * self.array.columns


def cycles_of(machine: MachineRecord, nanoseconds: float) -> int:
    """The number of nanoseconds in cycles of the machine, rounded up."""
    return math.ceil(Fraction(str(nanoseconds)) * machine.clock_khz / 10**6)


def per_cycle(machine: MachineRecord, per_second: int) -> Fraction:
    """A rate per second as a rate per cycle of the machine."""
    return rounded(Fraction(per_second, 1000 * machine.clock_khz))


def rounded(rate: Fraction) -> Fraction:
    """Rounds a rate to a fraction with a denominator of at most 10,000, so that the engine's sums never overflow."""
    return rate.limit_denominator(10_000)


def matmul_passes(machine: MachineRecord, factor_bytes: int) -> int:
    """Counts the passes through an array of a product whose widest factor has `factor_bytes` bytes.

    No published array multiplies numbers of 64 bits, so these are split into halves, whose products need all their
    digits.
    """
    if factor_bytes <= parts.SINGLE_PASS_BYTES:
        return 1
    if factor_bytes <= parts.FACTOR_BYTES:
        return parts.MATMUL_PASSES[machine.array.matmul_precision]
    exact = parts.MATMUL_PASSES["f32" if machine.array.matmul_precision == "f32" else "bf16_6x"]
    return exact * (factor_bytes // parts.FACTOR_BYTES) ** 2
