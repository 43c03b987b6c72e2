"""Latency that no work hides. A transfer's bytes arrive one latency after its last request. Work on other tiles hides
it where there are several steps and a free slot for the next tile; no work hides the first load and the last store of a
kernel. A kernel with few steps, or one that waits for its slots, has the latency on its critical path."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import MEMORY
from workbench.explaining.findings import Facts, Finding, Remedy, finding, percent, times

SHOWS = 0.05
"""The least share of the makespan that the rule reports."""
_LATENCIES = ("load latency", "store latency", "gather latency", "scatter latency")


@finding("latency in the open")
def latency_in_the_open(facts: Facts) -> Iterator[Finding]:
    open_ = sum(kernel.part(*_LATENCIES) for kernel in facts.computed)
    if not open_ or open_ < SHOWS * facts.cycles or facts.machine.dram.kind != "simple":
        return
    spans = sorted(span for kernel in facts.computed for span in kernel.showing(*_LATENCIES))
    yield Finding(
        "",
        open_,
        f"{percent(open_, facts.cycles)} of all cycles are memory latency that no work hides: "
        f"{facts.machine.dram_latency_cycles} cycles a transfer, {times(len(spans), 'time')}",
        tuple(spans),
        remedy=Remedy.of_machine(dram_latency_ns=facts.machine.dram.latency_ns / 2),
        about=MEMORY,
    )
