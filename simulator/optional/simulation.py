"""Optional hardware in one simulation: calls the hooks of all features for each launch, in the order of the table."""

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
    """The state of all features in a simulation; `asked` has the arguments of `simulate` for each feature."""

    def __init__(self, machine: Machine, asked: FeatureArguments) -> None:
        self._machine = machine
        self.followed = {
            each.name: each.follow(machine, asked.get(each.keyword, ())) for each in FEATURES if each.follow is not None
        }
        """The state of each feature, by its name."""

    def spared(self, number: int, launched: Launched, via: U8 | None = None) -> Spared | None:
        """The instructions of the next launch that spare DRAM; None if there are none. `via` as in `Followed.spare`."""
        found: Spared | None = None
        for each in self.followed.values():
            found = each.spare(number, launched, found, via)
        return found

    def work(self, number: int, launched: Launched, spared: Spared | None) -> Work:
        """The work of the launch for which `spared` was called last."""
        asked = work(launched.program, launched.addresses, self._machine, launched.indices, spared, launched.grids)
        for each in self.followed.values():
            asked = each.ask(number, launched.program, asked)
        return asked

    def pages(self) -> Pages | None:
        """The pages that translate the addresses of this launch; None if they are not translated."""
        return next((pages for each in self.followed.values() if (pages := each.pages()) is not None), None)


def works(trace: TraceRecord, simulation: Simulation | None = None) -> Iterator[Work | None]:
    """Computes the work of each launch of a trace again, which is too large to keep; None for a step on the host.

    `simulation` has the state of the features; without it a new one begins.
    """
    simulation = simulation or Simulation(trace.machine, trace.asked)
    for index, (launched, rows) in enumerate(zip(trace.launches, trace.rows_by_launch, strict=True)):
        if isinstance(launched, HostCall):
            yield None
            continue
        spared = simulation.spared(index, launched, trace.via[rows])
        yield simulation.work(index, launched, spared)


def works_and_pages(trace: TraceRecord) -> Iterator[tuple[Work, Pages | None] | None]:
    """Computes the work and the pages of each launch of a trace again; None for a step on the host."""
    simulation = Simulation(trace.machine, trace.asked)
    for asked in works(trace, simulation):
        yield asked and (asked, simulation.pages())
