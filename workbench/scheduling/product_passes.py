"""Cycles of the vector passes around a product: those that make its operands, and those on its result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from simulator.machine.machine import Machine
from simulator.units.vector import words
from workbench.mlir.named_dims import Payload, PayloadOp
from workbench.scheduling.vector_price import tile_cycles


class Passes:
    """The passes of a payload with a product, for all its tilings.

    Reductions of rows, of which tiles decide how they lie along the lanes, cost what the simulator's formulas say. All
    other passes are reckoned as one vector after the other.
    """

    def __init__(self, payload: Payload, machine: Machine) -> None:
        product = payload.contraction
        assert product is not None
        made = {op.id for op in payload.prologue}
        after = tuple(op for op in payload.ops if op.id not in made and op is not product)
        costs = {op.id: _vector_cycles([op], payload, machine) for op in payload.prologue}
        self._payload, self._machine = payload, machine
        self._before = [(costs[op.id][0], op.loops, {*product.loops} - {*op.loops}) for op in payload.prologue]
        self._after, self.first_after = _vector_cycles(after, payload, machine)
        self.first_before = sum(first for _, first in costs.values())
        """The extra cycles of each step's first vector."""
        self._rows: dict[tuple[int, ...], float] = {}

    def before(self, steps: Mapping[str, int]) -> float:
        """Cycles of the passes that make operands: again for each tile of the other one, unless theirs is whole."""
        return sum(
            cycles * (math.prod(steps[dim] for dim in others) if any(steps[dim] > 1 for dim in own) else 1)
            for cycles, own, others in self._before
        )

    def after(self, tile: Mapping[str, int]) -> float:
        """Cycles of the passes on the result."""
        if not self._payload.rows:
            return self._after
        dims = {dim: self._payload.dims[dim] for dim in self._payload.parallel}
        key = tuple(tile[dim] for dim in dims)
        if key not in self._rows:
            made = {op.id for op in self._payload.prologue}
            ops = tuple(op for op in self._payload.ops if op.id not in made)
            count = math.prod(extent / tile[dim] for dim, extent in dims.items())
            self._rows[key] = count * tile_cycles(replace(self._payload, ops=ops), self._machine, tile)
        return self._rows[key]


def _vector_cycles(ops: Iterable[PayloadOp], payload: Payload, machine: Machine) -> tuple[float, float]:
    """Cycles of vector passes, a vector after the other; and the extra cycles of each step's first one.

    See `simulator.units.vector`.
    """
    passes, chain = 0.0, 0.0
    for op in ops:
        widest = min(max((access.element_bytes for access in op.accesses), default=4), 4)
        vectors = math.prod(payload.dims[dim] for dim in op.loops) / machine.vector_elements(widest)
        simple, special = (int(each[0]) for each in words(np.array([op.operations]), np.array([op.wide])))
        slots = max(simple / machine.vector.alus, special * machine.vector.special_interval_cycles, 1.0)
        passes += vectors * slots
        chain += simple * machine.vector.alu_latency_cycles + special * machine.vector.special_latency_cycles
    return passes, chain
