"""The prices of all tilings of one core's work. Terms that several tilings share are computed once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from simulator.machine.machine import Machine
from simulator.machine.machine_record import matmul_passes
from simulator.units import systolic
from workbench.mlir.named_dims import Payload
from workbench.scheduling.loop_order import inside_reduced
from workbench.scheduling.scratchpad_demand import touched
from workbench.scheduling.tiling_price import Price, Transfers
from workbench.scheduling.vector_price import Passes, tile_cycles


class CorePrice:
    """Prices tilings of one core's share of a kernel, while `cores` cores work at the same time."""

    def __init__(self, payload: Payload, machine: Machine, cores: int) -> None:
        self.payload, self._machine = payload, machine
        self._transfers = Transfers(payload, machine, cores)
        self._passes = None if payload.contraction is None else Passes(payload, machine)
        self._touched = (
            touched(payload, payload.dims) if self._passes is not None else None
        )  # the same for all tiles of a product
        self._arrays: dict[tuple[int, ...], tuple[float, float, float]] = {}
        self._steps: dict[tuple[int, ...], float] = {}

    def of(self, tile: dict[str, int], order: Sequence[str], slots: int) -> Price:
        """The price of a tiling whose buffers have `slots` slots."""
        payload = self.payload
        steps = {dim: math.ceil(extent / tile[dim]) for dim, extent in payload.dims.items()}
        together = inside_reduced(payload, tile, order)
        tiles = math.prod(steps[dim] for dim in payload.parallel if dim not in together)
        accesses = self._touched or touched(payload, tile)
        moved = self._transfers.traffic(accesses, tile, order)
        latency, every = float(self._machine.dram_latency_cycles), math.prod(steps.values())
        if self._passes is None:
            step = self._vector(tile)
            busy = step * math.prod(extent / tile[dim] for dim, extent in payload.dims.items())
            return Price(moved, 0.0, busy, step, step * every / tiles, step, tiles, every, slots, latency)
        before, after = self._passes.before(steps), self._passes.after(tile)
        arrays, product, fill = self._product(tile, steps, slots)
        step = product + before / every + self._passes.first_before
        work = step + fill + after / tiles + self._passes.first_after
        chain = work + (every // tiles - 1) * step
        if payload.rows or payload.prologue:  # the unit's queue has a tile's passes before the next tile's
            arrays = max(arrays, (tiles - 1) * chain)
        return Price(moved, arrays, before + after, work, chain, step, tiles, every, slots, latency)

    def _vector(self, tile: dict[str, int]) -> float:
        """The vector unit's cycles for a tile of a kernel without a product."""
        key = tuple(tile.values())
        if key not in self._steps:
            self._steps[key] = tile_cycles(self.payload, self._machine, tile)
        return self._steps[key]

    def _product(self, tile: dict[str, int], steps: dict[str, int], slots: int) -> tuple[float, float, float]:
        key = (*tile.values(), slots)
        if key not in self._arrays:
            self._arrays[key] = _array_cycles(self.payload, self._machine, tile, steps, slots)
        return self._arrays[key]


def _array_cycles(
    payload: Payload, machine: Machine, tile: dict[str, int], steps: dict[str, int], slots: int
) -> tuple[float, float, float]:
    """The arrays' cycles for a product: of all steps, of one step, and until the last sums have left the array.

    Each product of tiles streams through the array once for each pass that its weights take. Each of several products
    of one operand has its own chain.
    """
    groups = {letter: [dim for dim, each in payload.kinds.items() if each == letter] for letter in "bmnkw"}
    times, several = matmul_passes(machine, payload.factor_bytes), payload.products
    places = math.prod(tile[dim] for dim in groups["w"])
    total, step = 0, 0
    for pieces in itertools.product(*(_pieces(groups[letter], tile, payload.dims) for letter in "bmnk")):
        count = math.prod(often for often, _ in pieces)
        batch, rows, columns, depth = (size for _, size in pieces)
        cycles = places * systolic.estimate(batch, rows, columns, depth, machine, times)
        total, step = total + count * cycles, max(step, cycles)
    batch, rows, columns, depth = (math.prod(tile[dim] for dim in groups[letter]) for letter in "bmnk")
    fill = min(depth, machine.array.rows) + min(columns, machine.array.columns)
    free = max(1, machine.array.count // len(systolic.shares(batch, rows, columns, machine)[1]))
    chains = several * math.prod(steps[dim] for dim in payload.dims if dim not in payload.reduced)
    chain = math.prod(steps[dim] for dim in payload.reduced if dim in steps) * places
    # The next chain begins when all instructions of this chain wait at their array, if a slot for its sums is free.
    ahead = chain / max(chain - machine.core.queue_depth, 1) if chain > machine.core.queue_depth else chains
    rounds = math.prod(steps[dim] for dim in groups["w"])
    at_once = min(free, chains, several * slots, max(ahead, 1.0))
    return several * total * rounds / at_once, math.ceil(several / min(free, several)) * step, fill


def _pieces(dims: list[str], tile: dict[str, int], extents: dict[str, int]) -> list[tuple[int, int]]:
    """(number, size) of the tiles that these dims are cut into: of the whole tiles and, for one dim, the remainder."""
    if len(dims) != 1:
        return [(math.prod(-(-extents[dim] // tile[dim]) for dim in dims), math.prod(tile[dim] for dim in dims))]
    extent, size = extents[dims[0]], tile[dims[0]]
    return [(often, piece) for often, piece in ((extent // size, size), (1, extent % size)) if often and piece]
