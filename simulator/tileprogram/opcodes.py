"""The codes of a tile program: what is done, where, and why it waits. Which unit does it: units/unit_table.py."""

from __future__ import annotations

from enum import IntEnum


class Opcode(IntEnum):
    LOAD = 0
    STORE = 1
    COPY = 2
    GATHER = 3
    SCATTER = 4
    MATMUL = 5
    VECTOR = 6
    DIRECT = 7
    BARRIER = 8
    HOST = 9
    """Not in programs: what a trace shows of a step on the host."""


class Space(IntEnum):
    DRAM = 0
    SCRATCHPAD = 1


class Access(IntEnum):
    READ = 1
    WRITE = 2
    READ_WRITE = 3


class DependenceKind(IntEnum):
    """Why an instruction waits for an earlier one.

    ACCUMULATE orders two matmuls into one accumulator without draining the array between them; REUSE is a
    write-after-read that exists only because two buffers share an address.
    """

    READ_AFTER_WRITE = 0
    WRITE_AFTER_READ = 1
    WRITE_AFTER_WRITE = 2
    ACCUMULATE = 3
    REUSE = 4


class OpClass(IntEnum):
    """The hardware functions by which the operations on one element of a vector body are counted."""

    ALU = 0
    """add, subtract, multiply, compare, select, min, max, logic."""
    SPECIAL = 1
    """exp, log, tanh, erf, sin, cos, rsqrt, sqrt, divide, power."""
    CONVERT = 2
    """Changes of element type."""
    MOVE = 3
    """A body that only passes values on: fill, broadcast, transpose."""
