"""The work of each launch of a trace, computed again: a trace does not keep it, since it is large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.memory.chiplet_pages import PageTable
from simulator.records.spans import HostCall, Via
from simulator.units.common_memory import CommonMemory
from simulator.units.cost_table import Work, work

if TYPE_CHECKING:
    from simulator.analysis.trace_record import TraceRecord


def works(trace: TraceRecord, pages: PageTable | None = None) -> Iterator[Work | None]:
    """The work of each launch, None for a step on the host; advances a given table of pages launch by launch."""
    common, pages = CommonMemory(trace.residents), pages or PageTable(trace.machine, trace.placed)
    for index, (launched, rows) in enumerate(zip(trace.launches, trace.rows_by_launch, strict=True)):
        skipped = trace.via[rows] == Via.SKIPPED
        served = common.launch(index, launched, skipped)
        if isinstance(launched, HostCall):
            yield None
            continue
        asked = work(launched.program, launched.addresses, trace.machine, launched.indices, served)
        yield pages.launch(index, launched.program, asked)


@dataclass(frozen=True, slots=True)
class OnChiplets:
    """The placement of a tensor on a machine of several chiplets; `name` is empty for pages of no tensor."""

    name: str
    bytes: int
    where: int | str | None
    """The requested place: `Placed.where`."""
    pages: tuple[int, ...]
    """How many were placed on each chiplet."""
    local: int
    remote: int
    """Bytes in whole requests, asked for from the chiplet they lay on and from others."""


def placement_of(trace: TraceRecord) -> list[OnChiplets]:
    """One entry per tensor that was told of, and one for what belongs to none if there is such: where its pages
    lay, and how many bytes were asked for from there and from elsewhere. None on a machine in one piece."""
    trace.check_has_programs("from which follows where its bytes lay")
    if trace.machine.chiplet.count == 1:
        return []
    pages = PageTable(trace.machine, trace.placed)
    for _ in works(trace, pages):
        pass
    found = list[OnChiplets]()
    for index, asked in enumerate(pages.asked):
        local = int(asked.trace())
        told = (tuple(pages.pages[index].tolist()), local, int(asked.sum()) - local)
        if index < len(trace.placed):
            each = trace.placed[index]
            found.append(OnChiplets(each.name, each.bytes, each.where, *told))
        elif asked.any():
            found.append(OnChiplets("", 0, None, *told))
    return found
