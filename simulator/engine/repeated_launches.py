"""Repeated launches are simulated once; a repetition has the same spans, some cycles later.

With simple memory a launch leaves no state to the next: the scratchpad is empty, all units and the bus are idle. So its
spans follow from the program, each argument's offset within a memory request, the indices that it reads and the
instructions that spare DRAM (`Spared`), whatever the cycle. A banked memory has open rows and a next refresh, so
with one every launch is simulated; likewise with links, which count the bytes that they carry.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simulator.machine.machine import Machine
from simulator.records.spans import Grid, Launched
from simulator.trace.trace import Ran
from simulator.units.cost_table import Spared

_TIMES = ("start", "end", "done", "phase", "issue")
"""The columns of spans that hold cycles."""

_Key = tuple[int, tuple[int | Grid | None, ...], tuple[tuple[int, int], ...], bytes]


@dataclass
class Repeats:
    """The launches that ran on a machine, and the cycles in which they began.

    The launches must live as long as this object, since keys hold the `id` of programs and index tensors.
    """

    machine: Machine
    wanted: bool
    _ran: dict[_Key, tuple[int, Ran]] = field(default_factory=dict[_Key, tuple[int, Ran]])

    def find(self, launched: Launched, spared: Spared | None, begin: int) -> Ran | None:
        """The result of a launch that begins in cycle `begin`, if the same launch ran before; else None."""
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
        """The key of a launch: everything that determines its spans on one machine."""
        places = tuple(address % self.machine.dram.request_bytes for address in launched.addresses)
        return (
            id(launched.program),
            (*places, *launched.grids),
            tuple((argument, id(known)) for argument, known in launched.indices.items()),
            np.packbits([spared.rows, spared.skipped]).tobytes() + spared.waits.tobytes() if spared else b"",
        )
