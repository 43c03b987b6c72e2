"""The kinds of optional hardware that there are: a row each. Without its row and its folder one is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from simulator.machine.machine import Machine
from simulator.optional.chiplets import feature as chiplets
from simulator.optional.common_memory import feature as common_memory
from simulator.optional.feature import Feature, SecondMemory
from simulator.optional.uneven_cores import feature as uneven_cores
from simulator.optional.zero_tiles import feature as zero_tiles

FEATURES: Final[tuple[Feature, ...]] = (
    zero_tiles.FEATURE,
    common_memory.FEATURE,
    uneven_cores.FEATURE,
    chiplets.FEATURE,
)
"""In the order in which they are told of a launch: what is left out is asked of nobody."""

Asked = Mapping[str, Sequence[Any]]
"""What a simulation is asked beside its launches, by `Feature.keyword`."""


def check_asked(asked: Asked, machine: Machine, launches: int) -> None:
    """Raises for what cannot be asked of a machine."""
    for each in FEATURES:
        if each.check is not None:
            each.check(asked.get(each.keyword, ()), machine, launches)


def second_memory(machine: Machine) -> SecondMemory:
    """The second memory of a machine; one that moves nothing where there is none."""
    for each in FEATURES:
        if each.second_memory is not None:
            return each.second_memory(machine)
    return SecondMemory("second memory", Fraction(0), 0)
