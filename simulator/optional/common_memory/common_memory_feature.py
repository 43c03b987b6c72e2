"""The common memory on the hooks of the simulator."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.machine.machine import Machine
from simulator.machine.optional.common_memory_shape import SHAPE, bytes_per_cycle, latency_cycles
from simulator.optional.common_memory.common_memory_invariants import violations
from simulator.optional.common_memory.residents import CommonMemory, Resident, check_plan
from simulator.optional.feature import Feature, Followed, SecondMemory, Spends


def _follow(machine: Machine, residents: Sequence[Resident]) -> Followed:
    return CommonMemory(residents)


def _second_memory(machine: Machine) -> SecondMemory:
    return SecondMemory("common memory", bytes_per_cycle(machine), latency_cycles(machine))


FEATURE = Feature(
    name="common memory",
    shape=SHAPE,
    keyword="residents",
    check=check_plan,
    follow=_follow,
    second_memory=_second_memory,
    spends=(Spends("common memory", "byte", "common_memory_pj_per_byte", ("common_read_bytes", "common_write_bytes")),),
    violations=violations,
)
