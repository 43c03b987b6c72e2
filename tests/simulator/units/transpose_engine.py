"""A unit for tests: an engine that turns tiles. It is no part of the simulator; test_new_unit.py adds it to a copy.

A row of a tile goes in each `transpose_cycles_per_vector`, as many lanes wide as the machine; the first column comes
out when the last row is in, so that as many cycles as there are rows pass in which the engine only waits. It has a
place at the memory, though none of these tests asks it for anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator.machine.machine import Machine
from simulator.tileprogram.program import I64, Opcode, TileProgram
from simulator.units.unit import Costs, Does, Mask, Part, Unit


def _rows(program: TileProgram, machine: Machine) -> I64:
    return program.extent[:, 0] * -(-program.extent[:, 1] // machine.vector.lanes)


def _costs(part: Part) -> Costs:
    rows = _rows(part.program, part.machine)
    return Costs(rows * part.machine.vector.transpose_cycles_per_vector, waiting=rows)


def _counts(program: TileProgram, machine: Machine, done: Mask) -> Mapping[str, int]:
    mine: Mask = np.isin(program.opcode, list(UNIT.does)) & done
    return {"turned": int(program.extent.prod(1)[mine].sum())}


def _engines(machine: Machine) -> int:
    return 2


UNIT = Unit(
    name="transpose",
    lane="turn",
    numbered=True,
    does={Opcode["TRANSPOSE"]: Does("transpose", "compute", ("rows", "columns"), "turning")},
    costs=_costs,
    how_many=_engines,
    asks_memory=True,
    counts=_counts,
    energy={"turned": "vector_op_pj"},
)
