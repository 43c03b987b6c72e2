"""What a kind of hardware unit is to the rest of the simulator: one description, from which all others read.

Issue reads how many there are and which of them an instruction goes to, starts what its instructions cost, statistics
and the critical path what the parts of a span are called, energy what is counted, pictures the names. A unit of a new
kind is a file beside this one that makes such a description, a row of unit_table.py, and its opcodes.
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
from simulator.tileprogram.program import I64, Opcode, TileProgram

Mask = npt.NDArray[np.bool_]


class Does(NamedTuple):
    """What an instruction of one opcode is called, on its unit."""

    label: str
    stage: str
    """Of an iteration of a loop: load, compute, store, copy, barrier."""
    parts: tuple[str, ...] = ()
    """Of its span: what it does until its `phase`, until its `end`, until it is `done`. None where it is one thing."""
    stall: str = ""
    """What statistics call its unit's cycles between `phase` and `end`, if it only waits for answers then."""


class Selection(IntEnum):
    """Which unit of a kind an instruction goes to."""

    FEWEST_BEFORE = 0
    """The one with the least before it."""
    FREE_FIRST = 1
    """The one that would be free first, with all that stands before it."""
    IN_TURN = 2


class Part(NamedTuple):
    """Some instructions of a launch, and what their costs follow from."""

    program: TileProgram
    addresses: Sequence[int]
    """Of its arguments."""
    in_rows: Mask
    """Of each buffer: whether its rows lie along the lanes, see dma.py."""
    machine: Machine
    """With the figures that the core has of its own."""
    ratio: Fraction = Fraction(1)
    """The core's clock as a part of the machine's."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What instructions cost, an entry each. What is left out is 0; those of other units are not read."""

    cycles: I64
    """Of the unit: a matmul's stream, a vector pass, a copy at its queue's rate, a loop whose accesses are answered at
    once."""
    waiting: I64 | None = None
    """Cycles more, because answers take time or iterations wait for each other."""
    preload: I64 | None = None
    last: I64 | None = None
    drain: I64 | None = None
    """Of a unit that `streams`: see `MatmulCost`."""
    mark: I64 | None = None
    """`MEETS`, `KEEPS` or 0."""
    moved: I64 | None = None
    """Bytes: from or to DRAM, and within the scratchpad those of a copy."""
    read: I64 | None = None
    written: I64 | None = None
    """Those of DRAM."""
    requested: I64 | None = None
    """Bytes the DRAM moves for it; 0 when it has no part in it."""


COSTS = tuple(each.name for each in fields(Costs))

MEETS, KEEPS = 1, 2
"""Marks of a BARRIER, and of a matmul that needs no preload if the one it adds to was the last on its array."""


def one(machine: Machine) -> int:
    return 1


def fewest_before(machine: Machine) -> Selection:
    return Selection.FEWEST_BEFORE


def nothing(program: TileProgram, machine: Machine, done: Mask) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A kind of unit."""

    name: str
    """What tables call it: `systolic`."""
    lane: str
    """What one of them is called on the timeline: `mxu`."""
    numbered: bool = False
    """Whether its number follows: `mxu0`. A core may have several of what is numbered."""
    does: Mapping[Opcode, Does]
    """Its opcodes."""
    costs: Callable[[Part], Costs]
    how_many: Callable[[Machine], int] = one
    """Of each core."""
    selection: Callable[[Machine], Selection] = fewest_before
    streams: bool = False
    """It takes the rows of an instruction while those of the one before drain, what stays in it may move in even
    sooner, and an instruction that goes on with a sum goes where the sum is: units/systolic.py."""
    asks_memory: bool = False
    """Its instructions may ask DRAM for something."""
    own_clock: bool = True
    """Its cycles are those of its core's clock: memory and queues have the machine's."""
    counts: Callable[[TileProgram, Machine, Mask], Mapping[str, int]] = nothing
    """What costs energy, by kind: of the instructions that are done."""
    energy: Mapping[str, str] = field(default_factory=dict[str, str])
    """The figure of the machine that each kind is counted in, in picojoules."""
    scratchpad_bytes: Callable[[TileProgram, Machine], I64] | None = None
    """Bytes that each operand of its instructions moves from and to the scratchpad, where that is not its box once
    each way."""
