"""The arrays' peak rate. A kernel whose multiplications come near the peak of all arrays is at a roof: only fewer
multiplications, or narrower numbers, make it faster."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import ARRAYS
from simulator.records.spans import TOTALS
from workbench.explaining.findings import ComputedFacts, Facts, Finding, Remedy, finding, percent

AT_PEAK = 0.7
"""The share of the peak multiplications in a kernel's time; the rest are its first load, its last store and the arrays'
filling."""


@finding("arrays at their peak")
def arrays_at_their_peak(facts: Facts) -> Iterator[Finding]:
    peak = facts.machine.peak_macs_per_cycle
    for kernel in facts.computed:
        macs = multiplications(facts, kernel)
        if at_peak(facts, kernel):
            narrow = facts.passes(kernel) > 1
            fewer = "fewer ones, or narrower ones, which take one pass," if narrow else "fewer ones, or more arrays,"
            yield Finding(
                kernel.name,
                kernel.part("matmul preload", "matmul stream", "matmul drain"),
                f"the arrays are near their roof: {macs:,} multiplications in {kernel.cycles:,} cycles are "
                f"{percent(macs, peak * kernel.cycles)} of what they can do, so {fewer} make it faster",
                kernel.showing("matmul stream"),
                remedy=_remedy(facts, kernel),
                about=ARRAYS,
            )


def _remedy(facts: Facts, kernel: ComputedFacts) -> Remedy | None:
    """The remedy of twice as many arrays; None where arrays take several passes: `wide_numbers.py` has a remedy for the
    whole program."""
    if facts.passes(kernel) > 1:
        return None
    twice = 2 * facts.machine.array.count
    call = f"j.with_(machine=j.machine.with_(systolic_arrays={twice}))"
    return Remedy(call, machine={"systolic_arrays": twice}, changes_program=True)


def at_peak(facts: Facts, kernel: ComputedFacts) -> bool:
    """True if a kernel's multiplications are near the arrays' peak."""
    able = AT_PEAK * facts.machine.peak_macs_per_cycle * kernel.cycles
    return 0 < able <= multiplications(facts, kernel)


def multiplications(facts: Facts, kernel: ComputedFacts) -> int:
    """Multiplications of all launches of a kernel, each counted as many times as its precision needs."""
    of_launch = facts.scheduled.launches.launches
    mine = [place for place, launch in enumerate(of_launch) if launch.kernel == kernel.name]
    return int(facts.trace.totals[mine, TOTALS.index("macs")].sum()) * facts.passes(kernel)
