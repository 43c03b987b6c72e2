"""Latency that nothing hides. A transfer's bytes come a latency after its last request. Other tiles' work hides it
where there are several steps and a free slot for the next tile; the first load and the last store of a kernel have
nothing to hide behind. A kernel of few steps, or one whose slots are all waited for, shows it on the critical path.

A memory that answers sooner is tried with the tilings as they are: into how many steps a kernel is cut is weighed
against the latency, and would be weighed anew."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.findings.finding_record import Finding, Remedy
from workbench.findings.number_words import percent, times
from workbench.findings.rule_registry import finding
from workbench.findings.run_facts import Facts

SHOWS = 0.05
"""Of the makespan."""
_LATENCIES = ("load latency", "store latency", "gather latency", "scatter latency")


@finding("latency in the open")
def latency_in_the_open(facts: Facts) -> Iterator[Finding]:
    open_ = sum(kernel.part(*_LATENCIES) for kernel in facts.computed)
    if not open_ or open_ < SHOWS * facts.cycles or facts.machine.dram.kind != "simple":
        return
    spans = sorted(span for kernel in facts.computed for span in kernel.showing(*_LATENCIES))
    half = facts.machine.dram.latency_ns / 2
    yield Finding(
        "",
        open_,
        f"{percent(open_, facts.cycles)} of all cycles are the memory's latency with nothing beside it: "
        f"{facts.machine.dram_latency_cycles} cycles a transfer, {times(len(spans), 'time')}",
        tuple(spans),
        remedy=Remedy(
            f"j.with_(machine=j.machine.with_(dram_latency_ns={half}), mapping=j.scheduled.mappings)",
            machine={"dram_latency_ns": half},
            keeps_tiles=True,
        ),
    )
