"""The simulator: what a tile program costs on a machine, cycle by cycle. It knows neither PyTorch nor MLIR.

Nothing heavy is imported here; names load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.chiplets import Placed
    from simulator.common_memory import Resident
    from simulator.engine import simulate
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
    from simulator.hazards import DependenceTracker
    from simulator.machine import Machine
    from simulator.machine_file import load_machine, machine_names
    from simulator.program import TileProgram
    from simulator.spans import Cause, HostCall, Launched
    from simulator.trace import Trace
    from simulator.verifier import verify

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
    "Placed": "chiplets",
    "Resident": "common_memory",
    "simulate": "engine",
    "CommonMemoryFull": "errors",
    "Deadlock": "errors",
    "DoesNotFit": "errors",
    "FileFormatError": "errors",
    "InvariantViolation": "errors",
    "LaunchError": "errors",
    "MachineError": "errors",
    "NoSuchPlace": "errors",
    "NotYetSupported": "errors",
    "ProgramError": "errors",
    "SimulationStopped": "errors",
    "SimulatorError": "errors",
    "DependenceTracker": "hazards",
    "Machine": "machine",
    "load_machine": "machine_file",
    "machine_names": "machine_file",
    "TileProgram": "program",
    "Cause": "spans",
    "HostCall": "spans",
    "Launched": "spans",
    "Trace": "trace",
    "verify": "verifier",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
