"""Machines side by side, and what tells them apart."""

from __future__ import annotations

from collections.abc import Sequence

from simulator import Machine
from simulator.did_you_mean import labelled
from workbench.views.basics.table import Table

_PLAINEST = {"cores": 1, "chiplets": 1, "common_mib": 0, "memory": "simple"}


def machines_table(machines: Sequence[Machine]) -> Table:
    """One row a machine with the figures that a first look wants; `assumed` counts those nobody published.

    Cores, chiplets, common memory and kind of memory are told where a machine is not like the plainest.
    """
    rows = [
        {
            "machine": machine.name,
            "clock_mhz": float(machine.clock_mhz),
            "systolic": f"{machine.systolic_arrays} of {machine.systolic_rows}x{machine.systolic_columns}",
            "lanes": f"{machine.vector_lanes} x {machine.vector_bits_per_lane} bit",
            "scratchpad_kib": machine.scratchpad_bytes // 1024,
            "cores": machine.cores,
            "chiplets": machine.chiplets,
            "common_mib": machine.common_memory_bytes // 2**20,
            "memory": machine.memory,
            "dram": machine.dram_standard,
            "dram_gb_per_s": round(machine.dram_bytes_per_second / 1e9, 1),
            "assumed": len(machine.assumed),
        }
        for machine in machines
    ]
    columns = tuple(
        name for name in rows[0] if name not in _PLAINEST or any(row[name] != _PLAINEST[name] for row in rows)
    )
    return Table(columns, tuple(tuple(row[name] for name in columns) for row in rows))


def figures_table(machine: Machine) -> Table:
    """One row a figure of a machine: what it is, and where that comes from; `assumed` if nobody published it."""
    sources = dict(machine.sources)
    told = ((name, value) for name, value in machine.figures().items() if name != "name")
    return Table(
        ("figure", "value", "source"), tuple((name, value, sources.get(name, "assumed")) for name, value in told)
    )


def told_apart(machines: Sequence[Machine]) -> list[str]:
    """A label for each machine; where machines that differ would get the same one, by the figures that differ."""
    labels = [machine.label for machine in machines]
    for label in set(labels):
        same = [place for place, each in enumerate(labels) if each == label]
        each = [machines[place].figures() for place in same]
        differ = [figure for figure in each[0] if any(other[figure] != each[0][figure] for other in each)]
        for place, figures in zip(same, each, strict=True):
            labels[place] = (
                labelled(machines[place].name, {figure: figures[figure] for figure in differ}) if differ else label
            )
    return labels
