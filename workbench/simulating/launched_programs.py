"""Makes the engine's input from a scheduled program: the launches, and the addresses of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator import HostCall, Launched
from workbench.ir import KernelGraph, Launch, ScheduledProgram
from workbench.scheduling.planning.chiplet_plan import placed
from workbench.scheduling.planning.common_memory_plan import residents
from workbench.scheduling.planning.dram_plan import grids

Filled: TypeAlias = Mapping[str, npt.NDArray[np.bool_]]
"""Value -> a mask of the nonzero elements of its storage, from the storage's base on."""

NOTHING_KNOWN: Filled = MappingProxyType({})


def lying(scheduled: ScheduledProgram) -> dict[str, Any]:
    """The tensors that stay in the common memory, and the chiplets of tensors, as arguments of the engine."""
    kept = residents(scheduled, scheduled.residence)
    return {"residents": tuple(kept), "placed": tuple(placed(scheduled))}


def launched(
    lowered: KernelGraph, scheduled: ScheduledProgram, filled: Filled = NOTHING_KNOWN
) -> tuple[Launched | HostCall, ...]:
    """The simulator's input: for each launch a program with its tensors' addresses, or a call of the host."""
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
