"""The links of an interconnect, and the way of each byte over them.

A way leads from a DMA queue to a channel of the memory when it is written, and back when it is read; each link carries
bytes in one direction. A core's scalar unit goes the ways of its first queue.

    crossbar    queues are attached to `interconnect_ports` ports in turn; a port and a channel have a link to the
                crossbar and one from it
    mesh        routers in columns and rows, each with links to its neighbours. Queues and channels are attached to the
                routers of `mesh_queues` and `mesh_channels` in turn, each with links of its own. A byte goes along the
                row of the router where it enters, then along the column (XY routing)
    chiplets    between two of them a byte takes the links of `chiplets.route`; a crossbar is on each, with ports of its
                own, and with the simple interconnect these are the only links there are
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from simulator.errors import MachineError
from simulator.machine.chiplets import channels_of_each, chiplet_of_core, route
from simulator.machine.figure_places import figure
from simulator.machine.machine_record import MachineRecord

Place = tuple[int, int]
READ, WRITE = 0, 1


@dataclass(slots=True)
class Topology:
    """The links of a machine's interconnect, and the ways over them."""

    links: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """(from, to) -> number."""
    ways: list[list[list[tuple[int, ...]]]] = field(default_factory=list[list[list[tuple[int, ...]]]])
    """The links of each way, by direction, source (the queues of a core, then its scalar unit) and channel."""
    hops: list[list[int]] = field(default_factory=list[list[int]])
    """Between routers or chiplets, by source and channel."""

    def link(self, begin: str, end: str) -> int:
        return self.links.setdefault((begin, end), len(self.links))

    def widths(self, machine: MachineRecord) -> list[int]:
        """Bytes a cycle of each link."""
        own, between = machine.network.link_bytes_per_cycle, machine.chiplet.link_bytes_per_cycle
        return [between if is_between(*ends) else own for ends in self.links]


def is_between(begin: str, end: str) -> bool:
    """Whether a link between these two places is one between chiplets."""
    return all(re.fullmatch(r"chiplet\d+(\.crossbar)?", place) for place in (begin, end))


def topology(machine: MachineRecord, asking: int) -> Topology:
    """The links and ways of a machine whose interconnect has some, where so many units of each core ask the memory: its
    DMA queues, and others that share the queues' places in turn."""
    found = Topology(ways=[[], []])
    for core in range(machine.core.count):
        for own in range(asking):
            queue = core * machine.dma.queues + own % machine.dma.queues
            there = [_stations(machine, queue, channel, WRITE) for channel in range(machine.dram.channels)]
            back = [_stations(machine, queue, channel, READ) for channel in range(machine.dram.channels)]
            for way, stations in ((WRITE, there), (READ, back)):
                found.ways[way].append([tuple(map(found.link, each, each[1:])) for each in stations])
            found.hops.append([len(each) - 3 if machine.network.kind == "mesh" else 0 for each in there])
            if machine.chiplet.count > 1:
                found.hops[-1] = [sum(map(is_between, each, each[1:])) for each in there]
    return found


def _stations(machine: MachineRecord, queue: int, channel: int, way: int) -> list[str]:
    """The places on a byte's way, from begin to end."""
    end = f"channel{channel}"
    if machine.chiplet.count > 1:
        return _over_chiplets(machine, queue, channel, way)
    if machine.network.kind == "crossbar":
        stations = [f"port{queue % machine.network.ports}", "crossbar", end]
        return stations if way == WRITE else stations[::-1]
    core, own = divmod(queue, machine.dma.queues)
    begin = f"dma{own}" if machine.core.count == 1 else f"core{core}.dma{own}"
    queues, channels = places(machine, "mesh_queues"), places(machine, "mesh_channels")
    here, there = queues[queue % len(queues)], channels[channel % len(channels)]
    if way == READ:
        begin, end, here, there = end, begin, there, here
    return [begin, *(f"router{x},{y}" for x, y in _along_x_then_y(here, there)), end]


def _over_chiplets(machine: MachineRecord, queue: int, channel: int, way: int) -> list[str]:
    """The same from chiplet to chiplet, and through a crossbar on each if there are some."""
    core = queue // machine.dma.queues
    here, there = chiplet_of_core(machine, core), channel // channels_of_each(machine)
    crossed = route(machine, here, there) if way == WRITE else route(machine, there, here)
    if machine.network.kind == "simple":
        return [f"chiplet{each}" for each in crossed]
    first = next(other for other in range(core + 1) if chiplet_of_core(machine, other) == here) * machine.dma.queues
    ends = [f"chiplet{here}.port{(queue - first) % machine.network.ports}", f"channel{channel}"]
    begin, end = ends if way == WRITE else ends[::-1]
    return [begin, *(f"chiplet{each}.crossbar" for each in crossed), end]


def _along_x_then_y(here: Place, there: Place) -> list[Place]:
    (x, y), (to_x, to_y) = here, there
    across = [(at, y) for at in range(x, to_x, 1 if to_x > x else -1)]
    return [*across, *((to_x, at) for at in range(y, to_y, 1 if to_y > y else -1)), there]


_PLACE = re.compile(r"[0-9]{1,6},[0-9]{1,6}")
PLACES_FORM = "routers as 'column,row', with spaces between them"
"""The form of a figure that names routers."""


def check_places(where: str, text: str) -> None:
    """Raises for a text that names no routers, of whatever mesh."""
    if not text.split():
        raise MachineError(f"{where}: it names no router; expected {PLACES_FORM}")
    for each in text.split():
        if not _PLACE.fullmatch(each):
            raise MachineError(f"{where}: {each!r:.60} is no place; expected {PLACES_FORM}")


def places(machine: MachineRecord, name: str) -> list[Place]:
    """The routers that a figure such as "0,0 0,1" names: column, then row."""
    text = str(figure(machine, name))
    found = list[Place]()
    for each in text.split():
        column, row = map(int, each.split(","))
        if column >= machine.network.mesh_columns or row >= machine.network.mesh_rows:
            raise MachineError(
                f"machine {machine.name!r}: {name} = {text!r}: there is no router {each} in a mesh of "
                f"mesh_columns = {machine.network.mesh_columns} and mesh_rows = {machine.network.mesh_rows}; they are "
                "counted from 0"
            )
        found.append((column, row))
    return found
