"""The parts of a training step on the timeline: forward and backward pass, and the optimizer's step."""

from __future__ import annotations

from simulator import Trace
from workbench.explaining.views.graphs.graph_tables import part_of
from workbench.explaining.views.graphs.spent import dram_bytes
from workbench.ground.basics.table import Cell, Table
from workbench.ir import PARTS, KernelGraph

NO_PARTS = "the function is no training step: wb.trace(step, ..., train=True) makes a journey with parts"


def launches_by_part(lowered: KernelGraph) -> dict[str, list[int]]:
    """The launches of each part that has one, in the order of the parts; empty where nothing is trained."""
    found: dict[str, list[int]] = {part: [] for part in PARTS}
    for number, kernel in enumerate(lowered.kernels):
        if part := part_of(lowered, kernel):
            found[part].append(number)
    return {part: launches for part, launches in found.items() if launches}


def by_part(trace: Trace, lowered: KernelGraph) -> Table:
    """One row a part: its launches, their cycles with the launch overhead, and the bytes that they move.

    The cycles add up to the makespan.
    """
    ends = [0, *(end for _, _, end in trace.kernel_spans)]
    bytes = dram_bytes(trace)
    rows = list[tuple[Cell, ...]]()
    for part, mine in launches_by_part(lowered).items():
        cycles = sum(ends[number + 1] - ends[number] for number in mine)
        time, share = trace.machine.microseconds(cycles), cycles / max(trace.makespan, 1)
        rows.append((part, len(mine), cycles, time, share, *bytes[mine].sum(0).tolist()))
    columns = ("part", "launches", "cycles", "us", "share", "bytes_read", "bytes_written")
    return Table(columns, tuple(rows), "" if rows else NO_PARTS)
