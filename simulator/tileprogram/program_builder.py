"""Makes a tile program, instruction by instruction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.program import DTYPES, MAX_RANK, Argument, Buffer, Instruction, Operand, OpInfo, TileProgram


@dataclass
class ProgramBuilder:
    """Collects instructions in program order and packs them into a `TileProgram`."""

    kernel: str
    arguments: list[Argument] = field(default_factory=list[Argument])
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    ops: list[OpInfo] = field(default_factory=list[OpInfo])
    origin_names: list[str] = field(default_factory=list[str])
    instructions: list[Instruction] = field(default_factory=list[Instruction])

    def add(self, instruction: Instruction) -> int:
        """Appends an instruction; returns its index, which later ones name as a dependence."""
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def build(self) -> TileProgram:
        rows = self.instructions
        operands = [operand for row in rows for operand in row.operands]
        waits = [wait for row in rows for wait in row.dependences]
        depth = max((len(op.loops) for op in self.ops), default=0)
        return TileProgram(
            kernel=self.kernel,
            arguments=tuple(self.arguments),
            buffers=tuple(self.buffers),
            ops=tuple(self.ops),
            origin_names=tuple(self.origin_names),
            **_columns(rows, "opcode", "core", "op", "reduction", "lane", "stationary", "accumulates"),
            iteration=_padded([row.iteration for row in rows], depth, -1, np.int32),
            extent=_padded([row.extent for row in rows], MAX_RANK, 1, np.int64),
            rank=np.array([len(row.extent) for row in rows], np.uint8),
            operand_start=_starts(len(row.operands) for row in rows),
            **_columns(operands, "space", "target", "slot", "offset", "element_bytes", "access"),
            shape=_padded([operand.shape for operand in operands], MAX_RANK, 1, np.int64),
            strides=_padded([operand.strides for operand in operands], MAX_RANK, 0, np.int64),
            operand_rank=np.array([len(operand.shape) for operand in operands], np.uint8),
            dependence_start=_starts(len(row.dependences) for row in rows),
            dependence=np.array([source for source, _ in waits], np.int32),
            dependence_kind=np.array([kind for _, kind in waits], np.uint8),
            origin_start=_starts(len(row.origins) for row in rows),
            origin=np.array([origin for row in rows for origin in row.origins], np.int32),
        )


def _columns(records: Sequence[Instruction] | Sequence[Operand], *names: str) -> dict[str, npt.NDArray[Any]]:
    """The named fields of all records, each as a column of the program."""
    return {name: np.array([getattr(each, name) for each in records], DTYPES[name]) for name in names}


def _starts(counts: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.fromiter(counts, np.int64))]).astype(np.int64)


Number = TypeVar("Number", np.int32, np.int64)


def _padded(rows: list[tuple[int, ...]], width: int, fill: int, dtype: type[Number]) -> npt.NDArray[Number]:
    out = np.full((len(rows), width), fill, dtype)
    for index, row in enumerate(rows):
        out[index, : len(row)] = row
    return out
