"""The cost of a kernel's vector passes on one tile, before it is scheduled: by the simulator's own formulas.

Each op is one pass over the tile. Its operands lie in the scratchpad as `extraction/lane_layout.py` will find: a tile
from DRAM has along the lanes the axis whose neighbours lie closest there, any other tile lies like its operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from simulator.machine.machine import Machine
from simulator.tileprogram.program import Access as Touch
from simulator.tileprogram.program import Instruction, Opcode, Operand, OpInfo, Space
from simulator.tileprogram.program_builder import ProgramBuilder
from simulator.units import vector
from workbench.mlir.named_dims import Access, Payload, PayloadOp


def tile_cycles(payload: Payload, machine: Machine, tile: Mapping[str, int]) -> float:
    """Cycles of all passes over a tile, one after the other. Windows are walked one place at a time."""
    builder, lanes, often = ProgramBuilder("tile"), dict[str, str](), list[int]()
    made = {access.value for op in payload.ops for access in op.accesses if access.is_output}
    for op in payload.ops:
        if op.role != "contraction":
            _lay(op, tile, made, lanes)
            _add(builder, op, [dim for dim in op.loops if tile[dim] > 1 and dim not in payload.windows], tile, lanes)
            often.append(math.prod(tile[dim] for dim in op.loops if dim in payload.windows))
    program = vector.best_lanes(builder.build(), machine)
    return float(np.dot(vector.vector_cycles(program, machine), often))


def _lay(op: PayloadOp, tile: Mapping[str, int], made: set[str], lanes: dict[str, str]) -> None:
    """Sets the dim along the lanes for each operand that an op moves along one."""
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
    """The dim along which neighbours lie closest, of those the tile has more than one element along."""
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
    in_tile = [reversed(range(len(access.axes))) for access in op.accesses]  # unless another pass has laid it otherwise
    along = [
        lanes.get(access.value, _closest(access, axes, tile)) for access, axes in zip(op.accesses, in_tile, strict=True)
    ]
    contiguous = tuple(loops.index(dim) if dim in loops else -1 for dim in along)
    builder.ops.append(OpInfo("pass", 0, (), op.operations, 0, walks, contiguous, wide_counts=op.wide))
    reduction = sum(1 << loops.index(dim) for dim in op.reduced if dim in loops)
    extent = tuple(tile[dim] for dim in loops)
    builder.add(Instruction(Opcode.VECTOR, len(builder.ops) - 1, (), tuple(operands), extent, reduction=reduction))
