"""The shipped machines side by side."""

from __future__ import annotations

from collections.abc import Sequence

from simulator import Machine
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
