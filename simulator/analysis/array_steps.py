"""One matmul on its systolic array, step by step: places the terms of `systolic`'s closed forms in time.

Times are cycles of the array's own clock. Zero is the first streamed row of the instruction (`Trace.phase`), so the
preload has negative times. The trace has no time of a preload that was hidden behind the matmul before: it is placed as
late as possible, right before the first row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from simulator.analysis.contention import previous
from simulator.machine.machine import Machine
from simulator.machine.optional.shape_table import of_core
from simulator.records.spans import HostCall, Via
from simulator.tileprogram.program import I64, TileProgram
from simulator.trace_record import TraceRecord
from simulator.units.systolic import chains, matmul_cost, passes


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """The tiles of weights or sums that the array holds one after another. One entry per tile.

    Input number `entry` of a tile, counted from 0, reaches the array's element in row i and column j in cycle
    `enters + entry + i + j`, if the tile takes that row and column.
    """

    batch: I64
    product: I64
    """The tile's pass, of the passes that the precision takes, from 0 on; 0 with `output_stationary`: one stream."""
    down: I64
    """The tile's first place in the matmul along the array's rows: in k for weights, in m for sums."""
    across: I64
    """The tile's first place along the array's columns: in n, or in m if the left operand stays."""
    rows: I64
    columns: I64
    moves_in: I64
    """The first cycle in which weights, or sums to add to, move in."""
    moved_in: I64
    """Cycles of moving in, one per row; 0 if nothing moves in."""
    enters: I64
    """The first cycle in which rows stream in."""
    streams: I64
    """Cycles in which rows stream in."""
    complete: I64
    """The cycle in which the last result is complete; with `output_stationary` it then stays until it moves out."""
    out: I64
    """The cycle in which the last result has left the array."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the matmul's time: its formula, the formula with this instruction's numbers, and the cycles."""

    name: str
    formula: str
    numbers: str
    cycles: int


@dataclass(frozen=True, slots=True, eq=False)
class ArrayWalk:
    """One matmul on its array."""

    span: int
    """The matmul's row in the trace."""
    machine: Machine
    """The machine, with the figures of the array's core."""
    ratio: Fraction
    """The array's clock as a part of the machine's."""
    extent: tuple[int, int, int, int]
    """batch, m, n, k."""
    stationary: int
    """The operand whose tiles the array holds: 0 left, 1 right, 2 sums."""
    times: int
    """The passes that the precision takes."""
    adds: bool
    """True if the matmul adds to earlier sums."""
    tiles: Tiles
    parts: tuple[Part, ...]
    """preload, stream and drain, in cycles of the machine's clock, as in the trace."""
    start: int
    phase: int
    end: int
    done: int
    """`start`, `phase`, `end` and `done` of the span, as in the trace."""

    @property
    def hidden(self) -> int:
        """Cycles of the preload before the span: they are hidden, since the array still worked on the matmul before."""
        return self.parts[0].cycles - (self.phase - self.start)

    @property
    def holds(self) -> bool:
        """True if weights, or sums to add to, move in before a tile begins."""
        return self.stationary != 2 or self.adds

    @property
    def span_cycles(self) -> int:
        """Cycles from the span's start to its last result: the parts without the hidden preload."""
        return self.done - self.start

    def cycle(self, own: int) -> int:
        """A cycle of the array's clock in cycles of the machine's."""
        return self.phase + -(-own * self.ratio.denominator // self.ratio.numerator)

    @property
    def first(self) -> int:
        """The array's first busy cycle, in its own clock."""
        return int(min(self.tiles.moves_in.min(), 0))

    @property
    def last(self) -> int:
        """The end of the array's last busy cycle, in its own clock."""
        return int(self.tiles.out.max())

    def at_work(self, own: int) -> int:
        """The number of the array's elements that multiply in a cycle of its clock."""
        tiles = self.tiles
        first = own - tiles.enters  # the input on which element 0, 0 works
        reached = _diagonals(first, tiles.rows, tiles.columns)
        left = _diagonals(first - tiles.streams, tiles.rows, tiles.columns)
        return int((reached - left).sum())


def _diagonals(last: I64, rows: I64, columns: I64) -> I64:
    """The number of elements of rows x columns whose row plus column is at most `last`."""

    def triangle(side: I64) -> I64:
        side = np.maximum(side, 0)
        return side * (side + 1) // 2

    side = last + 1
    return triangle(side) - triangle(side - rows) - triangle(side - columns) + triangle(side - rows - columns)


def array_walk(trace: TraceRecord, span: int) -> ArrayWalk | None:
    """The matmul of a span on its array; None if the matmul was skipped, because a factor is zero.

    The span must be that of a matmul, in a trace with its programs.
    """
    launch, instr = int(trace.launch[span]), int(trace.instr[span])
    launched = trace.launches[launch]
    if trace.via[span] == Via.SKIPPED or isinstance(launched, HostCall):
        return None
    program, chain = launched.program, _chain(launched.program, trace.machine, instr)
    machine, ratio = of_core(trace.machine, int(trace.core[span]))
    rows = np.array(chain)
    cost = matmul_cost(
        program.extent[rows], program.stationary[rows], machine, passes(program, machine)[rows],
        program.accumulates[rows],
    )  # fmt: skip
    before = int(previous(trace)[span]) if cost.keeps[0] and len(chain) > 1 else -1
    goes_on = before >= 0 and int(trace.instr[before]) == chain[1]
    b, m, n, k = (int(each) for each in program.extent[instr, :4])
    times, adds = int(passes(program, machine)[instr]), bool(program.accumulates[instr])
    sums_stay = machine.array.dataflow == "output_stationary"
    stationary = 2 if sums_stay else int(program.stationary[instr])
    if sums_stay:
        tiles, parts = _of_sums(machine, (b, m, n, k * times), adds=adds, goes_on=goes_on)
    else:
        tiles, parts = _of_weights(machine, (b, m, n, k), stationary, times)
    left = [int(trace.start[span]), int(trace.phase[span]), int(trace.end[span]), int(trace.done[span])]
    drain = int(cost.drain.max())  # sums leave in order: not before earlier sums of the chain
    if drain > parts[2].cycles:
        told = f"max({parts[2].numbers}, {drain})"
        parts = (*parts[:2], Part("drain", f"max({parts[2].formula}, of the chain so far)", told, drain))
    shown = tuple(_at_clock(part, ratio) for part in parts)
    return ArrayWalk(span, machine, ratio, (b, m, n, k), stationary, times, adds, tiles, shown, *left)


def _at_clock(part: Part, ratio: Fraction) -> Part:
    if ratio == 1:
        return part
    cycles = -(-part.cycles * ratio.denominator // ratio.numerator)
    formula, numbers = f"({part.formula}) / clock ratio", f"({part.numbers}) * {ratio.denominator} / {ratio.numerator}"
    return Part(part.name, f"{formula}, rounded up", numbers, cycles)


def _chain(program: TileProgram, machine: Machine, instr: int) -> list[int]:
    """A matmul and the matmuls to whose sums it adds while they lie beside the array, the latest first."""
    before, found = chains(program, machine), [instr]
    while before[found[-1]] >= 0:
        found.append(int(before[found[-1]]))
    return found


def _grid(*extents: I64) -> list[I64]:
    """All places of a nest of loops, outermost first, as one column per loop."""
    return [column.reshape(-1) for column in np.meshgrid(*extents, indexing="ij")]


def _of_weights(
    machine: Machine, extent: tuple[int, int, int, int], stationary: int, times: int
) -> tuple[Tiles, tuple[Part, ...]]:
    """The tiles and parts of a weight-stationary matmul: weights stay, rows stream."""
    (b, m, n, k), switch = extent, machine.array.weight_switch_cycles
    streamed, wide = (m, n) if stationary == 1 else (n, m)
    high, broad = machine.array.rows, machine.array.columns
    places = np.arange(0, wide, broad), np.arange(0, k, high)
    batch, product, across, down = _grid(np.arange(b), np.arange(times), *places)
    rows, columns = np.minimum(high, k - down), np.minimum(broad, wide - across)
    fill, count = min(k, high) + min(wide, broad) - 2, len(rows)
    alone = machine.array.preload_depth == 1
    further = rows[1:] + switch + streamed + fill if alone else switch + np.maximum(streamed, rows[1:])
    begins = np.concatenate([[0], np.cumsum(further)])
    enters = begins + switch
    complete = enters + streamed + fill
    moves_in = begins - rows if alone else np.concatenate([[-rows[0]], enters[:-1]])
    tiles = Tiles(
        batch, product, down, across, rows, columns, moves_in, rows, enters, np.full(count, streamed),
        complete, complete,
    )  # fmt: skip
    if alone:
        formula = "T * (switch + S) + sum over tiles 2 to T of (kₜ + r + c - 2)"
        more = _sum([f"({each} + {fill})" for each in rows[1:].tolist()])
        numbers = f"{count} * ({switch} + {streamed}){more}"
    else:
        formula = "T * switch + S + sum over tiles 2 to T of max(S, kₜ)"
        more = _sum([f"max({streamed}, {each})" for each in rows[1:].tolist()])
        numbers = f"{count} * {switch} + {streamed}{more}"
    return tiles, (
        Part("preload", "k₁, a row of weights a cycle", str(rows[0]), int(rows[0])),
        Part("stream", formula, numbers, int(enters[-1] + streamed)),
        Part("drain", "r + c - 2", f"{min(k, high)} + {min(wide, broad)} - 2", fill),
    )


def _of_sums(
    machine: Machine, extent: tuple[int, int, int, int], *, adds: bool, goes_on: bool
) -> tuple[Tiles, tuple[Part, ...]]:
    """The tiles and parts of an output-stationary matmul: sums stay, both operands stream past each other."""
    b, m, n, k = extent
    high, broad = machine.array.rows, machine.array.columns
    batch, across, down = _grid(np.arange(b), np.arange(0, n, broad), np.arange(0, m, high))
    rows, columns = np.minimum(high, m - down), np.minimum(broad, n - across)
    fill, count, last = min(m, high) + min(n, broad) - 2, len(rows), int(rows[-1])
    comes = rows if adds else np.zeros(count, np.int64)
    alone, keeps = machine.array.preload_depth == 1, adds and count == 1
    if alone:
        further = rows[:-1] + comes[1:] + k + fill
        held = k
    else:
        further, held = np.maximum(k, rows[:-1]), k if keeps else max(k, last)
    enters = np.concatenate([[0], np.cumsum(further)])
    complete = enters + k + fill
    first = np.concatenate([[-comes[0]], enters[:-1]])
    moves_in = enters - comes if alone else first
    moved = np.zeros(count, np.int64) if goes_on else comes
    tiles = Tiles(
        batch, np.zeros(count, np.int64), down, across, rows, columns, moves_in, moved, enters, np.full(count, k),
        complete, complete + rows,
    )  # fmt: skip
    if goes_on:
        preload = Part("preload", "0: its sums still lie in the array", "0", 0)
    elif adds:
        preload = Part("preload", "r₁, a row of sums a cycle", str(rows[0]), int(rows[0]))
    else:
        preload = Part("preload", "0: it adds to no sums", "0", 0)
    if alone:
        moving = "rₜ before it + its rₜ + r + c - 2" if adds else "rₜ before it + r + c - 2"
        each = [
            f"({' + '.join(map(str, [before, *([into] if adds else []), fill]))})"
            for before, into in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True)
        ]
        formula, numbers = f"T * k + sum over tiles 2 to T of ({moving})", f"{count} * {k}{_sum(each)}"
    elif keeps:
        formula, numbers = "k", str(k)
    else:
        formula = "sum over tiles of max(k, rₜ)"
        numbers = _sum([f"max({k}, {each})" for each in rows.tolist()]).removeprefix(" + ")
    stream = Part("stream", formula, numbers, int(enters[-1]) + held)
    after = k + fill + last - held
    over = f"{min(m, high)} + {min(n, broad)} - 2 + {last}"
    drain = Part("drain", "r + c - 2 + r of the last tile", over, after)
    if held != k:
        drain = Part("drain", "r + c - 2 + r of the last tile - (max(k, r) - k)", f"{over} - ({held} - {k})", after)
    return tiles, (preload, stream, drain)


def _sum(terms: Sequence[str]) -> str:
    """Writes a sum such as `" + 3 * a + b"`: equal terms once, with their number; empty if there are no terms."""
    return "".join(f" + {f'{count} * ' if count > 1 else ''}{term}" for term, count in Counter(terms).items())
