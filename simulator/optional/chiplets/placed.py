"""The plan of the chiplets on which tensors lie, for a machine of several chiplets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.did_you_mean import did_you_mean
from simulator.errors import NoSuchPlace
from simulator.machine.machine_record import MachineRecord
from simulator.machine.parts import POLICIES


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor in DRAM from launch `first` to launch `last`, both included, and the chiplet for its pages."""

    name: str
    address: int
    """The first address of its storage."""
    bytes: int
    first: int
    last: int
    where: int | str | None = None
    """A chiplet, or one of `POLICIES`; None is the machine's `dram_placement`."""


def check_placed(placed: Sequence[Placed], machine: MachineRecord, launches: int = 0) -> None:
    """Raises `NoSuchPlace` for a chiplet that the machine lacks or an unknown policy."""
    for each in placed:
        if isinstance(each.where, int) and not 0 <= each.where < machine.chiplet.count:
            have = "one chiplet, 0" if machine.chiplet.count == 1 else f"chiplets 0 to {machine.chiplet.count - 1}"
            raise NoSuchPlace(f"{each.name!r} is to be on chiplet {each.where}: machine {machine.name!r} has {have}")
        if isinstance(each.where, str) and each.where not in POLICIES:
            raise NoSuchPlace(
                f"{each.name!r} is to be placed {each.where!r}{did_you_mean(each.where, POLICIES)}; expected the "
                f"number of a chiplet or one of {', '.join(POLICIES)}"
            )
