"""The issue of instructions. Each core issues its instructions one after another, at most one every
`issue_interval_cycles`. Where its units finish a tile sooner than the next instruction comes, the run takes as long as
its instructions need to be issued, however fast memory and units are. Only fewer instructions help, which is larger
tiles for the same work, or a machine that issues faster. No mapping was weighed by its number of instructions, so a
wider tile often saves; it is scheduled and simulated before it is advised."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import ISSUE
from simulator.records.spans import Cause
from workbench.explaining.findings import LEAST_SHARE, ComputedFacts, Facts, Finding, Remedy, finding, percent, times
from workbench.explaining.findings.mapping_remedies import WiderTile, wider_tile

SHOWS = 0.1
"""The least share of a kernel's cycles that the rule reports."""


@finding("bound by issue")
def bound_by_issue(facts: Facts) -> Iterator[Finding]:
    interval = facts.machine.core.issue_interval_cycles
    for kernel in facts.computed:
        waits = kernel.part(Cause.ISSUE.label)
        if waits < max(SHOWS * kernel.cycles, LEAST_SHARE * facts.cycles, 1):
            continue
        wider = wider_tile(facts, kernel, len)
        count = len(kernel.spans) // len(kernel.launches)
        pace = "one a cycle" if interval == 1 else f"one every {interval} cycles"
        yield Finding(
            kernel.name,
            waits,
            f"units wait for the issue of instructions in {percent(waits, kernel.cycles)} of the kernel's cycles: "
            f"{times(count, 'instruction')}, of which a core issues {pace}; {_helps(kernel, wider)}",
            kernel.showing(Cause.ISSUE.label),
            remedy=wider.remedy if wider else _faster(interval),
            predicted=wider.saved if wider else None,
            about=ISSUE,
        )


def _helps(kernel: ComputedFacts, wider: WiderTile | None) -> str:
    """Says which mapping has fewer instructions, as far as mappings were tried."""
    if wider:
        return f"wider tiles do the same work with {len(wider.program):,}"
    if not kernel.scheduled.schedule:
        return "a template writes its own loops, so no mapping makes them fewer"
    return "fewer ones make it faster, but no wider tile was found that saves"


def _faster(interval: int) -> Remedy | None:
    """The remedy of half the time between two instructions; None if that time is one cycle already."""
    return Remedy.of_machine(issue_interval_cycles=interval // 2) if interval > 1 else None
