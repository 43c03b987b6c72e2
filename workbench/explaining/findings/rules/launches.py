"""Launches. Before its first instruction a kernel takes `launch_overhead_cycles`: descriptors are fetched, and the
pipeline of the kernel before has run dry. Nothing else runs meanwhile, so these cycles bound a program of many short
kernels, however fast they are. Fewer, longer kernels help; so does a machine with a smaller launch overhead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from simulator import Launched
from simulator.analysis.binding import LAUNCHES
from workbench.explaining.findings import Facts, Finding, Remedy, finding, percent, times

if TYPE_CHECKING:
    from simulator import Trace


@finding("launches")
def launches(facts: Facts) -> Iterator[Finding]:
    spans = zip(facts.trace.launches, facts.trace.kernel_spans, strict=True)
    took = [end - begin for launch, (_, begin, end) in spans if isinstance(launch, Launched)]
    overhead, count = facts.machine.core.launch_overhead_cycles, len(took)
    if not facts.launching or not overhead or not count:
        return
    middle = int(np.median(took))
    one = f"of {overhead:,} cycles, where the kernel takes {middle:,}"
    many = f"of {overhead:,} cycles each, where half of the kernels take {middle:,} or less"
    yield Finding(
        "",
        facts.launching,
        f"{percent(facts.launching, facts.cycles)} of all cycles are launch overhead before kernels begin: "
        f"{times(count, 'launch')} " + (many if count > 1 else one) + _fewer(count),
        tuple(_first_spans(facts.trace)),
        remedy=Remedy.of_machine(launch_overhead_cycles=overhead // 2),
        about=LAUNCHES,
    )


def _fewer(count: int) -> str:
    told = "; fewer kernels of more work have fewer, as with a larger batch or with inputs stacked into one"
    return told if count > 1 else ""


def _first_spans(trace: Trace) -> Iterator[int]:
    """The first span of each launch: the idle time before it on its unit is the launch overhead."""
    for rows in trace.rows_by_launch:
        if rows.start < rows.stop:
            yield rows.start + int(trace.start[rows].argmin())
