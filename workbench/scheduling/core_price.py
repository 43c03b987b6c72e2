"""The prices of all tilings of one core's work. What tilings have in common is reckoned once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simulator.machine.machine import Machine
from workbench.mlir.named_dims import Payload
from workbench.scheduling.array_price import array_cycles
from workbench.scheduling.loop_order import inside_reduced
from workbench.scheduling.product_passes import Passes
from workbench.scheduling.scratchpad_demand import touched
from workbench.scheduling.tiling_price import Price, Transfers
from workbench.scheduling.vector_price import tile_cycles


class CorePrice:
    """Prices a core's share of a kernel, where so many cores work on theirs."""

    def __init__(self, payload: Payload, machine: Machine, cores: int) -> None:
        self.payload, self._machine = payload, machine
        self._transfers = Transfers(payload, machine, cores)
        self._passes = None if payload.contraction is None else Passes(payload, machine)
        self._touched = (
            touched(payload, payload.dims) if self._passes is not None else None
        )  # the same for all its tiles
        self._arrays: dict[tuple[int, ...], tuple[float, float, float]] = {}
        self._steps: dict[tuple[int, ...], float] = {}

    def of(self, tile: dict[str, int], order: Sequence[str], slots: int) -> Price:
        """The price of a tiling with so many slots."""
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
        arrays, product, fill = self._array_cycles(tile, steps, slots)
        step = product + before / every + self._passes.first_before
        work = step + fill + after / tiles + self._passes.first_after
        chain = work + (every // tiles - 1) * step
        if payload.rows or payload.prologue:  # a tile's passes are before those of the next in the unit's queue
            arrays = max(arrays, (tiles - 1) * chain)
        return Price(moved, arrays, before + after, work, chain, step, tiles, every, slots, latency)

    def _vector(self, tile: dict[str, int]) -> float:
        """The work on a tile without a product."""
        key = tuple(tile.values())
        if key not in self._steps:
            self._steps[key] = tile_cycles(self.payload, self._machine, tile)
        return self._steps[key]

    def _array_cycles(self, tile: dict[str, int], steps: dict[str, int], slots: int) -> tuple[float, float, float]:
        key = (*tile.values(), slots)
        if key not in self._arrays:
            self._arrays[key] = array_cycles(self.payload, self._machine, tile, steps, slots)
        return self._arrays[key]
