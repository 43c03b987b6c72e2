"""A weight-stationary systolic array: what one matmul instruction takes of it.

One operand, the stationary one, is cut into tiles of at most rows x columns; each is held in the array while the other
operand streams through it, one row a cycle. With R x C the array, a tile of k rows of weights and S streamed rows:

    preload    k cycles: a row of weights a cycle. The array holds two sets of weights, so a preload runs while the
               set before is in use, but not earlier: only one set can wait.
    switch     `weight_switch_cycles`, in which no row enters: the set that waited takes the place of the one in use
    stream     S cycles
    fill       R + C - 1 cycles from a row's entry to its last result: the first row takes them all, each further row
               comes one cycle later

    one tile on an idle array       k + switch + (S - 1) + (R + C - 1)                              cycles
    a further tile, back to back    switch + max(S, its k)              more: its preload is hidden behind the stream
    a matmul of T tiles             k_1 + T * switch + sum over t = 2..T of max(S, k_t) + (S - 1) + (R + C - 1)

A matmul of (batch, m, n, k) with the right operand stationary streams its m rows through ceil(k/R) x ceil(n/C) tiles
a batch; with the left operand stationary it streams n columns through ceil(k/R) x ceil(m/C). Partial sums along k stay
in the accumulators below the array, so neither the tiles of one matmul nor the matmuls of one K chain drain in between.
A precision that needs several products goes through all tiles that often, but with factors of 16 bits or fewer once:
one product has all their digits.

An instruction is the work of one array. Of several, each takes a share of a product (`shares`): batches where there
are some, else tiles of columns, which need other weights anyway; else rows, for which every array preloads the same
weights, so that it only pays for products with more rows than a preload takes cycles. Sums along k are never shared:
they would meet in two accumulators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.machine import Machine
from simulator.program import I64, U8, Access, TileProgram

SINGLE_PASS_BYTES = 2
"""Of a factor: arrays multiply bf16, and what is no wider, in one pass."""


@dataclass(frozen=True, slots=True)
class MatmulCost:
    """Cycles, one entry per instruction."""

    preload: I64
    """Of the first tile: hidden when the array is still streaming something else."""
    stream: I64
    """From the first tile's first row until the array takes another instruction's rows."""
    last: I64
    """The part of `stream` in which the last tile is in use: then the next instruction may preload."""
    drain: I64
    """From the last row's entry until its last result, beyond the cycle of its entry."""


def shares(batch: int, m: int, n: int, machine: Machine) -> tuple[int, tuple[int, ...]]:
    """How the arrays divide a product with the right operand stationary: which of (batch, m, n), and each one's part.

    One part, of the whole batch, where sharing would gain nothing.
    """
    arrays, columns = machine.systolic_arrays, machine.systolic_columns
    if arrays > 1 and batch > 1:
        return 0, _parts(batch, arrays, 1)
    if arrays > 1 and n > columns:
        return 2, _parts(n, arrays, columns)
    if arrays > 1 and m >= arrays * machine.systolic_rows:
        return 1, _parts(m, arrays, 1)
    return 0, (batch,)


def _parts(extent: int, count: int, unit: int) -> tuple[int, ...]:
    """At most `count` parts of an extent, in whole units but for the last, as equal as can be."""
    units = -(-extent // unit)
    count = min(count, units)
    ends = [min(extent, -(-units * (part + 1) // count) * unit) for part in range(count)]
    return tuple(end - start for start, end in zip([0, *ends], ends, strict=False))


def passes(program: TileProgram, machine: Machine) -> I64:
    """How often each instruction, taken as a matmul, goes through the array: by the widest factor it only reads."""
    widest = np.zeros(len(program), np.int64)
    owner = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    factors = program.access == Access.READ
    np.maximum.at(widest, owner[factors], program.element_bytes[factors])
    return np.where(widest > SINGLE_PASS_BYTES, machine.matmul_passes, 1)


def matmul_cost(extent: I64, stationary: U8, machine: Machine, times: I64 | None = None) -> MatmulCost:
    """Costs of matmuls with extents (batch, m, n, k) that go through the array `times`, by default once.

    These are the closed forms of the module's docstring.
    """
    rows, columns = machine.systolic_rows, machine.systolic_columns
    batch, m, n, k = extent[:, 0], extent[:, 1], extent[:, 2], extent[:, 3]
    streamed, across = np.where(stationary == 1, m, n), np.where(stationary == 1, n, m)
    full, rest = k // rows, k % rows
    first = np.minimum(k, rows)
    column_of_tiles = full * np.maximum(streamed, rows) + np.where(rest > 0, np.maximum(streamed, rest), 0)
    groups = batch * -(-across // columns) * (1 if times is None else times)
    switches = groups * -(-k // rows) * machine.weight_switch_cycles
    stream = groups * column_of_tiles - np.maximum(streamed, first) + streamed + switches
    drain = np.full_like(stream, rows + columns - 2)
    return MatmulCost(first, stream, streamed.copy(), drain)


def idle_cycles(cost: MatmulCost) -> I64:
    """What each matmul takes on an idle array, from its first weight's entry to its last result."""
    return cost.preload + cost.stream + cost.drain
