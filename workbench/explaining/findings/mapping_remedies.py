"""Another mapping of one kernel as a remedy, scheduled and simulated before a rule advises it.

A wider tile takes fewer instructions, reuses more of each load and moves longer runs. It also takes more of the
scratchpad, and no work hides its longer first load and last store. So only its schedule says whether it saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulator.tileprogram.program import TileProgram
from workbench.explaining.findings.finding_record import Remedy
from workbench.explaining.findings.run_facts import ComputedFacts, Facts
from workbench.ir import ScheduledKernel
from workbench.scheduling.user_mapping import UserMapping, mapping_of, useful_slots


def remapped(facts: Facts, kernel: str, mapping: UserMapping) -> Remedy:
    """The remedy that gives one kernel another mapping, and keeps the mappings of all others."""
    call = f'j.with_(mapping=j.scheduled.mappings | {{"{kernel}": {mapping}}})'
    every = {each.kernel: mapping_of(each) for each in facts.scheduled.kernels if each.mapping.tile}
    return Remedy(call, options={"mapping": {**every, kernel: mapping}})


@dataclass(frozen=True, slots=True)
class WiderTile:
    """A wider tile of a kernel that makes the run faster."""

    remedy: Remedy
    saved: int
    """Cycles that the run takes less."""
    program: TileProgram


def wider_tile(facts: Facts, kernel: ComputedFacts, cost: Callable[[TileProgram], float]) -> WiderTile | None:
    """A wider tile that makes the run faster, and whose program has a lower `cost`, such as its loaded bytes.

    The tile is widened along one dim after another, twice as far each time, as long as the run becomes faster. None if
    no such tile saves, or if kernels cannot be scheduled again.
    """
    best, cycles = kernel.scheduled, facts.cycles
    for dim in kernel.scheduled.dims:
        while (wider := _widened(facts, best, dim)) is not None:
            after = facts.cycles_with(kernel, wider.program) if cost(wider.program) < cost(best.program) else cycles
            if after >= cycles:
                break
            best, cycles = wider, after
    if best is kernel.scheduled:
        return None
    return WiderTile(remapped(facts, kernel.name, mapping_of(best)), facts.cycles - cycles, best.program)


def _widened(facts: Facts, made: ScheduledKernel, dim: str) -> ScheduledKernel | None:
    """The kernel with a tile twice as wide along a dim; None where that is impossible or does not fit."""
    extent, now = made.dims[dim], made.mapping.tile.get(dim)
    if facts.retiled is None or now is None or now >= extent:
        return None
    tile = {**made.mapping.tile, dim: min(2 * now, extent)}
    slots = useful_slots(made.mapping.buffers, tile, made.dims)
    wider = facts.retiled(made, {**mapping_of(made), "tile": tile, "buffers": slots})
    return wider if wider is not None and wider.mapping.tile.get(dim, now) > now else None
