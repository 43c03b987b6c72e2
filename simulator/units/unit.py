"""The description of a kind of hardware unit, which the rest of the simulator reads.

The issue stage reads how many there are and which of them an instruction goes to; starts read the costs of
instructions, statistics and the critical path the names of a span's parts, energy the counts, pictures the names. A
unit of a new kind is a file beside this one that makes such a description; `scripts/write_units.py` gives it a row of
unit_table.py, and numbers to its opcodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.records.spans import Grid
from simulator.tileprogram.program import I64, Opcode, TileProgram

Mask = npt.NDArray[np.bool_]


class Does(NamedTuple):
    """The names of an instruction of one opcode, on its unit."""

    label: str
    stage: str
    """Its step of a loop's iteration: load, compute, store, copy, barrier."""
    parts: tuple[str, ...] = ()
    """The parts of its span: until its `phase`, until its `end`, until it is `done`. None where there is one part."""
    stall: str = ""
    """The name in statistics of its unit's cycles between `phase` and `end`, if it only waits for answers then."""


class Selection(IntEnum):
    """The choice among the units of a kind for an instruction."""

    FEWEST_BEFORE = 0
    """The unit with the least work queued."""
    FREE_FIRST = 1
    """The unit that would be free first, after all its queued work."""
    IN_TURN = 2


class Part(NamedTuple):
    """Some instructions of a launch, and the inputs of their costs."""

    program: TileProgram
    addresses: Sequence[int]
    """Addresses of the launch's arguments."""
    in_rows: Mask
    """Whether each buffer's rows lie along the lanes, see dma.py."""
    machine: Machine
    """The machine, with the core's own figures."""
    grids: Sequence[Grid | None] = ()
    """The rows and columns of the arguments' tensors: `Launched.grids`."""
    ratio: Fraction = Fraction(1)
    """The core's clock as a part of the machine's."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of instructions, an entry each. A column left out is 0; entries of other units are not read."""

    cycles: I64
    """Cycles on the unit: a matmul's stream, a vector pass, a copy at its queue's rate, a loop whose accesses are
    answered at once."""
    waiting: I64 | None = None
    """Cycles more, because answers take time or iterations wait for each other."""
    preload: I64 | None = None
    last: I64 | None = None
    drain: I64 | None = None
    """For a unit that `streams`: see `MatmulCost`."""
    mark: I64 | None = None
    """`MEETS`, `KEEPS` or 0."""
    moved: I64 | None = None
    """Bytes: from or to DRAM, and within the scratchpad those of a copy."""
    read: I64 | None = None
    written: I64 | None = None
    """Bytes from or to DRAM."""
    requested: I64 | None = None
    """Bytes the DRAM moves for it; 0 when it moves none."""


COSTS = tuple(each.name for each in fields(Costs))

MEETS, KEEPS = 1, 2
"""Marks of a BARRIER, and of a matmul that needs no preload if the one it adds to was the last on its array."""


def computed(operations: I64) -> Mapping[str, int]:
    """`Unit.counts` of a unit whose instructions compute, from their operations. (N x 2: ALU, special)"""
    return dict(zip(("alu", "special"), operations.sum(0).tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A kind of unit."""

    name: str
    """The name in tables: `systolic`."""
    lane: str
    """The name of one of them on the timeline: `mxu`."""
    numbered: bool = False
    """Whether its number follows: `mxu0`. A core may have several of what is numbered."""
    does: Mapping[Opcode, Does]
    """Its opcodes."""
    costs: Callable[[Part], Costs]
    how_many: Callable[[Machine], int] = lambda machine: 1
    """Number of them in each core."""
    selection: Callable[[Machine], Selection] = lambda machine: Selection.FEWEST_BEFORE
    streams: bool = False
    """It streams an instruction's rows while the one before drains, may preload even sooner, and takes the instructions
    that continue a sum it holds: units/systolic.py."""
    asks_memory: bool = False
    """Its instructions may access DRAM."""
    own_clock: bool = True
    """Its cycles are those of its core's clock: memory and queues have the machine's."""
    counts: Callable[[TileProgram, Machine, Mask], Mapping[str, int]] = lambda program, machine, done: {}
    """The counts that cost energy, by kind, of the given instructions."""
    energy: Mapping[str, str] = field(default_factory=dict[str, str])
    """The figure of the machine that each kind is counted in, in picojoules."""
    scratchpad_bytes: Callable[[TileProgram, Machine], I64] | None = None
    """Scratchpad bytes that each operand of its instructions reads and writes, where that is not its box once each
    way."""
