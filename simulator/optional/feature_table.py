"""The kinds of optional hardware that there are: a row each. Without its row and its folder one is gone."""

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
"""In the order in which they are told of a launch: what is left out is asked of nobody."""

FeatureArguments = Mapping[str, Sequence[Any]]
"""The arguments of a simulation beside its launches, by `Feature.keyword`."""


def check_asked(asked: FeatureArguments, machine: Machine, launches: int) -> None:
    """Raises for what cannot be asked of a machine, or of no hardware that there is."""
    for keyword, values in asked.items():
        if values and all(each.keyword != keyword for each in FEATURES):
            raise NotYetSupported(f"the argument {keyword}= of simulate", f"machine {machine.name!r}")
    for each in FEATURES:
        each.check(asked.get(each.keyword, ()), machine, launches)


def second_memory(machine: Machine) -> SecondMemory:
    """The second memory of a machine; one that moves nothing where there is none."""
    for each in FEATURES:
        if each.second_memory is not None:
            return each.second_memory(machine)
    return SecondMemory("second memory", Fraction(0), 0)
