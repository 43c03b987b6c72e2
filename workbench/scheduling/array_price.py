"""The arrays' cycles for the tiles of a product: the estimate by which a tiling is chosen."""

from __future__ import annotations

import itertools
import math

from simulator.machine.machine import Machine
from simulator.machine.machine_record import matmul_passes
from simulator.units.systolic import shares
from workbench.mlir.named_dims import Payload


def array_cycles(
    payload: Payload, machine: Machine, tile: dict[str, int], steps: dict[str, int], slots: int
) -> tuple[float, float, float]:
    """Cycles of all steps, of one step, and for its sums to leave.

    Each product of tiles streams through as many passes as its weights take. Several products of one operand have
    chains of their own.
    """
    groups = {letter: [dim for dim, each in payload.kinds.items() if each == letter] for letter in "bmnkw"}
    passes, several = _passes(payload, machine), payload.products
    places = math.prod(tile[dim] for dim in groups["w"])
    total, step = 0, 0
    for pieces in itertools.product(*(_pieces(groups[letter], tile, payload.dims) for letter in "bmnk")):
        count = math.prod(often for often, _ in pieces)
        cycles = places * _product_cycles(machine, passes, *(size for _, size in pieces))
        total, step = total + count * cycles, max(step, cycles)
    batch, rows, columns, depth = (math.prod(tile[dim] for dim in groups[letter]) for letter in "bmnk")
    fill = min(depth, machine.array.rows) + min(columns, machine.array.columns)
    free = max(1, machine.array.count // len(shares(batch, rows, columns, machine)[1]))
    chains = several * math.prod(steps[dim] for dim in payload.dims if dim not in payload.reduced)
    chain = math.prod(steps[dim] for dim in payload.reduced if dim in steps) * places
    # The next chain begins when all of this one wait at their array, and where a place for its sums is free.
    ahead = chain / max(chain - machine.core.queue_depth, 1) if chain > machine.core.queue_depth else chains
    rounds = math.prod(steps[dim] for dim in groups["w"])
    at_once = min(free, chains, several * slots, max(ahead, 1.0))
    return several * total * rounds / at_once, math.ceil(several / min(free, several)) * step, fill


def _pieces(dims: list[str], tile: dict[str, int], extents: dict[str, int]) -> list[tuple[int, int]]:
    """The number and size of the tiles that some dims are cut into: whole ones, and along one dim the remainder."""
    if len(dims) != 1:
        return [(math.prod(-(-extents[dim] // tile[dim]) for dim in dims), math.prod(tile[dim] for dim in dims))]
    extent, size = extents[dims[0]], tile[dims[0]]
    return [(often, piece) for often, piece in ((extent // size, size), (1, extent % size)) if often and piece]


def _product_cycles(machine: Machine, products: int, batch: int, rows: int, columns: int, depth: int) -> int:
    """The stream, by systolic.py's formulas, of the array with the largest share of a product of tiles."""
    group, parts = shares(batch, rows, columns, machine)
    batch, rows, columns = (parts[0] if place == group else each for place, each in enumerate((batch, rows, columns)))
    sums_stay = machine.array.dataflow == "output_stationary"
    high, streamed = (rows, depth * products) if sums_stay else (depth, rows)
    times = batch * math.ceil(columns / machine.array.columns) * (1 if sums_stay else products)
    passes, one_set = math.ceil(high / machine.array.rows), machine.array.preload_depth == 1
    height = min(high, machine.array.rows)
    fill = height + min(columns, machine.array.columns)
    each = height + streamed + fill if one_set else max(streamed, height)
    return times * passes * (each + (0 if sums_stay else machine.array.weight_switch_cycles))


def _passes(payload: Payload, machine: Machine) -> int:
    """How often each product of the kernel's factors goes through the array."""
    assert payload.contraction is not None
    factors = [access.element_bytes for access in payload.contraction.accesses if not access.is_output]
    return matmul_passes(machine, max(factors))
