"""Simulation: the launches of a scheduled program, in order, on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator import HostCall, Launched, Machine, Trace
from simulator.compiled import when_compiling
from workbench.ground.environment.progress import at, reached
from workbench.ir import KernelGraph, Launch, ScheduledProgram
from workbench.scheduling.planning.chiplet_plan import placed
from workbench.scheduling.planning.common_memory_plan import residents
from workbench.scheduling.planning.dram_plan import grids

Filled: TypeAlias = Mapping[str, npt.NDArray[np.bool_]]
"""Value -> the nonzero elements of its storage, from its base on."""

NOTHING_KNOWN: Filled = MappingProxyType({})


def simulate(
    lowered: KernelGraph,
    scheduled: ScheduledProgram,
    machine: Machine,
    seconds: float | None = None,
    filled: Filled = NOTHING_KNOWN,
) -> Trace:
    """The cycles of every instruction of every launch on `machine`, and the causes of its waits; raises after
    `seconds`.

    `filled` has the nonzero elements of tensors, for a machine that skips tiles of zeros.
    """
    from simulator.engine.engine import simulate as run_launches  # Numba, which launches alone do not need

    with when_compiling(lambda begins: at("compiling the simulator, once" if begins else "")):
        kept = tuple(residents(scheduled, scheduled.residence))
        lie = tuple(placed(scheduled))
        return run_launches(
            launched(lowered, scheduled, filled), machine, seconds=seconds, progress=reached, residents=kept, placed=lie
        )


def launched(
    lowered: KernelGraph, scheduled: ScheduledProgram, filled: Filled = NOTHING_KNOWN
) -> tuple[Launched | HostCall, ...]:
    """The simulator's input: for each launch a program with its addresses, or a call of the host."""
    programs = {kernel.kernel: kernel.program for kernel in scheduled.kernels}
    hosts = {step.kernel: step for step in scheduled.hosts}
    lie = grids(lowered)
    numbers = {known.value: known.array for known in scheduled.launches.numbers}

    def given(launch: Launch) -> Launched | HostCall:
        if launch.kernel in hosts:
            step = hosts[launch.kernel]
            return HostCall(launch.kernel, step.bytes_in, step.bytes_out, step.flops, launch.after)
        indices = {place: numbers[value] for place, value in enumerate(launch.arguments) if value in numbers}
        known = {place: filled[value] for place, value in enumerate(launch.arguments) if value in filled}
        return Launched(
            launch.kernel,
            programs[launch.kernel],
            launch.addresses,
            launch.after,
            indices,
            known,
            tuple(lie.get(value) for value in launch.arguments),
        )

    return tuple(map(given, scheduled.launches.launches))
