"""The default mapping: how a kernel is tiled when nobody says otherwise.

The choice has reasons a person can follow: tiles are as large as the scratchpad allows, as a rule with two slots
for everything that moves, yet leave several steps so that a load can hide behind the work before it; lanes are
filled first. A contraction weighs a few hundred tilings by what bounds them: DRAM bytes, array cycles, vector
cycles. The choice is a guess about speed and never about legality: the schedule checks what it really takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from simulator.machine import Machine
from simulator.program import MAX_RANK
from simulator.systolic import SINGLE_PASS_BYTES
from workbench.ir import Mapping
from workbench.mlir.payload import Payload, PayloadOp

STEPS = 8
"""Tiles aimed at: the first load and the last store are then an eighth of the transfer time each."""

SLOTS = 2
"""Slots of a buffer that is moved inside a loop: one is worked on while the other is filled or emptied."""

TOLERANCE = 0.02
"""Of contraction tilings estimated this close to the fastest, the one with the fewest and largest tiles is taken."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Scratchpad bytes of a tiling, before it is scheduled: every tensor touched, in every slot it needs."""

    machine: Machine
    payload: Payload
    buffers: int

    def bytes(self, tile: dict[str, int]) -> int:
        made = {access.value for op in self.payload.ops for access in op.accesses if access.is_output}
        final = self.payload.last.accesses[-1].value
        tiled = any(tile[dim] < extent for dim, extent in self.payload.dims.items())
        contraction = self.payload.contraction is not None
        total, seen = 0, set[tuple[str, int]]()
        for op in self.payload.ops:
            if op.role == "fill":
                continue
            # Ops that share an inner loop share a load; a reduction walked in tiles has a loop for each op.
            loop = op.id if self._own_loop(op, tile) else -1
            for access in op.accesses:
                if (access.value, loop) in seen:
                    continue
                seen.add((access.value, loop))
                moved = access.value not in made or access.value == final or contraction
                slots = self.buffers if moved and tiled else 1
                size = math.prod(tile[dim] for dim in access.dims) * access.element_bytes
                total += slots * self.machine.pad_to_lanes(size)
        return total

    def _own_loop(self, op: PayloadOp, tile: dict[str, int]) -> bool:
        return self.payload.contraction is None and any(
            dim in self.payload.reduced and tile[dim] < self.payload.dims[dim] for dim in op.loops
        )

    def fits(self, tile: dict[str, int]) -> bool:
        return self.bytes(tile) <= self.machine.scratchpad_bytes


def rows_fit(payload: Payload, machine: Machine, buffers: int) -> bool:
    """Whether one row, with all it reduces, fits into the scratchpad, as a box of at most `MAX_RANK` axes."""
    if set(outermost(payload)) & set(payload.reduced):
        return False
    tile = {dim: extent if dim in payload.reduced else 1 for dim, extent in payload.dims.items()}
    return payload.contraction is not None or Demand(machine, payload, buffers).fits(tile)


def outermost(payload: Payload) -> list[str]:
    """Dims that must be walked one by one, because an operand's box has at most `MAX_RANK` axes."""
    return list(payload.dims)[:-MAX_RANK]


def choose(payload: Payload, machine: Machine, buffers: int = 2) -> Mapping:
    """The default mapping of a payload on a machine."""
    demand = Demand(machine, payload, buffers)
    if payload.contraction is not None:
        tile, reason = _contraction_tile(payload, machine, demand)
    else:
        tile, reason = _vector_tile(payload, machine, demand)
    order = tuple(sorted(payload.dims, key=lambda dim: dim in payload.reduced))
    return Mapping(tile, order, buffers, {}, reason)


def shrink(mapping: Mapping, payload: Payload) -> Mapping | None:
    """The next smaller tiling, or None when every tile is one: halves the longest tile, parallel dims first."""
    parallel = [dim for dim in payload.parallel if mapping.tile[dim] > 1]
    candidates = parallel or [dim for dim in payload.dims if mapping.tile[dim] > 1]
    if not candidates:
        return None
    longest = max(candidates, key=lambda dim: mapping.tile[dim])
    tile = mapping.tile | {longest: -(-mapping.tile[longest] // 2)}
    return Mapping(tile, mapping.order, mapping.buffers, mapping.cores, mapping.reason + f"; {longest} halved to fit")


def _vector_tile(payload: Payload, machine: Machine, demand: Demand) -> tuple[dict[str, int], str]:
    """Grows a tile from the innermost dim outwards, to an eighth of the work or what fits.

    Reduced dims are whole when a row fits; otherwise they are walked in tiles, once per reduction.
    """
    whole = rows_fit(payload, machine, demand.buffers)
    tile = {dim: extent if whole and dim in payload.reduced else 1 for dim, extent in payload.dims.items()}
    goal = _elements_per_step(payload, machine)
    for dim in _growth_order(payload, machine, whole):
        extent = payload.dims[dim]
        room = max(1, goal // max(1, math.prod(tile.values()) // tile[dim]))
        tile[dim] = _largest(extent, min(extent, _round_to(room, machine.vector_lanes, extent)), tile, dim, demand)
    reason = "rows stay whole; " if whole and payload.reduced else ""
    if payload.reduced and not whole:
        reason = f"a row does not fit into {machine.scratchpad_bytes} bytes, so its reduction is split; "
    steps = math.prod(math.ceil(extent / tile[dim]) for dim, extent in payload.dims.items())
    return tile, reason + f"{steps} steps of up to {math.prod(tile.values())} points"


def _elements_per_step(payload: Payload, machine: Machine) -> int:
    """Points a tile should hold: an eighth of all, but no fewer than a load that hides the memory's latency."""
    size = max(access.element_bytes for op in payload.ops for access in op.accesses)
    latency_bytes = machine.dram_latency_cycles * machine.dram_bytes_per_cycle
    points = math.prod(payload.dims.values())
    return max(points // STEPS, math.ceil(latency_bytes / size), machine.vector_elements(size))


def _growth_order(payload: Payload, machine: Machine, whole: bool) -> list[str]:
    """Innermost first, so that DRAM is read in long runs; a split reduction fills the lanes with rows before that."""
    fixed = {*outermost(payload), *(payload.reduced if whole else ())}
    free = [dim for dim in payload.dims if dim not in fixed]
    if whole or not payload.reduced:
        return free[::-1]
    return [dim for dim in free[::-1] if dim not in payload.reduced] + [
        dim for dim in free[::-1] if dim in payload.reduced
    ]


def _round_to(size: int, multiple: int, extent: int) -> int:
    return min(extent, max(multiple, size // multiple * multiple)) if size < extent else extent


def _largest(extent: int, size: int, tile: dict[str, int], dim: str, demand: Demand) -> int:
    """The largest extent up to `size` that fits, halving; 1 always stays."""
    while size > 1 and not demand.fits(tile | {dim: size}):
        size = -(-size // 2)
    return min(size, extent)


@dataclass(frozen=True, slots=True)
class _Cost:
    """Cycles a contraction's tiling is bound by."""

    memory: float
    arrays: float
    vector: float
    edges: float
    """First load and last store, which nothing hides."""

    @property
    def cycles(self) -> float:
        return max(self.memory, self.arrays, self.vector) + self.edges


def _contraction_tile(payload: Payload, machine: Machine, demand: Demand) -> tuple[dict[str, int], str]:
    priced = [(_cost(payload, machine, tile), tile) for tile in _candidates(payload, machine) if demand.fits(tile)]
    if not priced:
        return dict.fromkeys(payload.dims, 1), "the smallest tiling there is"
    fastest = min(cost.cycles for cost, _ in priced)
    bound, best = max(
        ((cost, tile) for cost, tile in priced if cost.cycles <= fastest * (1 + TOLERANCE)),
        key=lambda each: (math.prod(each[1].values()), -each[0].cycles),
    )
    limit = max(("memory", bound.memory), ("arrays", bound.arrays), ("vector", bound.vector), key=lambda each: each[1])
    return best, f"best of the tilings that fit, bound by {limit[0]} (about {bound.cycles:.0f} cycles)"


def _candidates(payload: Payload, machine: Machine) -> Iterator[dict[str, int]]:
    unit = {"m": machine.systolic_rows, "n": machine.systolic_columns, "k": machine.systolic_rows}
    choices: list[list[int]] = []
    for dim, extent in payload.dims.items():
        step = unit.get(dim[0], 1)
        sizes = {extent} if dim[0] != "b" else {1, extent}
        size = step
        while size < extent and dim[0] in unit:
            sizes.add(size)
            size *= 2
        choices.append(sorted(sizes))
    names = list(payload.dims)

    def product(position: int, tile: dict[str, int]) -> Iterator[dict[str, int]]:
        if position == len(names):
            yield dict(tile)
            return
        for size in choices[position]:
            yield from product(position + 1, tile | {names[position]: size})

    yield from product(0, {})


def _cost(payload: Payload, machine: Machine, tile: dict[str, int]) -> _Cost:
    contraction = payload.contraction
    assert contraction is not None
    steps = {dim: math.ceil(extent / tile[dim]) for dim, extent in payload.dims.items()}
    order = [dim for dim in payload.dims if dim not in payload.reduced] + list(payload.reduced)
    moved, first = 0.0, 0.0
    made = {access.value for op in payload.ops for access in op.accesses if access.is_output}
    final = payload.last.accesses[-1].value
    for op in payload.ops:
        for access in op.accesses:
            if op.role == "fill" or (access.value in made and access.value != final):
                continue
            size = math.prod(tile[dim] for dim in access.dims) * access.element_bytes
            loops = [dim for dim in order if steps[dim] > 1]
            while loops and loops[-1] not in access.dims:
                loops.pop()  # hoisted out of the loops it does not depend on
            moved += size * math.prod(steps[dim] for dim in loops)
            first += size
    per_cycle = float(machine.dram_bytes_per_cycle)
    return _Cost(
        moved / per_cycle,
        _array_cycles(payload, machine, tile, steps),
        _vector_cycles(payload, machine),
        first / per_cycle,
    )


def _array_cycles(payload: Payload, machine: Machine, tile: dict[str, int], steps: dict[str, int]) -> float:
    """Each pass of one weight tile streams its rows, or preloads for as long as the array is high."""
    rows = math.prod(tile[dim] for dim in payload.dims if dim[0] == "m")
    passes = math.prod(
        math.ceil(tile[dim] / (machine.systolic_columns if dim[0] == "n" else machine.systolic_rows))
        for dim in payload.dims
        if dim[0] in "nk"
    ) * math.prod(tile[dim] for dim in payload.dims if dim[0] == "b")
    chains = math.prod(steps[dim] for dim in payload.dims if dim not in payload.reduced)
    fill = machine.systolic_rows + machine.systolic_columns
    streamed = passes * max(rows, machine.systolic_rows) * _products(payload, machine)
    return (math.prod(steps.values()) * streamed + chains * fill) / min(machine.systolic_arrays, chains)


def _products(payload: Payload, machine: Machine) -> int:
    """How often a product of the kernel's factors goes through the array."""
    assert payload.contraction is not None
    factors = [access.element_bytes for access in payload.contraction.accesses if not access.is_output]
    return machine.matmul_passes if max(factors) > SINGLE_PASS_BYTES else 1


def _vector_cycles(payload: Payload, machine: Machine) -> float:
    """A rough count: one vector operation per op of the kernel and vector of its points."""
    points = sum(
        math.prod(payload.dims[dim] for dim in op.loops) for op in payload.ops if op.role in ("elementwise", "fill")
    )
    return points / machine.vector_elements(4)
