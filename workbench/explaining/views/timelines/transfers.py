"""How well the transfers of each kernel use the memory, as a table."""

from __future__ import annotations

from typing import cast

import numpy as np

from simulator import Trace
from simulator.tileprogram.program import I64, Opcode
from workbench.ground.basics.table import Cell, Table


def by_kernel(trace: Trace) -> Table:
    """One row a kernel and kind of transfer from or to DRAM.

    `bytes` are what is asked for, `moved` what the memory moves for it in whole requests; `run` and `stretch` the mean
    over all runs and stretches (a stretch, and so a mean of it, is only of LOADs and STOREs); `peak_share` is what is
    asked for, of what the memory could move in the time of these transfers.
    """
    from simulator.analysis.memory_use import memory_use_of  # only here, as in timeline.py

    use = memory_use_of(trace)
    kernels = list(dict.fromkeys(trace.kernels))
    numbers = np.array([kernels.index(kernel) for kernel in trace.kernels], np.int64)
    moving = np.flatnonzero(use.requested)
    key = numbers[trace.launch[moving]] * len(Opcode) + trace.kind[moving]
    rows = list[tuple[Cell, ...]]()
    for each in cast("list[int]", np.unique(key).tolist()):
        mine = moving[key == each]
        asked = use.asked[mine]
        rows.append(
            (
                kernels[each // len(Opcode)],
                Opcode(each % len(Opcode)).name,
                len(mine),
                int(asked.sum()),
                int(use.requested[mine].sum()),
                _mean(asked, use.run[mine]),
                _mean(asked, use.stretch[mine]),
                int(use.cycles[mine].sum()),
                use.peak_share_of(mine),
            )
        )
    columns = ("kernel", "kind", "transfers", "bytes", "moved", "run", "stretch", "cycles", "peak_share")
    return Table(columns, tuple(rows), "" if rows else "nothing is moved from or to DRAM")


def _mean(asked: I64, each: I64) -> float:
    """Bytes of a piece, where these are asked for in pieces of so many."""
    return float(asked.sum() / np.sum(asked / each)) if each.all() else 0.0
