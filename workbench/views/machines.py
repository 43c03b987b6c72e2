"""Machines side by side, and what tells them apart."""

from __future__ import annotations

from collections.abc import Sequence

from simulator import Machine
from simulator.names import labelled
from workbench.views.table import Table


def machines_table(machines: Sequence[Machine]) -> Table:
    """One row a machine with the figures that a first look wants; `assumed` counts those nobody published."""
    rows = tuple(
        (
            machine.name,
            float(machine.clock_mhz),
            f"{machine.systolic_arrays} of {machine.systolic_rows}x{machine.systolic_columns}",
            f"{machine.vector_lanes} x {machine.vector_bits_per_lane} bit",
            machine.scratchpad_bytes // 1024,
            machine.dram_standard,
            round(machine.dram_bytes_per_second / 1e9, 1),
            len(machine.assumed),
        )
        for machine in machines
    )
    columns = ("machine", "clock_mhz", "systolic", "lanes", "scratchpad_kib", "dram", "dram_gb_per_s", "assumed")
    return Table(columns, rows)


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
