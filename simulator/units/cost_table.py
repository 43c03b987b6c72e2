"""Makes the table of costs that the event loop reads: a row of integers per instruction of a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.machine.machine import Machine
from simulator.records.spans import Grid, Via
from simulator.tileprogram.barriers import meeting_of
from simulator.tileprogram.program import I32, I64, U8, DependenceKind, TileProgram
from simulator.units import dma, gather, systolic
from simulator.units import request_addresses as walks
from simulator.units.unit import COSTS, MEETS, Mask, Part
from simulator.units.unit_table import KIND_OF, UNITS

MEET = len(DependenceKind)
"""The kind of a BARRIER's waits for the other BARRIERs of its meeting: until these have issued, not until done."""

NOT_KNOWN: gather.Indices = MappingProxyType({})


class CostTable(NamedTuple):
    """The columns that the event loop reads, one entry per instruction."""

    kind: I64
    """The place of the instruction's unit in `unit_table.UNITS`."""
    core: I64
    chain: I64
    """The matmul to whose sums it adds without a drain between, -1 for none."""
    second: I64
    """Bytes that a second memory moves for the instruction; 0 if it moves none."""
    cycles: I64
    waiting: I64
    preload: I64
    last: I64
    drain: I64
    mark: I64
    requested: I64
    """The columns from `cycles` to `requested` are those of `unit.Costs`."""


class Spared(NamedTuple):
    """The instructions of one launch that spare DRAM: copies of a second memory, and skipped instructions."""

    rows: Mask
    """For each instruction, True if it is a copy that a second memory serves."""
    waits: I64
    """Pairs: a copy, and the instruction that brings its box to the second memory."""
    skipped: Mask
    """For each instruction, True if it is skipped: it issues and waits like any other, and then takes no time."""


def none_spared(rows: int) -> Spared:
    """Returns a `Spared` for `rows` instructions, none of which spares DRAM."""
    return Spared(np.zeros(rows, np.bool_), np.zeros((0, 2), np.int64), np.zeros(rows, np.bool_))


class TracedWork(NamedTuple):
    """The part of a launch's work that its trace keeps; the rest of the work is large."""

    moved: I64
    read: int
    written: int
    requested: I64
    remote: int
    second_read: int
    second_written: int
    via: U8
    assumed: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one launch: costs, dependences, and requests of each instruction."""

    table: CostTable
    dependence_start: I64
    dependence: I32
    dependence_kind: U8
    moved: I64
    """Bytes that each instruction moves from or to DRAM, or copies within the scratchpad."""
    read: I64
    """Bytes that each instruction reads from DRAM, or from the second memory instead."""
    written: I64
    """Bytes that each instruction writes to DRAM, or to the second memory instead."""
    requests: gather.Requests
    """The runs that GATHERs and SCATTERs ask for, each with its address."""
    walks: walks.Walks
    """The boxes and runs of each instruction in DRAM, for a memory that is banked or has several parts; else empty."""
    skipped: Mask
    """For each instruction, True if it is skipped; its row of costs is then zeros."""
    by_part: I64
    """N x 2 x parts: bytes in whole requests that each instruction reads and writes in each part of a divided memory.
    No rows until the pages have places (memory/pages.py)."""
    remote: int = 0
    """The bytes of `by_part` that lie in another part than the core's own."""

    def to_run(self) -> Work:
        """This work without the columns that only the trace needs; these are as long as the program."""
        nothing = np.zeros(0, np.int64)
        asked = replace(self.requests, bytes=nothing, read_bytes=nothing, request_bytes=nothing)
        return replace(self, read=nothing, written=nothing, requests=asked)

    def traced(self) -> TracedWork:
        second = self.table.second > 0
        via = np.where(second, Via.SECOND, np.where(self.read + self.written > 0, Via.DRAM, Via.NONE))
        via[self.skipped] = Via.SKIPPED
        return TracedWork(
            self.moved,
            int(self.read[~second].sum()),
            int(self.written[~second].sum()),
            self.table.requested.copy(),
            self.remote,
            int(self.read[second].sum()),
            int(self.written[second].sum()),
            via.astype(np.uint8),
            self.requests.assumed,
        )


def work(
    program: TileProgram,
    addresses: Sequence[int],
    machine: Machine,
    indices: gather.Indices = NOT_KNOWN,
    spared: Spared | None = None,
    grids: Sequence[Grid | None] = (),
) -> Work:
    """The work of a launch of `program` with its arguments at `addresses`.

    `indices` are the known index tensors, `spared` the instructions that spare DRAM, `grids` the arguments' rows and
    columns.
    """
    rows = len(program)
    second, waits, skipped = spared or none_spared(rows)
    indexed = gather.requests(program, addresses, indices, machine)
    costs = {name: np.zeros(rows, np.int64) for name in COSTS}
    costs["cycles"], costs["requested"] = -(-indexed.bytes // machine.dma.bytes_per_cycle), indexed.request_bytes.copy()
    costs["moved"], costs["read"] = indexed.bytes.copy(), indexed.read_bytes.copy()
    costs["written"] = indexed.bytes - indexed.read_bytes
    kind, in_rows, kinds = KIND_OF[program.opcode], dma.in_rows(program), machine.kinds_of_cores
    for piece, part in pieces(program):
        for alike, ratio, cores in kinds:
            mine = np.isin(part.core, cores) if len(kinds) > 1 else np.ones(len(part), np.bool_)
            added = {name: column[piece] for name, column in costs.items()}
            _add_costs(Part(part, addresses, in_rows, alike, grids, ratio), kind[piece], mine, added)
    moved, read, written = (costs.pop(name) for name in ("moved", "read", "written"))
    costs["requested"][second] = 0
    table = CostTable(
        kind=kind,
        core=program.core.astype(np.int64),
        chain=systolic.chains(program, machine),
        second=np.where(second, moved, 0),
        **costs,
    )
    table = table._replace(drain=_in_order(table.drain, table.chain))
    if skipped.any():
        table = _left_out(skipped, table, moved, read, written)
    asking = ~(second | skipped)
    apart = machine.dram.kind == "banked" or machine.memory_parts > 1
    lie = walks.Lie(addresses, grids, machine)
    walked = walks.walks(program, lie, indexed, asking) if apart else walks.no_walks()
    nowhere = np.zeros((0, 2, machine.memory_parts), np.int64)
    return Work(table, *_waits(program, waits), moved, read, written, indexed, walked, skipped, nowhere)


def _left_out(skipped: Mask, table: CostTable, moved: I64, read: I64, written: I64) -> CostTable:
    """Sets the costs of skipped instructions to zero, but keeps a product waiting for its accumulator's earlier
    sums."""
    moved[skipped] = read[skipped] = written[skipped] = 0
    for column in (table.cycles, table.preload, table.last, table.requested, table.waiting):
        column[skipped] = 0
    drain = np.where(skipped, 0, table.drain)
    for row in np.flatnonzero(skipped & (table.chain >= 0)).tolist():
        drain[row] = drain[table.chain[row]]
    return table._replace(drain=drain)


_PIECE = 1 << 16
"""Instructions whose costs are computed at once: for a whole long program, the temporary arrays would be large."""


def pieces(program: TileProgram) -> Iterator[tuple[slice, TileProgram]]:
    """Yields the program's instructions in pieces: (rows, part of the program)."""
    for first in range(0, len(program), _PIECE):
        piece = slice(first, min(first + _PIECE, len(program)))
        yield piece, program.part(piece.start, piece.stop)


def _add_costs(part: Part, kind: I64, mine: Mask, costs: Mapping[str, I64]) -> None:
    """Adds to `costs` the costs of the instructions that are `mine`, each by the unit of its kind."""
    for place, unit in enumerate(UNITS):
        here = mine & (kind == place)
        if not here.any():
            continue
        found = unit.costs(part)
        own = here & (found.mark != MEETS) if found.mark is not None else here
        for name in COSTS:
            column: I64 | None = getattr(found, name)
            if column is None:
                continue
            if unit.own_clock and name in _CLOCKED and part.ratio != 1:
                column = np.where(own, _at_clock(column, part.ratio), column)
            costs[name][here] += column[here]


_CLOCKED = ("cycles", "preload", "last", "drain")


def _at_clock(cycles: I64, ratio: Fraction) -> I64:
    """Cycles of a core's clock in cycles of the machine's, rounded away from zero."""
    return np.sign(cycles) * -(-np.abs(cycles) * ratio.denominator // ratio.numerator)


def _waits(program: TileProgram, brought: I64) -> tuple[I64, I32, U8]:
    """The waits of each instruction, as CSR: its dependences, and `Spared.waits`.

    A BARRIER waits for the other BARRIERs of its meeting. If too few cores come to the meeting, it waits for itself,
    and so for ever.
    """
    # copies: the program's own arrays are read-only, another type to the compiled loop
    starts, sources = program.dependence_start.copy(), program.dependence.copy()
    kinds, added = program.dependence_kind.copy(), list[tuple[int, int, int]]()
    for row, meeting in sorted(meeting_of(program).items()):
        added += [(row, other, MEET) for other in meeting if other != row]
        if len(meeting) < program.extent[row, 0]:
            added.append((row, row, int(DependenceKind.READ_AFTER_WRITE)))
    for row, other in brought.tolist():
        added.append((row, other, int(DependenceKind.READ_AFTER_WRITE)))
    if not added:
        return starts, sources, kinds
    rows, others, reasons = np.array(added, np.int64).T
    owner = np.concatenate([np.repeat(np.arange(len(program)), np.diff(starts)), rows])
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(program) + 1)).astype(np.int64)
    sources, kinds = np.concatenate([sources, others])[order], np.concatenate([kinds, reasons])[order]
    return starts, sources.astype(np.int32), kinds.astype(np.uint8)


def _in_order(drain: I64, chain: I64) -> I64:
    """Drain times for sums that leave an array in order: a matmul of a chain is complete no sooner than those
    before."""
    drain = drain.copy()
    rows = np.flatnonzero(chain >= 0)
    while len(sooner := rows[drain[rows] < drain[chain[rows]]]):
        drain[sooner] = drain[chain[sooner]]
    return drain
