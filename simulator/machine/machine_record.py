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
    """One NPU. Figures are per core, but those of memory, interconnect and host link, which all cores share."""

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
        """Figures that are not published: chosen, not known."""
        return self.provenance.assumed

    @property
    def fitted(self) -> tuple[tuple[str, str], ...]:
        """(figure, by what and to which measurement) for those that were chosen to meet one."""
        return self.provenance.fitted

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """(figure, where it comes from) for all others."""
        return self.provenance.sources

    @property
    def clock_khz(self) -> int:
        return round(self.clock_mhz * 1000)

    @property
    def macs_per_cycle(self) -> int:
        """Products that all arrays of a core together add up in a cycle, at best: of factors that take one pass."""
        return self.array.count * self.array.rows * self.array.columns


def cycles_of(machine: MachineRecord, nanoseconds: float) -> int:
    """Whole cycles that so much time takes."""
    return math.ceil(Fraction(str(nanoseconds)) * machine.clock_khz / 10**6)


def per_cycle(machine: MachineRecord, per_second: int) -> Fraction:
    """A rate in cycles of the machine."""
    return rounded(Fraction(per_second, 1000 * machine.clock_khz))


def rounded(rate: Fraction) -> Fraction:
    """A rate to one part in 10,000, so that the engine's integers never overflow."""
    return rate.limit_denominator(10_000)


def matmul_passes(machine: MachineRecord, factor_bytes: int) -> int:
    """Counts the passes through an array of a product whose widest factor has so many bytes.

    No array is published to multiply numbers of 64 bits, so they are taken apart: into halves, whose products need all
    their digits.
    """
    if factor_bytes <= parts.SINGLE_PASS_BYTES:
        return 1
    if factor_bytes <= parts.FACTOR_BYTES:
        return parts.MATMUL_PASSES[machine.array.matmul_precision]
    exact = parts.MATMUL_PASSES["f32" if machine.array.matmul_precision == "f32" else "bf16_6x"]
    return exact * (factor_bytes // parts.FACTOR_BYTES) ** 2
