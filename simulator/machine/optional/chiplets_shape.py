"""Chiplets: parts of a machine with cores and a memory of their own, and the links between them.

Cores and channels are divided evenly among them, in order. With fewer cores than chiplets each of the first has one,
and the others are memory alone. A byte goes the way between two chiplets that has the fewest links; of several such
ways, at each chiplet on the link that is listed first. A crossbar is on each chiplet, with ports of its own; with the
simple interconnect the links between chiplets are the only ones there are. optional/chiplets/page_table.py of the
simulator maps addresses to memories.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from simulator.errors import MachineError
from simulator.machine.figure_places import PLACES
from simulator.machine.machine_record import MachineRecord
from simulator.machine.optional.shape import Links, Shape

_WIDEST = 2**40


def chiplet_of_core(machine: MachineRecord, core: int) -> int:
    """The chiplet that a core is on."""
    return core // max(1, machine.core.count // machine.chiplet.count)


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
    return farthest(machine) * machine.chiplet.link_latency_cycles


def stations(machine: MachineRecord, queue: int, channel: int, back: bool) -> list[str]:
    """The places on a byte's way from a queue to a channel, or back: from chiplet to chiplet, and through a crossbar on
    each if there are some."""
    core = queue // machine.dma.queues
    here, there = chiplet_of_core(machine, core), channel // (machine.dram.channels // machine.chiplet.count)
    crossed = route(machine, there, here) if back else route(machine, here, there)
    if machine.network.kind == "simple":
        return [f"chiplet{each}" for each in crossed]
    first = next(other for other in range(core + 1) if chiplet_of_core(machine, other) == here) * machine.dma.queues
    ends = [f"chiplet{here}.port{(queue - first) % machine.network.ports}", f"channel{channel}"]
    begin, end = ends[::-1] if back else ends
    return [begin, *(f"chiplet{each}.crossbar" for each in crossed), end]


def is_between(begin: str, end: str) -> bool:
    """True if a link between these two places is one between chiplets."""
    return all(re.fullmatch(r"chiplet\d+(\.crossbar)?", place) for place in (begin, end))


def _check(machine: MachineRecord) -> None:
    """Raises `MachineError` if a machine of several chiplets cannot be made of its figures.

    Figures that are none for any machine are refused where there is one chiplet, too.
    """
    _check_links(machine)
    if machine.chiplet.page_bytes & (machine.chiplet.page_bytes - 1):
        raise MachineError(
            f"machine {machine.name!r}: page_bytes = {machine.chiplet.page_bytes}: expected {PLACES['page_bytes'].form}"
        )
    if machine.chiplet.count == 1:
        return
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


def _check_links(machine: MachineRecord) -> None:
    """Raises for a text that names no links, between however many chiplets."""
    text = machine.chiplet.links
    for each in text.split():
        match = _LINK.fullmatch(each)
        if not match or int(match[1]) == int(match[2]):
            raise MachineError(
                f"machine {machine.name!r}: chiplet_links = {text!r:.60}: {each!r:.60} is no link; expected "
                f"{PLACES['chiplet_links'].form}"
            )


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


def _count(machine: MachineRecord) -> int:
    return machine.chiplet.count


def _bytes_per_cycle(machine: MachineRecord) -> int:
    return machine.chiplet.link_bytes_per_cycle


def _hop_cycles(machine: MachineRecord) -> int:
    return machine.chiplet.link_latency_cycles


def _most_hops(machine: MachineRecord) -> int:
    return machine.chiplet.count + 2


SHAPE = Shape(
    check=_check,
    memory_parts=_count,
    links=Links(
        stations=stations,
        is_own=is_between,
        bytes_per_cycle=_bytes_per_cycle,
        hop_cycles=_hop_cycles,
        most_hops=_most_hops,
        longest_cycles=between_cycles,
    ),
)
