"""Optional hardware in one simulation: all features are told of its launches, in the order of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulator.machine.machine import Machine
from simulator.optional.feature_table import FEATURES, FeatureArguments
from simulator.records.spans import HostCall, Launched
from simulator.tileprogram.program import U8
from simulator.trace_record import TraceRecord
from simulator.units.cost_table import Spared, Work, work

if TYPE_CHECKING:
    from simulator.memory.pages import Pages


class Simulation:
    """The state of all features in a simulation; `asked` has its arguments beside the launches."""

    def __init__(self, machine: Machine, asked: FeatureArguments) -> None:
        self._machine = machine
        self.followed = {
            each.name: each.follow(machine, asked.get(each.keyword, ())) for each in FEATURES if each.follow is not None
        }
        """By the features' names."""

    def spared(self, number: int, launched: Launched, via: U8 | None = None) -> Spared | None:
        """The transfers of the next launch that spare DRAM; None if there are none. `via` as in `Followed.spare`."""
        found: Spared | None = None
        for each in self.followed.values():
            found = each.spare(number, launched, found, via)
        return found

    def work(self, number: int, launched: Launched, spared: Spared | None) -> Work:
        """The work of that launch."""
        asked = work(launched.program, launched.addresses, self._machine, launched.indices, spared, launched.grids)
        for each in self.followed.values():
            asked = each.ask(number, launched.program, asked)
        return asked

    def pages(self) -> Pages | None:
        """The pages by which addresses of that launch are translated; None if they are not."""
        return next((pages for each in self.followed.values() if (pages := each.pages()) is not None), None)


def works(trace: TraceRecord, simulation: Simulation | None = None) -> Iterator[Work | None]:
    """The work of each launch of a trace, None for a step on the host, computed again: it is large, and a trace does
    not keep it. A given simulation is told of the launches."""
    simulation = simulation or Simulation(trace.machine, trace.asked)
    for index, (launched, rows) in enumerate(zip(trace.launches, trace.rows_by_launch, strict=True)):
        if isinstance(launched, HostCall):
            yield None
            continue
        spared = simulation.spared(index, launched, trace.via[rows])
        yield simulation.work(index, launched, spared)


def works_and_pages(trace: TraceRecord) -> Iterator[tuple[Work, Pages | None] | None]:
    """The same, with the pages of each launch."""
    simulation = Simulation(trace.machine, trace.asked)
    for asked in works(trace, simulation):
        yield asked and (asked, simulation.pages())
