"""`Unit`: the description of a kind of hardware unit, which the rest of the simulator reads.

The issue stage reads the number of units and the choice among them; starts read the costs of instructions; statistics
and the critical path read the names of a span's parts; energy reads the counts; pictures read the names. For a new kind
of unit, add a file with such a description beside this one; `scripts/write_units.py` adds its row to unit_table.py and
numbers its opcodes.
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
    """The names of an instruction of one opcode in tables and pictures."""

    label: str
    stage: str
    """The instruction's step in a loop's iteration: load, compute, store, copy, barrier."""
    parts: tuple[str, ...] = ()
    """The names of the parts of its span: until `phase`, until `end`, until `done`. Empty if the span is one part."""
    stall: str = ""
    """The name in statistics of the cycles between `phase` and `end`, if the unit only waits for answers then."""


class Selection(IntEnum):
    """The rule by which an instruction's unit is chosen among the units of its kind."""

    FEWEST_BEFORE = 0
    """The unit with the least work queued."""
    FREE_FIRST = 1
    """The unit that would be free first, after all its queued work."""
    IN_TURN = 2


class Part(NamedTuple):
    """Some instructions of a launch, and the inputs for computing their costs."""

    program: TileProgram
    addresses: Sequence[int]
    """Addresses of the launch's arguments."""
    in_rows: Mask
    """For each buffer, True if its rows lie along the lanes: see dma.py."""
    machine: Machine
    """The machine, with the core's own figures."""
    grids: Sequence[Grid | None] = ()
    """The rows and columns of the arguments' tensors: `Launched.grids`."""
    ratio: Fraction = Fraction(1)
    """The core's clock as a part of the machine's."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of instructions, one entry per instruction. None stands for zeros; entries of other units are not
    read."""

    cycles: I64
    """Cycles on the unit: a matmul's stream, a vector pass, a copy at its queue's rate, a loop whose accesses are
    answered at once."""
    waiting: I64 | None = None
    """Further cycles, because answers take time or iterations wait for each other."""
    preload: I64 | None = None
    last: I64 | None = None
    drain: I64 | None = None
    """`preload`, `last` and `drain` are for a unit that `streams`: see `MatmulCost`."""
    mark: I64 | None = None
    """`MEETS`, `KEEPS` or 0."""
    moved: I64 | None = None
    """Bytes that the instruction moves from or to DRAM, or copies within the scratchpad."""
    read: I64 | None = None
    written: I64 | None = None
    """`read` are bytes from DRAM, `written` bytes to DRAM."""
    requested: I64 | None = None
    """Bytes that the DRAM moves for the instruction, in whole requests; 0 if it moves none."""


COSTS = tuple(each.name for each in fields(Costs))

MEETS, KEEPS = 1, 2
"""Marks: `MEETS` of a BARRIER; `KEEPS` of a matmul that needs no preload directly after the matmul to which it adds."""


def computed(operations: I64) -> Mapping[str, int]:
    """The result of `Unit.counts` for a unit whose instructions compute, from their operations. (N x 2: ALU,
    special)"""
    return dict(zip(("alu", "special"), operations.sum(0).tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A kind of hardware unit."""

    name: str
    """The kind's name in tables: `systolic`."""
    lane: str
    """The name of a unit of this kind on the timeline: `mxu`."""
    numbered: bool = False
    """True if the unit's number follows its name: `mxu0`. A core may have several units of a numbered kind."""
    does: Mapping[Opcode, Does]
    """Opcode -> the names of its instructions, for each opcode that this kind of unit runs."""
    costs: Callable[[Part], Costs]
    how_many: Callable[[Machine], int] = lambda machine: 1
    """Returns the number of units of this kind in each core."""
    selection: Callable[[Machine], Selection] = lambda machine: Selection.FEWEST_BEFORE
    streams: bool = False
    """True if a unit streams an instruction's rows while the one before drains, may preload even sooner, and takes the
    instructions that continue a sum which it holds: units/systolic.py."""
    asks_memory: bool = False
    """True if its instructions may access DRAM."""
    own_clock: bool = True
    """True if its cycles are those of its core's clock; memory and queues run at the machine's clock."""
    counts: Callable[[TileProgram, Machine, Mask], Mapping[str, int]] = lambda program, machine, done: {}
    """Returns by kind the counts of the instructions that cost energy; `done` marks the instructions that ran."""
    energy: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kind of count -> the machine's figure with the energy of each, in picojoules."""
    scratchpad_bytes: Callable[[TileProgram, Machine], I64] | None = None
    """Returns the scratchpad bytes that each operand reads and writes; None if an operand's box is accessed once per
    direction."""
