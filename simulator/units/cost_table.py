"""A program as the table the event loop walks: one row of integers per instruction, costs already worked out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.machine import core_kinds
from simulator.machine.chiplets import between_cycles
from simulator.machine.machine import Machine
from simulator.records.spans import Via
from simulator.tileprogram.barriers import meeting_of
from simulator.tileprogram.program import I32, I64, U8, UNIT_OF, DependenceKind, Opcode, TileProgram, UnitClass
from simulator.units import dma, gather, scalar, systolic, vector, zero_tiles
from simulator.units import request_addresses as walks
from simulator.units.common_memory import Served

# Columns of the instruction table
CLASS = 0
CYCLES = 1
"""Of the unit: a matmul's stream, a vector pass, a copy at its queue's rate, a loop of accesses answered at once."""
PRELOAD = 2
LAST = 3
DRAIN = 4
REQUESTED = 5
"""Bytes the DRAM moves for it; 0 when it has no part in it."""
CHAIN = 6
"""The matmul it accumulates onto without a drain between, -1 for none."""
WAITING = 7
"""Cycles more that a loop of accesses takes because answers take time, or iterations wait for each other."""
CORE = 8
MARK = 9
"""`MEETS`, `KEEPS` or 0."""
COMMON = 10
"""Bytes that the common memory moves for it; 0 when it has no part in it."""
COLUMNS = 11

MEETS, KEEPS = 1, 2
"""Marks of a BARRIER, and of a matmul that needs no preload if the one it adds to was the last on its array."""

MEET = len(DependenceKind)
"""Kind of the waits of a BARRIER for the others of its meeting: until they are there, not until they are done."""

Mask = npt.NDArray[np.bool_]

NOT_KNOWN: gather.Indices = MappingProxyType({})


class Told(NamedTuple):
    """What of a launch's work its trace tells; the rest of it is large, and not kept."""

    moved: I64
    read: int
    written: int
    requested: I64
    remote: int
    common_read: int
    common_written: int
    via: U8
    assumed: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Work:
    """What one launch asks of the machine."""

    table: I64
    dependence_start: I64
    dependence: I32
    dependence_kind: U8
    moved: I64
    """Bytes each instruction moves: from or to DRAM, and within the scratchpad those of a copy."""
    read: I64
    """Bytes each instruction reads from DRAM, or from the common memory in its place."""
    written: I64
    """Bytes each instruction writes to DRAM, or to the common memory in its place."""
    requests: gather.Requests
    """The runs that GATHERs and SCATTERs ask for, each with its address."""
    walks: walks.Walks
    """What each instruction asks of a memory that takes requests one by one, or lies on several chiplets; else of
    none."""
    skipped: Mask
    """What is left out: its row says that it takes no time."""
    by_chiplet: I64
    """N x 2 x chiplets: bytes in whole requests that each instruction reads and writes in each chiplet's memory. No
    rows as long as no page has a place: memory/chiplet_pages.py."""
    remote: int = 0
    """How many of these lie on another chiplet than who asks."""

    def to_run(self) -> Work:
        """Without what is only told: each is as long as the program."""
        nothing = np.zeros(0, np.int64)
        asked = replace(self.requests, bytes=nothing, read_bytes=nothing, request_bytes=nothing)
        return replace(self, read=nothing, written=nothing, requests=asked)

    def told(self) -> Told:
        common = self.table[:, COMMON] > 0
        via = np.where(common, Via.COMMON, np.where(self.read + self.written > 0, Via.DRAM, Via.NONE))
        via[self.skipped] = Via.SKIPPED
        return Told(
            self.moved,
            int(self.read[~common].sum()),
            int(self.written[~common].sum()),
            self.table[:, REQUESTED].copy(),
            self.remote,
            int(self.read[common].sum()),
            int(self.written[common].sum()),
            via.astype(np.uint8),
            self.requests.assumed,
        )


def work(
    program: TileProgram,
    addresses: Sequence[int],
    machine: Machine,
    indices: gather.Indices = NOT_KNOWN,
    served: Served | None = None,
) -> Work:
    """The table of a launch of `program` with its arguments at `addresses`, and the numbers in some of them.

    `served` says which of its copies the common memory serves, and what is left out.
    """
    common, skipped = (served.rows, served.skipped) if served else np.zeros((2, len(program)), np.bool_)
    table = np.zeros((len(program), COLUMNS), np.int64)
    chosen = gather.requests(program, addresses, indices, machine)
    table[:, CYCLES], table[:, REQUESTED] = -(-chosen.bytes // machine.dma.bytes_per_cycle), chosen.request_bytes
    moved, read, written = chosen.bytes.copy(), chosen.read_bytes.copy(), chosen.bytes - chosen.read_bytes
    rows = dma.in_rows(program)
    for piece, part in pieces(program):
        if not machine.core.own_figures:
            _add_costs(part, addresses, rows, machine, _Costs(*(each[piece] for each in (table, moved, read, written))))
            continue
        for alike, ratio, cores in core_kinds.kinds(machine):
            mine = np.isin(part.core, cores)
            made = _Costs(*(np.zeros_like(each[piece]) for each in (table, moved, read, written)))
            _add_costs(part, addresses, rows, alike, made, ratio)
            _at_clock(made.table, ratio)
            for into, each in zip((table, moved, read, written), made, strict=True):
                into[piece][mine] += each[mine]
    table[common, REQUESTED], table[common, COMMON] = 0, moved[common]
    table[:, CHAIN] = _chains(program, machine)
    table[:, DRAIN] = _in_order(table[:, DRAIN], table[:, CHAIN])
    if skipped.any():
        _leave_out(skipped, table, moved, read, written)
    asking = ~(common | skipped)
    apart = machine.dram.kind == "banked" or machine.chiplet.count > 1
    walked = walks.walks(program, addresses, chosen, asking) if apart else walks.no_walks()
    nowhere = np.zeros((0, 2, machine.chiplet.count), np.int64)
    return Work(table, *_waits(program, served), moved, read, written, chosen, walked, skipped, nowhere)


def _leave_out(skipped: Mask, table: I64, moved: I64, read: I64, written: I64) -> None:
    """What is left out takes no time; but a product is complete only when what its accumulator got before is there."""
    moved[skipped] = read[skipped] = written[skipped] = 0
    for column in (CYCLES, PRELOAD, LAST, REQUESTED, WAITING):
        table[skipped, column] = 0
    table[:, DRAIN] = zero_tiles.drains(skipped, table[:, CHAIN], table[:, DRAIN])


_PIECE = 1 << 16
"""Instructions whose costs are worked out at once: of a long program, what lies about meanwhile would be much."""


def pieces(program: TileProgram) -> Iterator[tuple[slice, TileProgram]]:
    """The program's instructions, some at a time."""
    for first in range(0, len(program), _PIECE):
        piece = slice(first, min(first + _PIECE, len(program)))
        yield piece, program.part(piece.start, piece.stop)


def _at_clock(table: I64, ratio: Fraction) -> None:
    """Makes the cycles of a core's units those of the machine's clock; what lies before an end stays before it."""
    own = np.isin(table[:, CLASS], [UnitClass.SYSTOLIC, UnitClass.VECTOR, UnitClass.SCALAR])
    units = own & (table[:, MARK] != MEETS)
    for column in (CYCLES, PRELOAD, LAST, DRAIN) if ratio != 1 else ():
        cycles = table[units, column]
        scaled = -(-np.abs(cycles) * ratio.denominator // ratio.numerator)
        table[units, column] = np.sign(cycles) * scaled


class _Costs(NamedTuple):
    """Costs that are being added up, a row an instruction: for the event loop, and in bytes."""

    table: I64
    moved: I64
    read: I64
    written: I64


def _add_costs(
    program: TileProgram,
    addresses: Sequence[int],
    in_rows: Mask,
    machine: Machine,
    costs: _Costs,
    ratio: Fraction = Fraction(1),
) -> None:
    """Adds what each instruction costs by itself to its row of the table and to the bytes it moves."""
    table = costs.table
    unit_of = np.array([UNIT_OF[opcode] for opcode in Opcode], np.int64)
    table[:, CLASS] = unit_of[program.opcode]
    copies = dma.transfers(program, addresses, machine, in_rows)
    direct = scalar.loops(program, addresses, machine, ratio)
    passes = systolic.passes(program, machine)
    matmul = systolic.matmul_cost(program.extent, program.stationary, machine, passes, program.accumulates)
    is_matmul, is_vector = table[:, CLASS] == UnitClass.SYSTOLIC, table[:, CLASS] == UnitClass.VECTOR
    table[:, CYCLES] += copies.cycles + direct.work  # each 0 where it is none of its own
    table[:, CYCLES] += np.where(is_matmul, matmul.stream, 0)
    table[:, CYCLES] += np.where(is_vector, vector.vector_cycles(program, machine), 0)
    for column, values in ((PRELOAD, matmul.preload), (LAST, matmul.last), (DRAIN, matmul.drain)):
        table[:, column] = np.where(is_matmul, values, 0)
    table[:, REQUESTED] += copies.request_bytes + direct.request_bytes
    table[:, WAITING] = direct.waiting
    table[:, CORE], meets = program.core, program.opcode == Opcode.BARRIER
    table[:, MARK] = MEETS * meets + KEEPS * (is_matmul & matmul.keeps)
    table[:, CYCLES] += meets * (machine.network.latency_cycles + between_cycles(machine))
    costs.moved[:] += copies.bytes + direct.bytes
    costs.read[:] += np.where(program.opcode == Opcode.LOAD, copies.bytes, direct.read_bytes)
    costs.written[:] += np.where(program.opcode == Opcode.STORE, copies.bytes, direct.bytes - direct.read_bytes)


def _waits(program: TileProgram, served: Served | None) -> tuple[I64, I32, U8]:
    """What each instruction waits for, as CSR: its dependences, and what brings a box that the common memory serves.

    A BARRIER waits for the others of its meeting. One to which too few cores come waits for itself, and so for ever.
    """
    starts, sources = program.dependence_start.copy(), program.dependence.copy()  # to the compiled loop the program's
    kinds, added = program.dependence_kind.copy(), list[tuple[int, int, int]]()  # own would be another, read-only type
    for row, meeting in sorted(meeting_of(program).items()):
        added += [(row, other, MEET) for other in meeting if other != row]
        if len(meeting) < program.extent[row, 0]:
            added.append((row, row, int(DependenceKind.READ_AFTER_WRITE)))
    for row, brought in served.waits.tolist() if served else ():
        added.append((row, brought, int(DependenceKind.READ_AFTER_WRITE)))
    if not added:
        return starts, sources, kinds
    rows, others, reasons = np.array(added, np.int64).T
    owner = np.concatenate([np.repeat(np.arange(len(program)), np.diff(starts)), rows])
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(program) + 1)).astype(np.int64)
    sources, kinds = np.concatenate([sources, others])[order], np.concatenate([kinds, reasons])[order]
    return starts, sources.astype(np.int32), kinds.astype(np.uint8)


def _in_order(drain: I64, chain: I64) -> I64:
    """Sums leave an array in order: what goes on with a chain is not out before what it goes on with."""
    drain = drain.copy()
    rows = np.flatnonzero(chain >= 0)
    while len(sooner := rows[drain[rows] < drain[chain[rows]]]):
        drain[sooner] = drain[chain[sooner]]
    return drain


def _chains(program: TileProgram, machine: Machine) -> I64:
    chain = np.full(len(program), -1, np.int64)
    if machine.array.accumulator_residence == "array":
        owner = np.repeat(np.arange(len(program)), np.diff(program.dependence_start))
        links = program.dependence_kind == DependenceKind.ACCUMULATE
        chain[owner[links]] = program.dependence[links]
    return chain
