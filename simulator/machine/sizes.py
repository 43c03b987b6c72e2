"""The size of a machine as a whole: how many units it may have, and how many ways between them and the memory."""

from __future__ import annotations

from simulator.errors import MachineError
from simulator.machine.machine_record import MachineRecord
from simulator.machine.optional import shape_table as optional

_MOST_UNITS, _MOST_HOPS = 2**14, 2**20


def check_units(machine: MachineRecord) -> None:
    """Raises for a machine of more units, or of more ways between them, than can be listed."""
    each = machine.dma.queues + machine.array.count + 2
    if machine.core.count * each > _MOST_UNITS:
        raise MachineError(
            f"machine {machine.name!r}: cores = {machine.core.count} with {each} units each (dma_queues, "
            f"systolic_arrays, vector and scalar unit): expected at most {_MOST_UNITS:,} units together"
        )
    ways = machine.core.count * (machine.dma.queues + 1) * machine.dram.channels
    network, between = machine.network, optional.links(machine)
    hops = network.mesh_columns + network.mesh_rows if network.kind == "mesh" else 3
    if network.kind != "mesh" and between is not None:
        hops = between.most_hops(machine)
    if (network.kind != "simple" or between is not None) and ways * hops > _MOST_HOPS:
        raise MachineError(
            f"machine {machine.name!r}: {ways:,} ways from dma_queues of all cores to dram_channels, of up to {hops} "
            f"links each: expected at most {_MOST_HOPS:,} links on all ways together"
        )
