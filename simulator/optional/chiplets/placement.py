"""The chiplets on which the tensors of a trace lay, and the bytes that local and other chiplets requested."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.optional.chiplets.page_table import PageTable
from simulator.optional.simulation import Simulation, works
from simulator.trace_record import TraceRecord


@dataclass(frozen=True, slots=True)
class OnChiplets:
    """The placement of a tensor on a machine of several chiplets; `name` is empty for pages of no tensor."""

    name: str
    bytes: int
    where: int | str | None
    """The requested place: `Placed.where`."""
    pages: tuple[int, ...]
    """Number of its pages on each chiplet."""
    local: int
    remote: int
    """Bytes in whole requests: `local` were requested by the chiplet they lay on, `remote` by other chiplets."""


def placement_of(trace: TraceRecord) -> list[OnChiplets]:
    """One entry for each tensor of the plan, and one for pages of no tensor if any were requested.

    An empty list for a machine of one chiplet.
    """
    trace.check_has_programs("from which follows where its bytes lay")
    if trace.machine.chiplet.count == 1:
        return []
    simulation, placed = Simulation(trace.machine, trace.asked), trace.asked.get("placed", ())
    for _ in works(trace, simulation):
        pass
    pages = next(each for each in simulation.followed.values() if isinstance(each, PageTable))
    found = list[OnChiplets]()
    for index, asked in enumerate(pages.asked):
        local = int(asked.trace())
        told = (tuple(pages.placed_pages[index].tolist()), local, int(asked.sum()) - local)
        if index < len(placed):
            each = placed[index]
            found.append(OnChiplets(each.name, each.bytes, each.where, *told))
        elif asked.any():
            found.append(OnChiplets("", 0, None, *told))
    return found
