"""Barriers of cores. Where cores read a tensor that another core has made, all of them wait at a barrier until the last
has arrived. At stake is the last core's arrival minus the average arrival: with evenly divided work all cores would
arrive then. The cycles that the kernel's bytes take are not at stake, since all cores share one memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from simulator.analysis.binding import CORES
from simulator.tileprogram.barriers import meetings
from workbench.explaining.findings import Facts, Finding, finding, percent, times


@finding("barrier waits")
def barrier_waits(facts: Facts) -> Iterator[Finding]:
    trace = facts.trace
    for kernel in facts.computed:
        met = meetings(kernel.scheduled.program)
        if not met:
            continue
        waits, waited, spans = 0.0, 0, list[int]()
        for place in cast("list[int]", np.unique(trace.launch[kernel.spans]).tolist()):
            base = trace.rows_of(place).start
            for meeting in met:
                came = trace.issue[base + np.array(meeting)]
                waits, waited = waits + float(came.max() - came.mean()), waited + int(came.max() - came.min())
                spans += [base + row for row in meeting]
        stake = min(round(waits), facts.beyond_memory(kernel))
        if stake:
            yield Finding(
                kernel.name,
                stake,
                f"cores meet {times(len(met) * len(kernel.launches), 'time')}, and the first of them waits "
                f"{waited:,} cycles for the last, {percent(waited, kernel.cycles)} of the kernel's; another "
                "division of the work (`cores` of its mapping) may shorten the wait",
                tuple(spans),
                about=CORES,
            )
