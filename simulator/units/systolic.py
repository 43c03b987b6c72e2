"""Systolic arrays: the cost of one matmul instruction.

**Weight-stationary.** One operand, the stationary one, is cut into tiles of at most rows x columns; each is held in the
array while the other operand streams through it, one row a cycle. With R x C the array, a tile of k rows of weights and
S streamed rows:

    preload    k cycles: a row of weights a cycle. With a preload depth of 2 the array holds two sets of weights, so a
               preload runs while the set before is in use, but not earlier: only one set can wait. With a depth of 1 it
               begins when the last result of the tile before is out
    switch     `weight_switch_cycles`, in which no row enters: a preloaded set takes the place of the set before
    stream     S cycles
    fill       r + c - 1 cycles from a row's entry to its last result, if the matmul's tiles take r of the R rows and
               c of the C columns: a tile lies where rows enter and sums leave, so nothing passes the rest of the array.
               The first row takes all of these cycles, each further row comes one cycle later

    one tile on an idle array       k + switch + (S - 1) + (r + c - 1)                              cycles
    a further tile, depth 2         switch + max(S, its k)              more: its preload is hidden behind the stream
    a further tile, depth 1         its k + switch + (S - 1) + (r + c - 1)                          more
    a matmul of T tiles, depth 2    k_1 + T * switch + sum over t = 2..T of max(S, k_t) + (S - 1) + (r + c - 1)

A matmul of (batch, m, n, k) with the right operand stationary streams its m rows through ceil(k/R) x ceil(n/C) tiles
a batch; with the left operand stationary it streams n columns through ceil(k/R) x ceil(m/C). Partial sums along k stay
in the accumulators below the array, so neither the tiles of one matmul nor the matmuls of one K chain drain in between.

**Output-stationary.** Sums stay in the array: a tile of the result, r rows of at most R and c columns of at most C, is
made while k columns of the left operand and k rows of the right one stream past each other, one of each a cycle. Then
its sums move out, a row a cycle. With a depth of 2 they do so while the next tile is made, for which the array is held
as long:

    one tile on an idle array       (k - 1) + (r + c - 1) + r                                       cycles
    a further tile, depth 2         max(k, the r before it)             more
    a further tile, depth 1         (k - 1) + (r + c - 1) + its r       more

There are ceil(m/R) x ceil(n/C) tiles a batch. A matmul of one tile that continues the one before it on its array, in
one K chain, takes k cycles, and nothing drains in between. Other matmuls that add to sums which have left the array
take r cycles to move the sums in again, hidden as a preload of weights is.

With a precision of several passes, a matmul goes through all tiles that many times (where sums stay, streams k that
many times); with factors of 16 bits or fewer only once, since one product has all their digits. Factors of 64 bits are
split into halves of 32, so their products take four times the passes of 32 bits in full precision (`assumed`: no
published array multiplies them).

An instruction is the work of one array. With several arrays, each takes a share of a product (`shares`): of its
batches, its columns in whole tiles, or its rows. The division is taken whose largest share has the fewest cycles; of
equals, the first, on the fewest arrays. Where sums stay, rows are shared in whole tiles; where weights stay, every
array preloads the same weights, so sharing rows pays only for products with more rows than a preload takes cycles. Sums
along k are never shared: they would end in two accumulators.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.machine.machine_record import matmul_passes
from simulator.tileprogram.program import I64, U8, Access, DependenceKind, Opcode, TileProgram
from simulator.units.gather import elements
from simulator.units.unit import KEEPS, Costs, Does, Mask, Part, Selection, Unit


@dataclass(frozen=True, slots=True)
class MatmulCost:
    """The costs of matmuls in cycles, one entry per instruction."""

    preload: I64
    """Cycles of the preload of the first tile's weights or sums: hidden while the array still streams another tile."""
    stream: I64
    """Cycles from the first tile's first row until the array takes another instruction's rows."""
    last: I64
    """Cycles before the end of `stream` from which the next instruction may preload, since only the last tile is in
    use. Negative if it may preload only that long after the end."""
    drain: I64
    """Cycles from the end of `stream` until the last result is complete."""
    keeps: npt.NDArray[np.bool_]
    """True if the matmul needs no preload directly after the matmul to whose sums it adds."""


def shares(batch: int, m: int, n: int, machine: Machine) -> tuple[int, tuple[int, ...]]:
    """Divides a product whose right operand is stationary among the arrays.

    Returns the divided dim, a place in (batch, m, n), and its parts; a single part, the whole batch, if sharing would
    gain nothing.
    """
    rows, columns = machine.array.rows, machine.array.columns
    sums_stay = machine.array.dataflow == "output_stationary"

    def longest(group: int, part: int) -> int:
        """Cycles per pass of a share of `part` along dim `group`, for a k of one array height.

        k and the passes are left out, since all matmuls of a K chain must be shared alike and may differ in these.
        """
        b, r, c = (part if group == each else whole for each, whole in enumerate((batch, m, n)))
        return b * -(-c // columns) * (-(-r // rows) * rows if sums_stay else max(r, rows))

    found = 0, (batch,)
    least = longest(0, batch)
    for group, extent, unit in ((0, batch, 1), (2, n, columns), (1, m, rows if sums_stay else 1)):
        units, count = -(-extent // unit), 2
        while count <= min(machine.array.count, units):
            most = -(-units // count)
            cycles = longest(group, min(extent, most * unit))
            if cycles < least:
                found, least = (group, _parts(extent, count, unit)), cycles
            count = -(-units // (most - 1)) if most > 1 else units + 1  # the next whose largest part is smaller
    return found


def estimate(batch: int, m: int, n: int, k: int, machine: Machine, times: int = 1) -> int:
    """Estimates the stream of the array with the largest share of a product, before there is an instruction.

    The right operand is stationary, factors go through the array `times` times, and short tiles count as full ones.
    """
    array = machine.array
    group, parts = shares(batch, m, n, machine)
    batch, m, n = (parts[0] if place == group else each for place, each in enumerate((batch, m, n)))
    sums_stay = array.dataflow == "output_stationary"
    high, streamed = (m, k * times) if sums_stay else (k, m)
    tiles = batch * math.ceil(n / array.columns) * math.ceil(high / array.rows) * (1 if sums_stay else times)
    height = min(high, array.rows)
    alone = height + streamed + height + min(n, array.columns)
    each = alone if array.preload_depth == 1 else max(streamed, height)
    return tiles * (each + (0 if sums_stay else array.weight_switch_cycles))


def _parts(extent: int, count: int, unit: int) -> tuple[int, ...]:
    """Divides an extent into at most `count` parts, as equal as possible; all but the last are multiples of `unit`."""
    units = -(-extent // unit)
    count = min(count, units)
    ends = [min(extent, -(-units * (part + 1) // count) * unit) for part in range(count)]
    return tuple(end - start for start, end in zip([0, *ends], ends, strict=False))


def passes(program: TileProgram, machine: Machine) -> I64:
    """Passes of each instruction, as a matmul, through the array: by its widest operand that is only read."""
    widest = np.zeros(len(program), np.int64)
    owner = program.owners()
    factors = program.access == Access.READ
    np.maximum.at(widest, owner[factors], program.element_bytes[factors])
    known = np.unique(widest)
    return np.array([matmul_passes(machine, each) for each in known.tolist()], np.int64)[np.searchsorted(known, widest)]


def matmul_cost(
    extent: I64, stationary: U8, machine: Machine, times: I64 | None = None, accumulates: U8 | None = None
) -> MatmulCost:
    """Costs of matmuls with extents (batch, m, n, k) that go through the array `times` times, by default once.

    They follow the closed forms of the module's docstring.
    """
    times = np.ones(len(extent), np.int64) if times is None else times
    if machine.array.dataflow == "output_stationary":
        adds = np.zeros(len(extent), np.bool_) if accumulates is None else accumulates == 1
        return _output_stationary(extent, machine, times, adds)
    rows, columns = machine.array.rows, machine.array.columns
    batch, m, n, k = extent[:, 0], extent[:, 1], extent[:, 2], extent[:, 3]
    streamed, across = np.where(stationary == 1, m, n), np.where(stationary == 1, n, m)
    full, rest = k // rows, k % rows
    first = np.minimum(k, rows)
    groups = batch * -(-across // columns) * times
    drain = first + np.minimum(across, columns) - 2
    keeps = np.zeros(len(extent), np.bool_)
    switches = groups * -(-k // rows) * machine.array.weight_switch_cycles
    if machine.array.preload_depth == 1:
        stream = groups * (k + -(-k // rows) * (streamed + drain)) - first - drain + switches
        return MatmulCost(first, stream, -drain, drain, keeps)
    column_of_tiles = full * np.maximum(streamed, rows) + np.where(rest > 0, np.maximum(streamed, rest), 0)
    stream = groups * column_of_tiles - np.maximum(streamed, first) + streamed + switches
    return MatmulCost(first, stream, streamed.copy(), drain, keeps)


def _output_stationary(extent: I64, machine: Machine, times: I64, adds: npt.NDArray[np.bool_]) -> MatmulCost:
    rows, columns = machine.array.rows, machine.array.columns
    batch, m, n, k = extent[:, 0], extent[:, 1], extent[:, 2], extent[:, 3] * times
    full, rest = m // rows, m % rows
    groups = batch * -(-n // columns)
    keeps = adds & (groups == 1) & (m <= rows)
    last, fill = np.where(rest > 0, rest, rows), np.minimum(m, rows) + np.minimum(n, columns) - 2
    preload = np.where(adds, np.minimum(m, rows), 0)
    if machine.array.preload_depth == 1:
        back = np.where(adds, groups * m, 0) - preload
        stream = groups * (m + -(-m // rows) * (k + fill)) + back - fill - last
        return MatmulCost(preload, stream, -(fill + last), fill + last, keeps)
    made = np.where(keeps, k, np.maximum(k, last))
    stream = groups * (full * np.maximum(k, rows) + np.where(rest > 0, np.maximum(k, rest), 0))
    stream = np.where(keeps, k, stream)
    return MatmulCost(preload, stream, made, k + fill + last - made, keeps)


def _costs(part: Part) -> Costs:
    program, machine = part.program, part.machine
    cost = matmul_cost(program.extent, program.stationary, machine, passes(program, machine), program.accumulates)
    return Costs(
        cost.stream, preload=cost.preload, last=cost.last, drain=cost.drain, mark=np.where(cost.keeps, KEEPS, 0)
    )


def _counts(program: TileProgram, machine: Machine, done: Mask) -> Mapping[str, int]:
    """The number of products, each counted once per pass through the array."""
    macs = program.extent.prod(1) * passes(program, machine)
    return {"mac": int(macs[(program.opcode == Opcode.MATMUL) & done].sum())}


def _scratchpad_bytes(program: TileProgram, machine: Machine) -> I64:
    """Scratchpad bytes that each operand of matmuls reads and writes.

    Per pass, the stationary factor is read once, the other factor once for each tile that it streams past; where sums
    stay, this holds for both factors. Accumulators count only when sums enter or leave the array."""
    owner = program.owners()
    place = np.arange(len(owner)) - program.operand_start[owner]
    box = elements(program) * program.element_bytes
    extent, stationary = program.extent[owner], program.stationary[owner]
    tiles = -(-extent[:, 1] // machine.array.columns), -(-extent[:, 2] // machine.array.columns)
    past = np.where(place == stationary, 1, np.where(stationary == 1, tiles[1], tiles[0]))
    if machine.array.dataflow == "output_stationary":
        past = np.where(place == 0, tiles[1], -(-extent[:, 1] // machine.array.rows))
    reads, writes = _accumulators(program, machine)
    return box * np.where(place < 2, passes(program, machine)[owner] * past, reads[owner] + writes[owner])


def _accumulators(program: TileProgram, machine: Machine) -> tuple[I64, I64]:
    """For each instruction, 1 if it is a product that reads its accumulator in the scratchpad; 1 if it writes it
    there."""
    products, chain = program.opcode == Opcode.MATMUL, chains(program, machine)
    reads = products & (program.accumulates == 1) & (chain < 0)
    products[chain[chain >= 0]] = False
    return reads.astype(np.int64), products.astype(np.int64)


def chains(program: TileProgram, machine: Machine) -> I64:
    """For each matmul, the matmul to whose sums it adds while they lie beside the array; -1 for none."""
    chain = np.full(len(program), -1, np.int64)
    if machine.array.accumulator_residence == "array":
        owner = np.repeat(np.arange(len(program)), np.diff(program.dependence_start))
        links = program.dependence_kind == DependenceKind.ACCUMULATE
        chain[owner[links]] = program.dependence[links]
    return chain


UNIT = Unit(
    name="systolic",
    lane="mxu",
    numbered=True,
    does={Opcode.MATMUL: Does("matmul", "compute", ("preload", "stream", "drain"))},
    costs=_costs,
    how_many=lambda machine: machine.array.count,
    selection=lambda machine: Selection.IN_TURN if machine.array.selection == "in_turn" else Selection.FREE_FIRST,
    streams=True,
    counts=_counts,
    energy={"mac": "mac_pj"},
    scratchpad_bytes=_scratchpad_bytes,
)
