"""Units with less work than others. A kernel ends when the last of its arrays and of its cores ends; at stake is the
work that the others could have taken over, except for the time of the kernel's bytes, since all cores share one memory.

Arrays share a product by its matrices, by tiles of an array's columns, or by its rows. With shared rows each array
loads the same weights, so rows are shared only if streaming them takes longer than this load; sums are never shared. A
smaller product leaves arrays idle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.analysis.binding import ARRAYS, CORES, waits_at_end
from simulator.tileprogram.program import I64, Opcode
from simulator.units.unit_table import UNIT_OF, unit_named
from workbench.explaining.findings import Facts, Finding, KernelFacts, finding, percent, times

SHOWS = 0.1
"""The least share of a kernel's cycles that the rules report."""
_NOT_SHARED = ("load latency", "store latency", "gather latency", "scatter latency")
"""Waits that more cores do not shorten."""


@finding("arrays wait for one")
def arrays_wait_for_one(facts: Facts) -> Iterator[Finding]:
    arrays = facts.machine.array.count
    for kernel in facts.computed:
        busy = _busy_arrays(facts, kernel)
        if arrays == 1 or not busy.any():
            continue
        most, mean = int(busy.max()), float(busy[busy.max(1).argmax()].mean())
        stake = round(kernel.part("matmul stream", "matmul preload") * (1 - mean / most))
        if stake >= SHOWS * kernel.cycles:
            products = int(np.count_nonzero(facts.trace.kind[kernel.spans] == Opcode.MATMUL))
            yield Finding(
                kernel.name,
                stake,
                f"one array of {arrays} works {most:,} cycles, and all of them {percent(mean, most)} of that on "
                f"average: {times(products, 'product')}. Arrays share a product by its columns beyond the first "
                f"{facts.machine.array.columns}, or by its rows if it streams more rows than a set of weights "
                "has; a larger batch, or several such products at once, would keep all arrays busy",
                kernel.showing("matmul stream", "matmul preload"),
                about=ARRAYS,
            )


@finding("cores wait for one")
def cores_wait_for_one(facts: Facts) -> Iterator[Finding]:
    trace, cores = facts.trace, facts.machine.core.count
    for kernel in facts.computed:
        if cores == 1 or not len(kernel.spans):
            continue
        of_launch = enumerate(facts.scheduled.launches.launches)
        last = sum(waits_at_end(trace, place) for place, launch in of_launch if launch.kernel == kernel.name)
        shared = 1 - kernel.part(*_NOT_SHARED) / max(kernel.cycles, 1)
        stake = min(round(last * shared), facts.beyond_memory(kernel))
        if stake >= SHOWS * kernel.cycles:
            used, spread = len(np.unique(trace.core[kernel.spans])), kernel.scheduled.mapping.spread
            yield Finding(
                kernel.name,
                stake,
                f"cores are done {percent(last, kernel.cycles)} of the kernel's cycles before the last core on "
                f"average, and {used} of {cores} have work{f' ({spread})' if spread else ''}",
                tuple(kernel.spans[trace.done[kernel.spans] == trace.done[kernel.spans].max()].tolist()),
                about=CORES,
            )


def _busy_arrays(facts: Facts, kernel: KernelFacts) -> I64:
    """Cycles in which products of a kernel hold each array of each core."""
    machine, trace = facts.machine, facts.trace
    rows = kernel.spans[trace.kind[kernel.spans] == Opcode.MATMUL]
    busy = np.zeros(len(trace.unit_names), np.int64)
    np.add.at(busy, trace.unit[rows], trace.end[rows] - trace.start[rows])
    arrays = [number for number, name in enumerate(trace.unit_names) if unit_named(name) is UNIT_OF[Opcode.MATMUL]]
    return busy[arrays].reshape(machine.core.count, machine.array.count)
