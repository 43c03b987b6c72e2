"""Repeated launches, simulated once: their spans come again, some cycles later.

With simple memory a launch leaves no state to the next: the scratchpad is empty, all units and the bus are idle. So its
spans follow from the program, each argument's offset within a memory request, the indices it reads and what spares DRAM
(`Spared`), whatever the cycle. A banked memory remembers which rows are open and when a refresh is due, so there
every launch is simulated; likewise where links count the bytes they carry.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simulator.machine.machine import Machine
from simulator.records.spans import Grid, Launched
from simulator.trace.trace import Ran
from simulator.units.cost_table import Spared

_TIMES = ("start", "end", "done", "phase", "issue")
"""Columns of spans that are cycles."""

_Key = tuple[int, tuple[int | Grid | None, ...], tuple[tuple[int, int], ...], bytes]


@dataclass
class Repeats:
    """The launches that ran on a machine, and the cycles in which they began. They must live as long as this does."""

    machine: Machine
    wanted: bool
    _ran: dict[_Key, tuple[int, Ran]] = field(default_factory=dict[_Key, tuple[int, Ran]])

    def find(self, launched: Launched, spared: Spared | None, begin: int) -> Ran | None:
        """The result of a launch at cycle `begin`, if the same one ran before."""
        if not self._apply:
            return None
        found = self._ran.get(self._key(launched, spared))
        if found is None:
            return None
        began, (asked, spans, met, waits) = found
        later = {name: getattr(spans, name) + (begin - began) for name in _TIMES}
        met = np.where(met < 0, met, met + (begin - began))
        return Ran(asked, spans._replace(**later), met, waits)

    def keep(self, launched: Launched, spared: Spared | None, begin: int, ran: Ran) -> None:
        if self._apply:
            self._ran[self._key(launched, spared)] = begin, ran

    @property
    def _apply(self) -> bool:
        return self.wanted and self.machine.dram.kind == "simple" and not self.machine.has_links

    def _key(self, launched: Launched, spared: Spared | None) -> _Key:
        """Everything that determines the spans of a launch on one machine."""
        places = tuple(address % self.machine.dram.request_bytes for address in launched.addresses)
        return (
            id(launched.program),
            (*places, *launched.grids),
            tuple((argument, id(known)) for argument, known in launched.indices.items()),
            np.packbits([spared.rows, spared.skipped]).tobytes() + spared.waits.tobytes() if spared else b"",
        )
