"""An unused common memory. Tensors that several kernels or launches read and write go through DRAM each time. A tensor
that stays in the machine's common memory from its first to its last use moves at that memory's rate, and leaves DRAM to
other tensors. `resident="auto"` chooses the tensors with the largest savings that fit. The saving is predicted by
simulating the same kernels with that plan."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import MEMORY
from workbench.explaining.findings import Facts, Finding, Remedy, finding, times
from workbench.scheduling.planning.common_memory_plan import AUTO, planned


@finding("common memory unused")
def common_memory_unused(facts: Facts) -> Iterator[Finding]:
    if not facts.machine.common_memory.bytes or any(each.resident for each in facts.scheduled.residence):
        return
    plan = planned(facts.lowered, facts.scheduled, facts.machine, AUTO)
    kept = [each for each in plan.residence if each.resident]
    saved = facts.cycles - facts.cycles_planned(plan) if kept else 0
    if saved > 0:
        spared = sum(each.saved for each in kept)
        yield Finding(
            "",
            saved,
            f"the common memory of {facts.machine.common_memory.bytes:,} bytes is empty, though "
            f"{times(len(kept), 'tensor')} moved more than once would fit: DRAM would move {spared:,} bytes fewer",
            remedy=Remedy('j.with_(resident="auto")', options={"resident": AUTO}),
            predicted=saved,
            about=MEMORY,
        )
