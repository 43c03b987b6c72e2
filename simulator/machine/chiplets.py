"""Chiplets: parts of a machine with cores and a memory of their own, and the links between them.

Cores and channels are divided evenly among them, in order. With fewer cores than chiplets each of the first has one,
and the others are memory alone. A byte goes the way between two chiplets that has the fewest links; of several such
ways, at each chiplet on the link that is listed first. memory/chiplet_pages.py maps addresses to memories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from simulator.did_you_mean import did_you_mean
from simulator.errors import MachineError, NoSuchPlace
from simulator.machine.machine_record import MachineRecord

_WIDEST = 2**40

POLICIES = ("interleaved", "local")
"""The values of `Machine.dram_placement`: see memory/chiplet_pages.py."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor in DRAM from launch `first` to launch `last`, both included, and where its pages go."""

    name: str
    address: int
    """Where its storage begins."""
    bytes: int
    first: int
    last: int
    where: int | str | None = None
    """A chiplet, or one of `POLICIES`; None is the machine's `dram_placement`."""


def chiplet_of_core(machine: MachineRecord, core: int) -> int:
    """The chiplet that a core is on."""
    return core // max(1, machine.core.count // machine.chiplet.count)


def channels_of_each(machine: MachineRecord) -> int:
    """How many channels of the memory each chiplet has."""
    return machine.dram.channels // machine.chiplet.count


def route(machine: MachineRecord, begin: int, end: int) -> tuple[int, ...]:
    """The chiplets on a byte's way from one to another, both included."""
    found = _routes(_neighbours(machine), begin)
    return found[end]


def farthest(machine: MachineRecord) -> int:
    """Links on the longest way between two chiplets."""
    near = _neighbours(machine)
    return max(len(way) - 1 for begin in range(machine.chiplet.count) for way in _routes(near, begin).values())


def between_cycles(machine: MachineRecord) -> int:
    """The latency of the longest way between two chiplets, there and back."""
    return farthest(machine) * machine.chiplet.link_latency_cycles if machine.chiplet.count > 1 else 0


def check_placed(placed: Sequence[Placed], machine: MachineRecord) -> None:
    """Raises `NoSuchPlace` for a tensor to be placed where no memory is."""
    for each in placed:
        if isinstance(each.where, int) and not 0 <= each.where < machine.chiplet.count:
            have = "one chiplet, 0" if machine.chiplet.count == 1 else f"chiplets 0 to {machine.chiplet.count - 1}"
            raise NoSuchPlace(f"{each.name!r} is to be on chiplet {each.where}: machine {machine.name!r} has {have}")
        if isinstance(each.where, str) and each.where not in POLICIES:
            raise NoSuchPlace(
                f"{each.name!r} is to be placed {each.where!r}{did_you_mean(each.where, POLICIES)}; expected the "
                f"number of a chiplet or one of {', '.join(POLICIES)}"
            )


def check_chiplets(machine: MachineRecord) -> None:
    """Raises `MachineError` if a machine of several chiplets cannot be made of its figures."""
    count, where = machine.chiplet.count, f"machine {machine.name!r} with chiplets = {machine.chiplet.count}"
    if machine.network.kind == "mesh":
        raise MachineError(f"{where}: interconnect = 'mesh': expected 'simple' or 'crossbar', one on each chiplet")
    if machine.dram.channels % count:
        raise MachineError(f"{where}: dram_channels = {machine.dram.channels}: expected as many on each chiplet")
    if machine.core.count > count and machine.core.count % count:
        raise MachineError(
            f"{where}: cores = {machine.core.count}: expected as many on each chiplet, or one on each of the first"
        )
    if machine.chiplet.page_bytes < machine.dram.request_bytes:
        raise MachineError(
            f"{where}: page_bytes = {machine.chiplet.page_bytes}: expected no less than the "
            f"dram_request_bytes = {machine.dram.request_bytes}"
        )
    if machine.network.kind == "crossbar":
        widths = machine.network.link_bytes_per_cycle, machine.chiplet.link_bytes_per_cycle
        if math.lcm(*widths) > _WIDEST:
            raise MachineError(
                f"{where}: interconnect_link_bytes_per_cycle = {widths[0]} and chiplet_link_bytes_per_cycle = "
                f"{widths[1]}: expected a least common multiple of at most {_WIDEST:,}, so that times stay exact"
            )
    near = _neighbours(machine)
    reached = _routes(near, 0)
    for chiplet in range(count):
        if chiplet not in reached:
            raise MachineError(
                f"{where}: chiplet_links = {machine.chiplet.links!r}: no way leads from chiplet 0 to chiplet {chiplet}"
            )


def _neighbours(machine: MachineRecord) -> tuple[tuple[int, ...], ...]:
    """For each chiplet, those it has a link to, in the order in which links are listed."""
    return _listed(machine.name, machine.chiplet.count, machine.chiplet.links)


_LINK = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")
LINKS_FORM = "two chiplets as '0-1', with spaces between links"
"""The form of a figure that names links between chiplets."""


def check_links(where: str, text: str) -> None:
    """Raises for a text that names no links, between however many chiplets."""
    for each in text.split():
        match = _LINK.fullmatch(each)
        if not match or int(match[1]) == int(match[2]):
            raise MachineError(f"{where}: {each!r:.60} is no link; expected {LINKS_FORM}")


@lru_cache(maxsize=64)
def _listed(name: str, count: int, text: str) -> tuple[tuple[int, ...], ...]:
    near = [list[int]() for _ in range(count)]
    if not text.strip():
        return tuple(tuple(other for other in range(count) if other != one) for one in range(count))
    for each in text.split():
        one, other = map(int, each.split("-"))
        if max(one, other) >= count:
            raise MachineError(
                f"machine {name!r}: chiplet_links = {text!r}: {each!r}: there is no chiplet {max(one, other)} of "
                f"chiplets = {count}, counted from 0"
            )
        near[one].append(other)
        near[other].append(one)
    return tuple(map(tuple, near))


@lru_cache(maxsize=64)
def _routes(near: tuple[tuple[int, ...], ...], begin: int) -> dict[int, tuple[int, ...]]:
    """The shortest way to every chiplet that can be reached."""
    found: dict[int, tuple[int, ...]] = {begin: (begin,)}
    for at in (queue := [begin]):
        for other in near[at]:
            if other not in found:
                found[other] = (*found[at], other)
                queue.append(other)
    return found
