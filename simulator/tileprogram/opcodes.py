"""The codes of a tile program: opcodes, spaces, accesses, dependences. units/unit_table.py has each opcode's unit."""

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
    """A part of a step on the host: in traces only, not in programs."""


class Space(IntEnum):
    DRAM = 0
    SCRATCHPAD = 1


class Access(IntEnum):
    READ = 1
    WRITE = 2
    READ_WRITE = 3


class DependenceKind(IntEnum):
    """The reason for which an instruction waits for an earlier one.

    ACCUMULATE orders two matmuls into one accumulator without draining the array between them; REUSE is a
    write-after-read that exists only because two buffers share an address.
    """

    READ_AFTER_WRITE = 0
    WRITE_AFTER_READ = 1
    WRITE_AFTER_WRITE = 2
    ACCUMULATE = 3
    REUSE = 4


class OpClass(IntEnum):
    """The classes by which the operations of a vector body on one element are counted."""

    ALU = 0
    """add, subtract, multiply, compare, select, min, max, logic."""
    SPECIAL = 1
    """exp, log, tanh, erf, sin, cos, rsqrt, sqrt, divide, power."""
    CONVERT = 2
    """Changes of element type."""
    MOVE = 3
    """Passing a value on unchanged: fill, broadcast, transpose."""
