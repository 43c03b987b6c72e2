"""The table of all kinds of units, a row per kind."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import numpy as np

from simulator.errors import SimulatorError
from simulator.machine.machine import Machine
from simulator.tileprogram.program import I64, Opcode
from simulator.units import dma, host, scalar, systolic, vector
from simulator.units.unit import Does, Unit

OF_A_CORE: Final[tuple[Unit, ...]] = (dma.UNIT, systolic.UNIT, vector.UNIT, scalar.UNIT)
"""The kinds of a core's units, in the order in which these are numbered."""

UNITS: Final[tuple[Unit, ...]] = (*OF_A_CORE, host.UNIT)

UNIT_OF: Final[dict[Opcode, Unit]] = {opcode: unit for unit in UNITS for opcode in unit.does}

KIND_OF: Final[I64] = np.array([UNITS.index(UNIT_OF[opcode]) for opcode in Opcode], np.int64)
"""Opcode -> the place of its unit in `UNITS`."""

DOES: Final[tuple[Does, ...]] = tuple(UNIT_OF[opcode].does[opcode] for opcode in Opcode)
"""Opcode -> the names of its instructions and of their parts."""

STALLS: Final[tuple[str, ...]] = tuple(dict.fromkeys(each.stall for each in DOES if each.stall))
"""The names of all stalls of units within a span: see `Does.stall`."""

STALL_OF: Final[I64] = np.array([(*STALLS, "").index(each.stall) for each in DOES], np.int64)
"""Opcode -> the place of its stall in `STALLS`; `len(STALLS)` for no stall."""


def counts(machine: Machine) -> tuple[int, ...]:
    """For each kind in `OF_A_CORE`, the number of units in a core."""
    return tuple(unit.how_many(machine) for unit in OF_A_CORE)


def asking(machine: Machine) -> int:
    """Number of a core's units that may access the memory. Each is a source of requests in banked memory and
    networks."""
    return sum(unit.how_many(machine) for unit in OF_A_CORE if unit.asks_memory)


def unit_names(machine: Machine) -> tuple[str, ...]:
    """Names of the machine's units, in the order in which spans number them; in a trace with host calls, the host
    follows."""
    own = tuple(
        f"{unit.lane}{index}" if unit.numbered else unit.lane
        for unit, count in zip(OF_A_CORE, counts(machine), strict=True)
        for index in range(count)
    )
    if machine.core.count == 1:
        return own
    return tuple(f"core{core}.{name}" for core in range(machine.core.count) for name in own)


@cache
def unit_named(name: str) -> Unit:
    """The kind of a unit by its name on the timeline: `dma0`, or `core1.dma0` with several cores."""
    own = name.rpartition(".")[2]
    for unit in UNITS:
        if re.fullmatch(rf"{unit.lane}\d+" if unit.numbered else unit.lane, own):
            return unit
    raise SimulatorError(f"there is no unit {name!r}; units are called {', '.join(unit.lane for unit in UNITS)}")
