"""The simulator: runs tile programs on a machine, cycle by cycle. It knows neither PyTorch nor MLIR.

Importing it loads only the errors; every other name loads its module on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from simulator.errors import (
    CommonMemoryFull,
    Deadlock,
    DoesNotFit,
    FileFormatError,
    InvariantViolation,
    LaunchError,
    MachineError,
    NoSuchPlace,
    NotYetSupported,
    ProgramError,
    SimulationStopped,
    SimulatorError,
)

if TYPE_CHECKING:
    from simulator.engine.engine import simulate
    from simulator.machine.machine import Machine
    from simulator.machine.machine_file import load_machine, machine_names
    from simulator.optional.chiplets.placed import Placed
    from simulator.optional.common_memory.residents import Resident
    from simulator.records.spans import Cause, HostCall, Launched
    from simulator.tileprogram.hazards import DependenceTracker
    from simulator.tileprogram.program import TileProgram
    from simulator.tileprogram.verifier import verify
    from simulator.trace.trace import Trace

__all__ = [
    "Cause",
    "CommonMemoryFull",
    "Deadlock",
    "DependenceTracker",
    "DoesNotFit",
    "FileFormatError",
    "HostCall",
    "InvariantViolation",
    "LaunchError",
    "Launched",
    "Machine",
    "MachineError",
    "NoSuchPlace",
    "NotYetSupported",
    "Placed",
    "ProgramError",
    "Resident",
    "SimulationStopped",
    "SimulatorError",
    "TileProgram",
    "Trace",
    "load_machine",
    "machine_names",
    "simulate",
    "verify",
]

_HOME = {
    "Placed": "optional.chiplets.placed",
    "Resident": "optional.common_memory.residents",
    "simulate": "engine.engine",
    "DependenceTracker": "tileprogram.hazards",
    "Machine": "machine.machine",
    "load_machine": "machine.machine_file",
    "machine_names": "machine.machine_file",
    "TileProgram": "tileprogram.program",
    "Cause": "records.spans",
    "HostCall": "records.spans",
    "Launched": "records.spans",
    "Trace": "trace.trace",
    "verify": "tileprogram.verifier",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
