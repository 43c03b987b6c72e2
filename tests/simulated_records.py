"""The timeline of records, for tests of what is below the journey."""

from __future__ import annotations

from simulator import Machine, Trace
from simulator.engine import engine
from workbench.ir import KernelGraph, ScheduledProgram
from workbench.simulating.launched_programs import launched, lying


def simulate(lowered: KernelGraph, scheduled: ScheduledProgram, machine: Machine) -> Trace:
    """The timeline of a scheduled program whose tensors are not known."""
    return engine.simulate(launched(lowered, scheduled), machine, **lying(scheduled))
