"""Rows of a banked memory. Before a byte is read its row must be opened, which takes a bank many cycles; while it is
open, the rest of the row comes at the bus's rate. Streams over long runs use whole rows, and open the next ones
meanwhile. Short runs far apart open a row for a few bytes each; then the rate of opening rows bounds a channel, not its
bandwidth. Tiles with longer runs open fewer rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.analysis.binding import MEMORY
from simulator.records.spans import CHANNEL_COUNTERS, Wait
from workbench.explaining.findings import Facts, Finding, finding, percent

SHOWS = 0.05
"""The least share of a kernel's cycles that the rule reports."""
_WAITS = tuple(f"{name} {Wait.MEMORY_ROW.label}" for name in ("load", "store", "gather", "scatter", "scalar"))


@finding("rows opened for short runs")
def rows_opened_for_short_runs(facts: Facts) -> Iterator[Finding]:
    machine, use = facts.machine, facts.memory_use
    if machine.dram.kind != "banked":
        return
    opened = int(facts.trace.channels[:, CHANNEL_COUNTERS.index("activates")].sum())
    row = machine.named_memory.columns * machine.dram.request_bytes
    each = int(use.requested.sum()) // max(opened, 1)
    for kernel in facts.computed:
        spans = tuple(span for span in kernel.showing(*_WAITS) if use.run[span] < row)
        stake = sum(kernel.path_of(span, *_WAITS) for span in spans)
        if spans and stake >= SHOWS * kernel.cycles:
            run = int(np.median(use.run[list(spans)]))
            yield Finding(
                kernel.name,
                stake,
                f"transfers wait until the memory has opened rows in {percent(stake, kernel.cycles)} of the "
                f"kernel's cycles: the memory opens a row of {row:,} bytes for every {each:,} bytes moved; "
                f"{run:,} bytes lie together in the median transfer, and tiles with longer runs open fewer rows",
                spans,
                about=MEMORY,
            )
