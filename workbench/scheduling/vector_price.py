"""Computes the cost of a kernel's vector passes before it is scheduled, by the simulator's formulas: on one tile, and
around a product.

Each op is one pass over the tile. Operands are assumed in the layout that `extraction/lane_layout.py` will find: a tile
from DRAM has its axis with the smallest stride in DRAM along the lanes, any other tile has its operands' layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from simulator.machine.machine import Machine
from simulator.tileprogram.program import Access as Touch
from simulator.tileprogram.program import Instruction, Opcode, Operand, OpInfo, Space
from simulator.tileprogram.program_builder import ProgramBuilder
from simulator.units import vector
from workbench.mlir.named_dims import Access, Payload, PayloadOp


def tile_cycles(payload: Payload, machine: Machine, tile: Mapping[str, int]) -> float:
    """Cycles of all passes over a tile, one after the other. Windows are walked one place at a time."""
    builder, lanes, often, made = ProgramBuilder("tile"), dict[str, str](), list[int](), payload.made
    for op in payload.ops:
        if op.role != "contraction":
            _lay(op, tile, made, lanes)
            _add(builder, op, [dim for dim in op.loops if tile[dim] > 1 and dim not in payload.windows], tile, lanes)
            often.append(math.prod(tile[dim] for dim in op.loops if dim in payload.windows))
    program = vector.best_lanes(builder.build(), machine)
    return float(np.dot(vector.vector_cycles(program, machine), often))


def _lay(op: PayloadOp, tile: Mapping[str, int], made: frozenset[str], lanes: dict[str, str]) -> None:
    """Enters the dim along the lanes into `lanes` for each operand of an op whose layout is known."""
    for access in op.accesses:
        if access.value not in made and access.value not in lanes:
            lanes[access.value] = _closest(access, access.nearest, tile)
    known = [access for access in op.accesses if lanes.get(access.value) in op.loops]
    if known:
        widest = max(known, key=lambda access: len(access.axes))
        for access in op.accesses:
            if lanes[widest.value] in access.dims:
                lanes.setdefault(access.value, lanes[widest.value])


def _closest(access: Access, nearest: Iterable[int], tile: Mapping[str, int]) -> str:
    """The first dim in the order `nearest` along which the tile has more than one element; '' if none."""
    return next((dim for axis in nearest for dim, _ in access.axes[axis] if tile[dim] > 1), "")


def _add(
    builder: ProgramBuilder, op: PayloadOp, loops: list[str], tile: Mapping[str, int], lanes: Mapping[str, str]
) -> None:
    operands = list[Operand]()
    for access in op.accesses:
        shape = tuple(extent for extent in access.extents(tile) if extent > 1)
        how = Touch.WRITE if access.is_output else Touch.READ
        operands.append(Operand(Space.SCRATCHPAD, 0, 0, 0, shape, (0,) * len(shape), access.element_bytes, how))
    walks = tuple(sum(1 << loops.index(dim) for dim in access.dims if dim in loops) for access in op.accesses)
    in_tile = [reversed(range(len(access.axes))) for access in op.accesses]  # the layout if no pass has set another
    along = [
        lanes.get(access.value, _closest(access, axes, tile)) for access, axes in zip(op.accesses, in_tile, strict=True)
    ]
    contiguous = tuple(loops.index(dim) if dim in loops else -1 for dim in along)
    builder.ops.append(OpInfo("pass", 0, (), op.operations, 0, walks, contiguous, wide_counts=op.wide))
    reduction = sum(1 << loops.index(dim) for dim in op.reduced if dim in loops)
    extent = tuple(tile[dim] for dim in loops)
    builder.add(Instruction(Opcode.VECTOR, len(builder.ops) - 1, (), tuple(operands), extent, reduction=reduction))


class Passes:
    """The cost of the passes of a payload with a product, for all its tilings.

    With reductions of rows, whose layout along the lanes depends on the tile, the passes on the result cost what the
    simulator's formulas say. All other passes cost one vector after the other.
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
        """Cycles of the passes that make operands: once per tile of the other operand, or once if theirs is whole."""
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
    """The cycles of vector passes, one vector after the other, and the extra cycles of each step's first vector."""
    found = [
        vector.estimate(
            math.prod(payload.dims[dim] for dim in op.loops),
            np.array(op.operations),
            np.array(op.wide),
            max((access.element_bytes for access in op.accesses), default=4),
            machine,
        )
        for op in ops
    ]
    return sum(cycles for cycles, _ in found), sum(first for _, first in found)
