"""Simulation: the launches of a scheduled program, in order, on a machine."""

from __future__ import annotations

from simulator import Launched, Machine, Trace
from simulator import simulate as run_launches
from workbench.ir import ScheduledProgram


def simulate(scheduled: ScheduledProgram, machine: Machine) -> Trace:
    """When every instruction of every launch runs on `machine`, and what it waited for."""
    return run_launches(launched(scheduled), machine)


def launched(scheduled: ScheduledProgram) -> tuple[Launched, ...]:
    """What the simulator is given: a program with its addresses for each launch."""
    programs = {kernel.kernel: kernel.program for kernel in scheduled.kernels}
    return tuple(
        Launched(launch.kernel, programs[launch.kernel], launch.addresses, launch.after)
        for launch in scheduled.launches.launches
    )
