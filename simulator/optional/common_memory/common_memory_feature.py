"""The feature `common memory`: hangs the common memory on the hooks of the simulator."""

from __future__ import annotations

from simulator.machine.optional.common_memory_shape import SHAPE, bytes_per_cycle, latency_cycles
from simulator.optional.common_memory.common_memory_invariants import violations
from simulator.optional.common_memory.residents import CommonMemory, check_plan
from simulator.optional.feature import Feature, SecondMemory, Spends

FEATURE = Feature(
    name="common memory",
    shape=SHAPE,
    keyword="residents",
    check=check_plan,
    follow=lambda machine, residents: CommonMemory(residents),
    second_memory=lambda machine: SecondMemory("common memory", bytes_per_cycle(machine), latency_cycles(machine)),
    spends=(Spends("common memory", "byte", "common_memory_pj_per_byte", ("common_read_bytes", "common_write_bytes")),),
    violations=violations,
)
