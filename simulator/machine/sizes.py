"""The size of a machine as a whole: how many units it may have, and how many ways between them and the memory."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.machine.machine_record import MachineRecord
from simulator.machine.optional import shape_table as optional

_MOST_UNITS, _MOST_HOPS = 2**14, 2**20


def too_large(machine: MachineRecord) -> Iterator[str]:
    """Says where a machine has more units, or more ways between them, than can be listed."""
    each = machine.dma.queues + machine.array.count + 2
    if machine.core.count * each > _MOST_UNITS:
        units = f"{each} units each (dma_queues, systolic_arrays, vector and scalar unit)"
        yield f"cores = {machine.core.count} with {units}: expected at most {_MOST_UNITS:,} units together"
    ways = machine.core.count * (machine.dma.queues + 1) * machine.dram.channels
    network, links = machine.network, optional.links(machine)
    hops = network.mesh_columns + network.mesh_rows if network.kind == "mesh" else 3
    if network.kind != "mesh" and links is not None:
        hops = links.most_hops(machine)
    if (network.kind != "simple" or links is not None) and ways * hops > _MOST_HOPS:
        on_all = f"{ways:,} ways from dma_queues of all cores to dram_channels, of up to {hops} links each"
        yield f"{on_all}: expected at most {_MOST_HOPS:,} links on all ways together"
