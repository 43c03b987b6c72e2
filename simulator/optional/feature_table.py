"""The table of optional hardware, a row per kind. To remove a kind, remove its row and its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from simulator.errors import NotYetSupported
from simulator.machine.machine import Machine
from simulator.machine.optional.uneven_cores.shares import SHAPE as UNEVEN_CORES
from simulator.optional.chiplets.chiplets_feature import FEATURE as CHIPLETS
from simulator.optional.common_memory.common_memory_feature import FEATURE as COMMON_MEMORY
from simulator.optional.feature import Feature, SecondMemory
from simulator.optional.zero_tiles.zero_tiles_feature import FEATURE as ZERO_TILES

FEATURES: Final[tuple[Feature, ...]] = (
    ZERO_TILES,
    COMMON_MEMORY,
    Feature(name="uneven cores", shape=UNEVEN_CORES),
    CHIPLETS,
)
"""In the order in which their hooks are called for a launch: first the feature that skips instructions."""

FeatureArguments = Mapping[str, Sequence[Any]]
"""The arguments of a simulation beside its launches, by `Feature.keyword`."""


def check_asked(asked: FeatureArguments, machine: Machine, launches: int) -> None:
    """Raises if no feature has an argument of this name, or the machine cannot do what the argument asks."""
    for keyword, values in asked.items():
        if values and all(each.keyword != keyword for each in FEATURES):
            raise NotYetSupported(f"the argument {keyword}= of simulate", f"machine {machine.name!r}")
    for each in FEATURES:
        each.check(asked.get(each.keyword, ()), machine, launches)


def second_memory(machine: Machine) -> SecondMemory:
    """The second memory of a machine; a memory of 0 bytes per cycle if it has none."""
    for each in FEATURES:
        if each.second_memory is not None:
            return each.second_memory(machine)
    return SecondMemory("second memory", Fraction(0), 0)
