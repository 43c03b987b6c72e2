"""Accesses one element at a time. Elements that a kernel reads or writes without staging them in the scratchpad go
through the scalar unit: each is a whole request of the memory, and iterations with a loop-carried value run one after
the other."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import SCALAR
from workbench.explaining.findings import Facts, Finding, finding, percent

_SCALAR = ("scalar accesses", "scalar latency")


@finding("scalar accesses")
def scalar_accesses(facts: Facts) -> Iterator[Finding]:
    use = facts.memory_use
    for kernel in facts.computed:
        waits, spans = kernel.part(*_SCALAR), kernel.showing(*_SCALAR)
        if waits:
            asked, moved = int(use.asked[list(spans)].sum()), int(use.requested[list(spans)].sum())
            yield Finding(
                kernel.name,
                waits,
                f"elements go one by one through the scalar unit: {percent(waits, kernel.cycles)} of the "
                f"kernel's cycles; {asked:,} bytes are needed and {moved:,} moved",
                spans,
                about=SCALAR,
            )
