"""Accesses one element at a time. What a kernel reads or writes without staging it in the scratchpad goes through the
scalar unit: a whole request of the memory for each element, and an iteration after the other where one hands a value to
the next."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.findings.finding_record import Finding
from workbench.findings.number_words import percent
from workbench.findings.rule_registry import finding
from workbench.findings.run_facts import Facts

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
                f"elements go one by one through the scalar unit: {percent(waits, kernel.cycles)} of the kernel's "
                f"cycles; {asked:,} bytes are asked for and {moved:,} moved",
                spans,
            )
