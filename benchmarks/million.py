"""A program as long as wanted: tiles loaded, passed through the vector unit and stored, in two slots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.tileprogram.hazards import DependenceTracker
from simulator.tileprogram.program import (
    Access,
    Argument,
    Buffer,
    Instruction,
    Opcode,
    Operand,
    OpInfo,
    Space,
    TileProgram,
)
from simulator.tileprogram.program_builder import ProgramBuilder

_ROWS, _COLUMNS, _SLOTS, _BYTES = 8, 128, 2, 4
_TILE = _ROWS * _COLUMNS
_ROUND = 3 * _SLOTS
"""Instructions after which everything comes again, a round of tiles further on."""


def program(instructions: int) -> TileProgram:
    """So many instructions, or a few more: the second round of a short program, again and again."""
    rounds = -(-instructions // _ROUND)
    short = _short(2, rounds * _SLOTS)
    first = int(short.operand_start[_ROUND])
    again = {name: _again(getattr(short, name), _ROUND, rounds - 1) for name in _OF_INSTRUCTIONS}
    again |= {name: _again(getattr(short, name), first, rounds - 1) for name in _OF_OPERANDS}
    later = np.maximum(np.arange(rounds) - 1, 0)  # how many rounds beyond those written down
    operands, waits = len(short.space) - first, int(short.dependence_start[-1] - short.dependence_start[_ROUND])
    moves = np.where(again["space"] == Space.DRAM, _TILE * _SLOTS, 0)
    again["offset"] = again["offset"] + moves * np.repeat(later, [first] + [operands] * (rounds - 1))
    head = int(short.dependence_start[_ROUND])
    shift = np.repeat(later * _ROUND, [head] + [waits] * (rounds - 1))
    return replace(
        short,
        **again,
        dependence=(_again(short.dependence, head, rounds - 1) + shift).astype(np.int32),
        dependence_kind=_again(short.dependence_kind, head, rounds - 1),
        **{name: _starts(getattr(short, name), rounds - 1) for name in _STARTS},
    )


_OF_INSTRUCTIONS = ("opcode", "core", "op", "iteration", "extent", "rank", "reduction", "lane", "stationary")
_OF_INSTRUCTIONS += ("accumulates",)
_OF_OPERANDS = ("space", "target", "slot", "offset", "shape", "strides", "operand_rank", "element_bytes", "access")
_STARTS = ("operand_start", "dependence_start", "origin_start")


def _again(column: np.ndarray, head: int, times: int) -> np.ndarray:
    """The head, and what comes after it so many times."""
    return np.concatenate([column[:head], np.tile(column[head:], (times,) + (1,) * (column.ndim - 1))])


def _starts(starts: np.ndarray, times: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(_again(np.diff(starts), _ROUND, times))]).astype(np.int64)


def _short(rounds: int, tiles: int) -> TileProgram:
    """The first rounds, on tensors of so many tiles."""
    names = ("load", "vector", "store")
    made, tracker = (
        ProgramBuilder("long", ops=[OpInfo(name, 1, (), (0, 0, 0, 1)) for name in names]),
        DependenceTracker(),
    )
    for name, written in (("x", False), ("out", True)):
        made.arguments.append(Argument(name, (tiles * _ROWS, _COLUMNS), (_COLUMNS, 1), 0, _BYTES, written))
        made.buffers.append(Buffer(name, _TILE * _BYTES, _SLOTS, len(made.buffers) * _TILE * _BYTES * _SLOTS, _BYTES))
    for tile in range(rounds * _SLOTS):
        box = Operand(Space.DRAM, 0, 0, tile * _TILE, (_ROWS, _COLUMNS), (_COLUMNS, 1), _BYTES, Access.READ)
        pad = replace(box, space=Space.SCRATCHPAD, slot=tile % _SLOTS, offset=0)
        for op, opcode, source, target in (
            (0, Opcode.LOAD, box, pad),
            (1, Opcode.VECTOR, pad, replace(pad, target=1)),
            (2, Opcode.STORE, replace(pad, target=1), replace(box, target=1)),
        ):
            operands = (source, replace(target, access=Access.WRITE))
            row = Instruction(opcode, op, (), operands, box.shape, lane=1 if opcode == Opcode.VECTOR else -1)
            made.add(replace(row, dependences=tracker.add(row)))
    return made.build()
