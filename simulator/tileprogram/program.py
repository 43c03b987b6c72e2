"""The tile program: the machine's work, instruction by instruction.

A program is one kernel, unrolled: every load, store, matrix multiply and vector pass with its concrete
operands, in program order, and the dependences between instructions. It consists of plain arrays (a structure of arrays
and CSR lists), so that machine code can walk it and its file is a versioned npz, never a pickle.

Spaces: DRAM (0) operands name a kernel argument, SCRATCHPAD (1) operands name a buffer and one of its slots.
Offsets, shapes and strides are in elements: of the argument's storage in DRAM, of the slot in the scratchpad.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

import numpy as np
import numpy.typing as npt

from simulator.errors import FileFormatError
from simulator.files import typed_records, versioned_files
from simulator.tileprogram.opcodes import Access as Access
from simulator.tileprogram.opcodes import DependenceKind as DependenceKind
from simulator.tileprogram.opcodes import OpClass as OpClass
from simulator.tileprogram.opcodes import Opcode as Opcode
from simulator.tileprogram.opcodes import Space as Space

FORMAT, VERSION = "aten-workbench/tile-program", 1
MAX_RANK = 5

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer in a core's scratchpad, from byte `offset` on: `slots` equal slots of `slot_bytes`, padding included."""

    name: str
    slot_bytes: int
    slots: int
    offset: int
    element_bytes: int
    core: int = 0

    @property
    def bytes(self) -> int:
        return self.slot_bytes * self.slots


@dataclass(frozen=True, slots=True)
class Argument:
    """A kernel argument: a tensor in DRAM. `offset`, from the base of its storage, and `strides` are in elements."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    element_bytes: int
    written: bool


@dataclass(frozen=True, slots=True)
class Indexed:
    """Maps a point of the extent of a GATHER or SCATTER to an element of its memory operand."""

    axes: tuple[int, ...]
    """For each axis of the memory operand: the dim of the extent that walks it, or `-1 - k` where index operand k
    chooses the place."""
    index_dims: tuple[tuple[int, ...], ...]
    """For each index operand, the dims of the extent that its axes walk."""
    wraps: bool = False
    """True if an index below zero counts from the end of the axis."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A chain of operations through a DIRECT loop: each iteration hands its value to a later iteration."""

    iterations: int
    """Number of iterations after which the value reaches the same place: 1, unless several values take turns."""
    class_counts: tuple[int, ...]
    """Operations of the chain by `OpClass`; each waits for the one before."""


@dataclass(frozen=True, slots=True)
class OpInfo:
    """The MLIR operation of an instruction. `line` is its line in the scheduled text, counted from 1."""

    name: str
    line: int
    loops: tuple[str, ...]
    """Names of the loops around the operation, outermost first: `iteration` counts their rounds."""
    class_counts: tuple[int, ...] = (0, 0, 0, 0)
    """VECTOR, DIRECT: operations per point of the extent, by `OpClass`."""
    computed_bytes: int = 0
    """VECTOR: bytes of the widest type that it computes with, if that is wider than all operands; else 0."""
    walks: tuple[int, ...] = ()
    """VECTOR: for each operand, the dims of the extent that walk it, bit d for dim d."""
    contiguous: tuple[int, ...] = ()
    """VECTOR: for each operand, the dim that walks its axis along the lanes, -1 for none.

    `walks` and `contiguous` are empty if they are not known.
    """
    indexed: Indexed | None = None
    """GATHER, SCATTER: the meaning of the indices."""
    carried: tuple[Carried, ...] = ()
    """DIRECT: the chains between iterations, except those that are shorter than another one on every machine."""
    wide_counts: tuple[int, ...] = (0, 0, 0, 0)
    """VECTOR: the operations of `class_counts` that read or make numbers of 64 bits."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One box that an instruction reads or writes."""

    space: Space
    target: int
    """Index into `arguments` (DRAM) or `buffers` (SCRATCHPAD)."""
    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    access: Access


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction as an object: for building, reading and testing. The program itself holds arrays.

    MATMUL: `extent` is (batch, m, n, k), operands are (lhs m x k, rhs k x n, accumulator m x n); `stationary` is the
    index of the operand that stays in the array; `accumulates` is True if it adds to the accumulator's old value.

    VECTOR: `extent` is the iteration space, bit d of `reduction` is 1 if dim d is reduced, `lane` is the dim spread
    over the lanes (-1 for a scalar space).

    GATHER: operands are the indices, the box that is filled, and the memory (in DRAM, all places that the indices could
    mean). SCATTER: the indices, the box of new values (none if that is a single number), and the memory. `extent` is
    the space that both walk (see `Indexed`).

    BARRIER: `extent` is (number of cores that meet,); see `barriers`. Others: `extent` is the moved box.
    """

    opcode: Opcode
    op: int
    iteration: tuple[int, ...]
    operands: tuple[Operand, ...]
    extent: tuple[int, ...]
    core: int = 0
    reduction: int = 0
    lane: int = -1
    stationary: int = 1
    accumulates: bool = False
    dependences: tuple[tuple[int, DependenceKind], ...] = ()
    origins: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class TileProgram:
    """A tile program; see the module's docstring. Arrays are read-only; N instructions, M operands, D dependences."""

    kernel: str
    arguments: tuple[Argument, ...]
    buffers: tuple[Buffer, ...]
    ops: tuple[OpInfo, ...]
    origin_names: tuple[str, ...]
    """Kernel-local origin id -> node name."""

    opcode: U8
    core: I32
    op: I32
    iteration: I32
    """N x depth, -1 beyond the op's own loops."""
    extent: I64
    """N x MAX_RANK, 1 beyond the rank."""
    rank: U8
    reduction: U8
    lane: npt.NDArray[np.int8]
    stationary: U8
    accumulates: U8

    operand_start: I64
    """N + 1"""
    space: U8
    target: I32
    slot: I32
    offset: I64
    shape: I64
    """M x MAX_RANK, 1 beyond the rank."""
    strides: I64
    """M x MAX_RANK, 0 beyond the rank."""
    operand_rank: U8
    element_bytes: I32
    access: U8

    dependence_start: I64
    """N + 1"""
    dependence: I32
    dependence_kind: U8

    origin_start: I64
    """N + 1"""
    origin: I32

    def __post_init__(self) -> None:
        for name in DTYPES:
            getattr(self, name).setflags(write=False)

    def __len__(self) -> int:
        return len(self.opcode)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TileProgram):
            return NotImplemented
        return self._header() == other._header() and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in DTYPES
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"TileProgram({self.kernel!r}, {len(self)} instructions, {len(self.buffers)} buffers)"

    @property
    def scratchpad_bytes(self) -> int:
        """The scratchpad bytes that the program needs: the end of the buffer that reaches highest."""
        return max((buffer.offset + buffer.bytes for buffer in self.buffers), default=0)

    def owners(self) -> I64:
        """For each operand, its instruction."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.operand_start))

    def class_counts(self) -> I64:
        """For each op, its operations per point, by `OpClass`."""
        return np.array([op.class_counts for op in self.ops], np.int64).reshape(-1, len(OpClass))

    def wide_counts(self) -> I64:
        """For each op, its operations per point on numbers of 64 bits, by `OpClass`."""
        return np.array([op.wide_counts for op in self.ops], np.int64).reshape(-1, len(OpClass))

    def buffers_of(self, number: int) -> tuple[int, ...]:
        """Numbers of the buffers that an instruction reads or writes."""
        operands = slice(int(self.operand_start[number]), int(self.operand_start[number + 1]))
        inside = self.space[operands] == Space.SCRATCHPAD
        return tuple(dict.fromkeys(self.target[operands][inside].tolist()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program as a versioned npz, all or nothing."""
        versioned_files.replace_file(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes; `load(io.BytesIO(...))` reads them."""
        return versioned_files.pack(FORMAT, VERSION, self._header(), {name: getattr(self, name) for name in DTYPES})

    @staticmethod
    def load(path: str | os.PathLike[str] | BinaryIO) -> TileProgram:
        """Reads a program that `save` wrote; raises `FileFormatError` for any other file.

        This checks the form of the tables; `verify` checks the program.
        """
        header, arrays = versioned_files.read(path, FORMAT, VERSION)
        rows, operands = len(arrays.get("opcode", ())), len(arrays.get("space", ()))
        waits, origins = len(arrays.get("dependence", ())), len(arrays.get("origin", ()))
        count = {"N": rows, "N+1": rows + 1, "M": operands, "D": waits, "O": origins}
        extents = {name: (count[_ROWS.get(name, "N")], *_WIDTHS.get(name, ())) for name in DTYPES}
        versioned_files.expect(path, arrays, {name: (kind, extents[name]) for name, kind in DTYPES.items()})
        for name, entries in (("operand_start", operands), ("dependence_start", waits), ("origin_start", origins)):
            versioned_files.expect_starts(path, name, arrays[name], entries)
        try:
            if set(header) != set(_HEADER):
                raise KeyError(f"the header has the keys {sorted(header)}")
            fields = {name: typed_records.value(kind, header[name], name) for name, kind in _HEADER.items()}
            return TileProgram(**fields, **cast("dict[str, Any]", arrays))
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: the header is not that of a tile program: {error}") from None

    def _header(self) -> dict[str, Any]:
        records = {name: [*map(dataclasses.asdict, getattr(self, name))] for name in ("arguments", "buffers", "ops")}
        return {"kernel": self.kernel, **records, "origin_names": list(self.origin_names)}

    def instruction(self, index: int) -> Instruction:
        """Instruction `index` as an object."""
        rank, op = int(self.rank[index]), int(self.op[index])
        depth = len(self.ops[op].loops)
        first, last = int(self.operand_start[index]), int(self.operand_start[index + 1])
        waits = slice(int(self.dependence_start[index]), int(self.dependence_start[index + 1]))
        origins = self.origin[self.origin_start[index] : self.origin_start[index + 1]]
        return Instruction(
            opcode=Opcode(self.opcode[index]),
            op=op,
            iteration=tuple(self.iteration[index, :depth].tolist()),
            operands=tuple(self.operand(i) for i in range(first, last)),
            extent=tuple(self.extent[index, :rank].tolist()),
            core=int(self.core[index]),
            reduction=int(self.reduction[index]),
            lane=int(self.lane[index]),
            stationary=int(self.stationary[index]),
            accumulates=bool(self.accumulates[index]),
            dependences=tuple(
                (int(source), DependenceKind(kind))
                for source, kind in zip(self.dependence[waits], self.dependence_kind[waits], strict=True)
            ),
            origins=tuple(origins.tolist()),
        )

    def part(self, first: int, last: int) -> TileProgram:
        """The program of instructions `first` up to `last` alone; dependences keep the whole program's numbers."""
        kept = {"N": slice(first, last), "N+1": slice(first, last + 1)}
        for symbol, starts in (("M", self.operand_start), ("D", self.dependence_start), ("O", self.origin_start)):
            kept[symbol] = slice(int(starts[first]), int(starts[last]))
        columns = {name: getattr(self, name)[kept[_ROWS.get(name, "N")]] for name in DTYPES}
        for name in ("operand_start", "dependence_start", "origin_start"):
            columns[name] = columns[name] - columns[name][0]
        return dataclasses.replace(self, **columns)

    def operand(self, index: int) -> Operand:
        """Operand `index` of the whole program as an object."""
        rank = int(self.operand_rank[index])
        return Operand(
            space=Space(self.space[index]),
            target=int(self.target[index]),
            slot=int(self.slot[index]),
            offset=int(self.offset[index]),
            shape=tuple(self.shape[index, :rank].tolist()),
            strides=tuple(self.strides[index, :rank].tolist()),
            element_bytes=int(self.element_bytes[index]),
            access=Access(self.access[index]),
        )


DTYPES: Final = versioned_files.dtypes_of(TileProgram)
"""The element type of each array of a program."""

_HEADER: Final[dict[str, Any]] = {
    "kernel": str,
    "arguments": tuple[Argument, ...],
    "buffers": tuple[Buffer, ...],
    "ops": tuple[OpInfo, ...],
    "origin_names": tuple[str, ...],
}

_ROWS: Final = {
    **dict.fromkeys(("operand_start", "dependence_start", "origin_start"), "N+1"),
    **dict.fromkeys(("space", "target", "slot", "offset", "shape", "strides"), "M"),
    **dict.fromkeys(("operand_rank", "element_bytes", "access"), "M"),
    **dict.fromkeys(("dependence", "dependence_kind"), "D"),
    "origin": "O",
}
"""Array -> what its rows are: operands M, dependences D, origins O; all other arrays have a row per instruction, N."""

_WIDTHS: Final[dict[str, tuple[int | None]]] = {
    "iteration": (None,),
    **dict.fromkeys(("extent", "shape", "strides"), (MAX_RANK,)),
}
