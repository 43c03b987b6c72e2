"""The shapes of optional hardware: a row each, the same as in simulator/optional/feature_table.py and in its order."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from simulator.machine.machine_record import MachineRecord
from simulator.machine.optional.chiplets_shape import SHAPE as CHIPLETS
from simulator.machine.optional.common_memory_shape import SHAPE as COMMON_MEMORY
from simulator.machine.optional.shape import Cores, Links, Listed, M, Shape, alike
from simulator.machine.optional.uneven_cores.shares import SHAPE as UNEVEN_CORES

SHAPES: Final[tuple[Shape, ...]] = (
    COMMON_MEMORY,
    UNEVEN_CORES,
    CHIPLETS,
)

LISTED: Final[tuple[Listed, ...]] = tuple(shape.listed for shape in SHAPES if shape.listed is not None)


def mistakes(machine: MachineRecord) -> Iterator[str]:
    """Yields a message for figures of optional hardware that do not fit together."""
    for shape in SHAPES:
        yield from shape.mistakes(machine)


_ALIKE = Cores(
    kinds=alike,
    macs_per_cycle=lambda machine: [Fraction(machine.macs_per_cycle)] * machine.core.count,
    fewest_lanes=lambda machine: machine.vector.lanes,
    shares=lambda machine: tuple(range(machine.core.count)),
)

CORES: Final = next((shape.cores for shape in SHAPES if shape.cores is not None), _ALIKE)


def of_core(machine: M, core: int) -> tuple[M, Fraction]:
    """A machine all of whose cores are like `core`, and its clock as a part of `machine`'s clock."""
    return next((alike, ratio) for alike, ratio, cores in CORES.kinds(machine) if core in cores)


def memory_parts(machine: MachineRecord) -> int:
    """Number of parts of the memory."""
    return max((shape.memory_parts(machine) for shape in SHAPES), default=1)


def links(machine: MachineRecord) -> Links | None:
    """The hooks for links between the parts of the memory; None if it has one part."""
    return next((shape.links for shape in SHAPES if shape.memory_parts(machine) > 1), None)
