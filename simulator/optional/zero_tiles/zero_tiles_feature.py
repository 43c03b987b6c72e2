"""The feature `zero tiles`: hangs the skipping of zero tiles on the hooks of the simulator."""

from __future__ import annotations

from simulator.machine.machine import Machine
from simulator.optional.feature import Feature, Followed
from simulator.optional.zero_tiles.skipping import skipped
from simulator.optional.zero_tiles.zero_tile_invariants import violations
from simulator.records.spans import Launched, Via
from simulator.tileprogram.program import U8
from simulator.units.cost_table import Spared, none_spared


class _Skipping(Followed):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def spare(self, number: int, launched: Launched, spared: Spared | None, via: U8 | None = None) -> Spared | None:
        left_out = skipped(launched, self._machine) if via is None else via == Via.SKIPPED
        if left_out is None:
            return spared
        return (spared or none_spared(len(left_out)))._replace(skipped=left_out)


FEATURE = Feature(name="zero tiles", follow=lambda machine, nothing: _Skipping(machine), violations=violations)
