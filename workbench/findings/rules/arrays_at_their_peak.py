"""The arrays' own rate. A kernel whose products come near the multiplications that all arrays can make in its time is
at a roof: only fewer multiplications, or narrower numbers, would be faster."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.spans import TOTALS
from workbench.findings.facts import Facts
from workbench.findings.record import Finding
from workbench.findings.registry import finding
from workbench.findings.words import percent

AT_PEAK = 0.7
"""Of all multiplications in a kernel's time; the rest are its first load, its last store and the arrays' filling."""


@finding("arrays at their peak")
def arrays_at_their_peak(facts: Facts) -> Iterator[Finding]:
    peak = facts.machine.peak_macs_per_cycle
    of_launch = facts.scheduled.launches.launches
    for kernel in facts.computed:
        mine = [place for place, launch in enumerate(of_launch) if launch.kernel == kernel.name]
        macs = int(facts.trace.totals[mine, TOTALS.index("macs")].sum())
        passes = facts.machine.matmul_passes
        if kernel.cycles and macs * passes >= AT_PEAK * peak * kernel.cycles:
            yield Finding(
                kernel.name,
                0,
                f"the arrays are at their peak: {macs:,} multiplications in {kernel.cycles:,} cycles are "
                f"{percent(macs * passes, peak * kernel.cycles)} of what they can do",
                kernel.showing("matmul stream"),
            )
