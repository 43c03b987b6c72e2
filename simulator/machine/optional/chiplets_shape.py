"""Chiplets: parts of a machine with cores and a memory of their own, and the links between them.

Cores and channels are divided evenly among the chiplets, in order. With fewer cores than chiplets, the first chiplets
have one core each, and the others are memory alone. A byte takes the way with the fewest links between two chiplets; of
several such ways, at each chiplet the link that is listed first. With a crossbar, each chiplet has one, with its own
ports; with the simple interconnect, there are only the links between chiplets. The page table of
simulator/optional/chiplets maps addresses to memories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache

from simulator.errors import MachineError
from simulator.machine.figure_places import PLACES
from simulator.machine.machine_record import MachineRecord
from simulator.machine.optional.shape import Links, Shape
from simulator.machine.parts import LINKS_FORM

_WIDEST = 2**40


def chiplet_of_core(machine: MachineRecord, core: int) -> int:
    """The chiplet that a core is on."""
    return core // max(1, machine.core.count // machine.chiplet.count)


def route(machine: MachineRecord, begin: int, end: int) -> tuple[int, ...]:
    """The chiplets on a byte's way from one to another, both included."""
    return _routes(_neighbours(machine), begin)[end]


def between_cycles(machine: MachineRecord) -> int:
    """The latency of the longest way between two chiplets, there and back."""
    near = _neighbours(machine)
    links = max(len(way) - 1 for begin in range(machine.chiplet.count) for way in _routes(near, begin).values())
    return links * machine.chiplet.link_latency_cycles


def stations(machine: MachineRecord, queue: int, channel: int, back: bool) -> list[str]:
    """The places on a byte's way from a queue to a channel, or back: from chiplet to chiplet, through the crossbar of
    each chiplet if it has one."""
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
    """True if a link between these two places connects chiplets."""
    return all(re.fullmatch(r"chiplet\d+(\.crossbar)?", place) for place in (begin, end))


def _mistakes(machine: MachineRecord) -> Iterator[str]:
    """Yields the reasons why a machine with these figures of chiplets cannot be made.

    Figures that no machine could have are refused even with one chiplet.
    """
    chiplet, cores, channels = machine.chiplet, machine.core.count, machine.dram.channels
    for each in chiplet.links.split():
        match = _LINK.fullmatch(each)
        if not match or int(match[1]) == int(match[2]):
            yield f"chiplet_links = {chiplet.links!r:.60}: {each!r:.60} is no link; expected {LINKS_FORM}"
    if chiplet.page_bytes & (chiplet.page_bytes - 1):
        yield f"page_bytes = {chiplet.page_bytes}: expected {PLACES['page_bytes'].form}"
    if chiplet.count == 1:
        return
    several = f"with chiplets = {chiplet.count}"
    if machine.network.kind == "mesh":
        yield f"{several}: interconnect = 'mesh': expected 'simple' or 'crossbar', one on each chiplet"
    if channels % chiplet.count:
        yield f"{several}: dram_channels = {channels}: expected as many on each chiplet"
    if cores > chiplet.count and cores % chiplet.count:
        yield f"{several}: cores = {cores}: expected as many on each chiplet, or one on each of the first"
    if chiplet.page_bytes < (request := machine.dram.request_bytes):
        yield f"{several}: page_bytes = {chiplet.page_bytes}: expected no less than the dram_request_bytes = {request}"
    if machine.network.kind == "crossbar":
        widths = machine.network.link_bytes_per_cycle, chiplet.link_bytes_per_cycle
        if math.lcm(*widths) > _WIDEST:
            yield (
                f"{several}: interconnect_link_bytes_per_cycle = {widths[0]} and chiplet_link_bytes_per_cycle = "
                f"{widths[1]}: expected a least common multiple of at most {_WIDEST:,}, so that times stay exact"
            )
    reached = _routes(_neighbours(machine), 0)
    for number in range(chiplet.count):
        if number not in reached:
            yield f"{several}: chiplet_links = {chiplet.links!r}: no way leads from chiplet 0 to chiplet {number}"


_LINK = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")


def _neighbours(machine: MachineRecord) -> tuple[tuple[int, ...], ...]:
    """For each chiplet, the chiplets to which it has a link, in the order in which links are listed."""
    return _listed(machine.name, machine.chiplet.count, machine.chiplet.links)


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
    """The shortest way from `begin` to every chiplet that can be reached."""
    found: dict[int, tuple[int, ...]] = {begin: (begin,)}
    for at in (queue := [begin]):
        for other in near[at]:
            if other not in found:
                found[other] = (*found[at], other)
                queue.append(other)
    return found


SHAPE = Shape(
    mistakes=_mistakes,
    memory_parts=lambda machine: machine.chiplet.count,
    links=Links(
        stations=stations,
        is_own=is_between,
        bytes_per_cycle=lambda machine: machine.chiplet.link_bytes_per_cycle,
        hop_cycles=lambda machine: machine.chiplet.link_latency_cycles,
        most_hops=lambda machine: machine.chiplet.count + 2,
        longest_cycles=between_cycles,
    ),
)
