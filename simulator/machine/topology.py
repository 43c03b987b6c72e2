"""The links of an interconnect, and the way of each byte over these links.

A written byte goes from a DMA queue to a channel of the memory, a read byte goes back; each link carries bytes in one
direction. A core's scalar unit uses the ways of the core's first queue.

    crossbar    queues are attached to `interconnect_ports` ports in turn; a port and a channel have a link to the
                crossbar and one from it
    mesh        routers in columns and rows, each with links to its neighbours. Queues and channels are attached to the
                routers of `mesh_queues` and `mesh_channels` in turn, each with links of its own. A byte goes along the
                row of the router where it enters, then along the column (XY routing)

If the memory is divided into parts, ways lead over the links between the parts instead: optional/shape.py, `Links`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.machine.machine_record import MachineRecord
from simulator.machine.mesh_places import Place, places
from simulator.machine.optional import shape_table as optional

READ, WRITE = 0, 1


@dataclass(slots=True)
class Topology:
    """The links of a machine's interconnect, and the ways over them."""

    links: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """(from, to) -> the link's number."""
    ways: list[list[list[tuple[int, ...]]]] = field(default_factory=list[list[list[tuple[int, ...]]]])
    """The links of each way, by direction, source (a core's queues, then its scalar unit) and channel."""
    hops: list[list[int]] = field(default_factory=list[list[int]])
    """The hops of each way, by source and channel: its links between routers, or between parts of the memory."""

    def link(self, begin: str, end: str) -> int:
        return self.links.setdefault((begin, end), len(self.links))

    def widths(self, machine: MachineRecord) -> list[int]:
        """For each link, the bytes that it carries in a cycle."""
        own, between = machine.network.link_bytes_per_cycle, optional.links(machine)
        if between is None:
            return [own] * len(self.links)
        wide = between.bytes_per_cycle(machine)
        return [wide if between.is_own(*ends) else own for ends in self.links]


def hop_cycles(machine: MachineRecord) -> int:
    """The latency that one of `Topology.hops` adds, there and back together."""
    between = optional.links(machine)
    return machine.network.mesh_hop_cycles if between is None else between.hop_cycles(machine)


def topology(machine: MachineRecord, asking: int) -> Topology:
    """The links and ways of a machine whose interconnect has links.

    `asking` units of each core access the memory: its DMA queues, and others that share the queues' places in turn.
    """
    found, between = Topology(ways=[[], []]), optional.links(machine)
    stations = _stations if between is None else between.stations
    for core in range(machine.core.count):
        for own in range(asking):
            queue = core * machine.dma.queues + own % machine.dma.queues
            there = [stations(machine, queue, channel, False) for channel in range(machine.dram.channels)]
            back = [stations(machine, queue, channel, True) for channel in range(machine.dram.channels)]
            for way, over in ((WRITE, there), (READ, back)):
                found.ways[way].append([tuple(map(found.link, each, each[1:])) for each in over])
            found.hops.append([len(each) - 3 if machine.network.kind == "mesh" else 0 for each in there])
            if between is not None:
                found.hops[-1] = [sum(map(between.is_own, each, each[1:])) for each in there]
    return found


def _stations(machine: MachineRecord, queue: int, channel: int, back: bool) -> list[str]:
    """The places on a byte's way from a queue to a channel, or back."""
    end = f"channel{channel}"
    if machine.network.kind == "crossbar":
        stations = [f"port{queue % machine.network.ports}", "crossbar", end]
        return stations[::-1] if back else stations
    core, own = divmod(queue, machine.dma.queues)
    begin = f"dma{own}" if machine.core.count == 1 else f"core{core}.dma{own}"
    queues, channels = places(machine, "mesh_queues"), places(machine, "mesh_channels")
    here, there = queues[queue % len(queues)], channels[channel % len(channels)]
    if back:
        begin, end, here, there = end, begin, there, here
    return [begin, *(f"router{x},{y}" for x, y in _along_x_then_y(here, there)), end]


def _along_x_then_y(here: Place, there: Place) -> list[Place]:
    (x, y), (to_x, to_y) = here, there
    across = [(at, y) for at in range(x, to_x, 1 if to_x > x else -1)]
    return [*across, *((to_x, at) for at in range(y, to_y, 1 if to_y > y else -1)), there]
