"""Machines side by side, and their differences."""

from __future__ import annotations

from collections.abc import Sequence

from simulator import Machine
from simulator.did_you_mean import labelled
from workbench.ground.basics.table import Table

_PLAINEST = {"cores": 1, "chiplets": 1, "common_mib": 0, "memory": "simple", "fitted": 0}


def machines_table(machines: Sequence[Machine]) -> Table:
    """One row a machine with its main figures; `assumed` counts the figures that nobody published, `fitted` those that
    were chosen to meet a measurement.

    Cores, chiplets, common memory, kind of memory and `fitted` have a column only if a machine differs from the
    plainest.
    """
    rows = [
        {
            "machine": machine.name,
            "clock_mhz": float(machine.clock_mhz),
            "systolic": f"{machine.array.count} of {machine.array.rows}x{machine.array.columns}",
            "lanes": f"{machine.vector.lanes} x {machine.vector.bits_per_lane} bit",
            "scratchpad_kib": machine.scratchpad_bytes // 1024,
            "cores": machine.core.count,
            "chiplets": machine.chiplet.count,
            "common_mib": machine.common_memory.bytes // 2**20,
            "memory": machine.dram.kind,
            "dram": machine.dram.standard,
            "dram_gb_per_s": round(machine.dram.bytes_per_second / 1e9, 1),
            "assumed": len(machine.assumed),
            "fitted": len(machine.fitted),
        }
        for machine in machines
    ]
    columns = tuple(
        name for name in rows[0] if name not in _PLAINEST or any(row[name] != _PLAINEST[name] for row in rows)
    )
    return Table(columns, tuple(tuple(row[name] for name in columns) for row in rows))


def figures_table(machine: Machine) -> Table:
    """One row a figure of a machine: its value and its source, which is `assumed` if nobody published the figure, and
    `fitted: ` with the measurement if the figure was chosen to meet it."""
    figures = ((name, value) for name, value in machine.figures().items() if name != "name")
    return Table(
        ("figure", "value", "source"), tuple((name, value, machine.provenance.told(name)) for name, value in figures)
    )


def told_apart(machines: Sequence[Machine]) -> list[str]:
    """A label for each machine; the labels of different machines with the same label have the figures that differ."""
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
