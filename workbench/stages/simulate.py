"""Simulation: the launches of a scheduled program, in order, on a machine."""

from __future__ import annotations

from simulator import HostCall, Launched, Machine, Trace
from simulator import simulate as run_launches
from workbench.ir import Launch, ScheduledProgram


def simulate(scheduled: ScheduledProgram, machine: Machine) -> Trace:
    """When every instruction of every launch runs on `machine`, and what it waited for."""
    programs = {kernel.kernel: kernel.program for kernel in scheduled.kernels}
    hosts = {step.kernel: step for step in scheduled.hosts}

    def launched(launch: Launch) -> Launched | HostCall:
        if launch.kernel in hosts:
            step = hosts[launch.kernel]
            return HostCall(launch.kernel, step.bytes_in, step.bytes_out, step.flops, launch.after)
        return Launched(launch.kernel, programs[launch.kernel], launch.addresses, launch.after)

    return run_launches([launched(launch) for launch in scheduled.launches.launches], machine)
