"""The arrays' peak rate. A kernel whose multiplications come near the peak of all arrays is at a roof: only fewer
multiplications, or narrower numbers, make it faster."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import ARRAYS
from simulator.records.spans import TOTALS
from simulator.units import systolic
from workbench.explaining.findings.finding_record import Finding, Remedy
from workbench.explaining.findings.number_words import percent
from workbench.explaining.findings.rule_registry import finding
from workbench.explaining.findings.run_facts import ComputedFacts, Facts, KernelFacts

AT_PEAK = 0.7
"""The share of the peak multiplications in a kernel's time; the rest are its first load, its last store and the arrays'
filling."""


@finding("arrays at their peak")
def arrays_at_their_peak(facts: Facts) -> Iterator[Finding]:
    peak = facts.machine.peak_macs_per_cycle
    for kernel in facts.computed:
        macs = multiplications(facts, kernel)
        if at_peak(facts, kernel):
            yield Finding(
                kernel.name,
                kernel.part("matmul preload", "matmul stream", "matmul drain"),
                f"the arrays are near their roof: {macs:,} multiplications in {kernel.cycles:,} cycles are "
                f"{percent(macs, peak * kernel.cycles)} of what they can do, so {_fewer(facts, kernel)} make it faster",
                kernel.showing("matmul stream"),
                remedy=_remedy(facts, kernel),
                about=ARRAYS,
            )


def _fewer(facts: Facts, kernel: ComputedFacts) -> str:
    narrow = systolic.passes(kernel.scheduled.program, facts.machine).max(initial=1) > 1
    return "fewer ones, or narrower ones, which take one pass," if narrow else "fewer ones, or more arrays,"


def _remedy(facts: Facts, kernel: ComputedFacts) -> Remedy | None:
    """Twice as many arrays; where these take several passes, `wide_numbers.py` has a remedy for the whole program."""
    if systolic.passes(kernel.scheduled.program, facts.machine).max(initial=1) > 1:
        return None
    twice = 2 * facts.machine.array.count
    call = f"j.with_(machine=j.machine.with_(systolic_arrays={twice}))"
    return Remedy(call, machine={"systolic_arrays": twice}, changes_program=True)


def at_peak(facts: Facts, kernel: KernelFacts) -> bool:
    """True if a kernel's multiplications are near the arrays' peak."""
    able = AT_PEAK * facts.machine.peak_macs_per_cycle * kernel.cycles
    return 0 < able <= multiplications(facts, kernel)


def multiplications(facts: Facts, kernel: KernelFacts) -> int:
    """Multiplications of all launches of a kernel, each counted as many times as its precision needs."""
    of_launch = facts.scheduled.launches.launches
    mine = [place for place, launch in enumerate(of_launch) if launch.kernel == kernel.name]
    assert kernel.scheduled is not None, "it computes on the machine"
    passes = systolic.passes(kernel.scheduled.program, facts.machine)
    return int(facts.trace.totals[mine, TOTALS.index("macs")].sum()) * int(passes.max(initial=1))
