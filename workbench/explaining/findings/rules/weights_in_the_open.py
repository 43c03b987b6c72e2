"""Weights that are loaded while no rows stream. A weight-stationary array loads a row of weights a cycle, and takes a
few cycles to switch from one set to the next. With two sets (`systolic_preload_depth`) the next set is loaded while
rows stream through the current one; this hides the load if at least as many rows stream as a set has. With few rows for
each set (a small batch) the array mostly loads weights, and with a single set no load is hidden.

Only more rows for the same weights hide more of it: a larger batch, or a larger tile of the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.analysis.binding import ARRAYS
from simulator.machine.machine import Machine
from simulator.tileprogram.program import I64, Opcode, TileProgram
from simulator.units import systolic
from workbench.explaining.findings import Facts, Finding, KernelFacts, Remedy, finding, percent, times

SHOWS = 0.1
"""The least share of a kernel's cycles that the rule reports."""
_ONE_SET = 1


@finding("weights in the open")
def weights_in_the_open(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    if machine.array.dataflow != "weight_stationary":
        return
    for kernel in facts.computed:
        program = kernel.scheduled.program
        if not np.any(program.opcode == Opcode.MATMUL):
            continue
        stake = kernel.part("matmul preload") + _unused(facts, kernel, program)
        if stake < SHOWS * kernel.cycles:
            continue
        rows, depth = _median(program)
        remedy = None
        if machine.array.preload_depth == _ONE_SET:
            remedy = Remedy.of_machine(systolic_preload_depth=2)
        yield Finding(
            kernel.name,
            stake,
            f"arrays load weights while no row streams in {percent(stake, kernel.cycles)} of the kernel's "
            f"cycles: a set of {min(depth, machine.array.rows)} rows of weights is used for {times(rows, 'row')} "
            "of the other operand in the median product, and more rows for the same weights would hide it",
            kernel.showing("matmul preload", "matmul stream"),
            remedy=remedy,
            about=ARRAYS,
        )


def _unused(facts: Facts, kernel: KernelFacts, program: TileProgram) -> int:
    """Cycles of the critical path in which a product held its array, and no row streamed in."""
    rows, cost = _streamed(program, facts.machine)
    useless = 1 - rows / np.maximum(cost, 1)
    spans = kernel.on_path.get("matmul stream", {})
    return round(sum(cycles * float(useless[facts.trace.instr[span]]) for span, cycles in spans.items()))


def _streamed(program: TileProgram, machine: Machine) -> tuple[I64, I64]:
    """For each product: the rows that stream through all its sets of weights, and the cycles of its stream."""
    passes = systolic.passes(program, machine)
    cost = systolic.matmul_cost(program.extent, program.stationary, machine, passes).stream
    batch, m, n, k = (program.extent[:, axis] for axis in range(4))
    streamed, across = np.where(program.stationary == 1, m, n), np.where(program.stationary == 1, n, m)
    sets = batch * -(-across // machine.array.columns) * -(-k // machine.array.rows) * passes
    return np.minimum(sets * streamed, cost), cost


def _median(program: TileProgram) -> tuple[int, int]:
    """The median of the streamed rows, and the median of the depths."""
    products = program.opcode == Opcode.MATMUL
    streamed = np.where(program.stationary == 1, program.extent[:, 1], program.extent[:, 2])[products]
    return int(np.median(streamed)), int(np.median(program.extent[products, 3]))
