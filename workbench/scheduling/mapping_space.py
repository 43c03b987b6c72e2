"""The mappings that a kernel could have: every combination of tiles, order, slots and cores that is legal.

Legal is what fits the scratchpad by `Demand`, has boxes of few enough axes, and keeps rows whole that a kernel reduces
after a product. Of each dim a ladder of sizes is taken, as fine as leaves the space small enough to look through; loops
of very many rounds are left out, since each round waits for memory.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simulator.machine.machine import Machine
from workbench.ir import Mapping
from workbench.mlir.named_dims import Payload
from workbench.scheduling.core_split import share, splits
from workbench.scheduling.heuristic import Predictions
from workbench.scheduling.least_cycles import least_cycles
from workbench.scheduling.loop_order import refused_order
from workbench.scheduling.scratchpad_demand import Demand
from workbench.scheduling.user_mapping import UserMapping, rounds_of, useful_slots

MOST_CANDIDATES = 8192
"""The largest space; a ladder that makes a larger one is replaced by a coarser one."""

MOST_ROUNDS = 1024
"""Rounds of all loops together, on a core: a program of so many tiles takes seconds to schedule, and is slow."""

MOST_SLOTS = 3
"""Slots of a buffer: with three, two loads are under way while a tile is worked on."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A legal mapping, the heuristic's guess at its cycles, and a bound that they cannot go below."""

    mapping: Mapping
    predicted: float
    least: int

    @property
    def asked(self) -> UserMapping:
        """The mapping as a user gives it."""
        made = self.mapping
        said: UserMapping = {"tile": dict(made.tile), "order": list(made.order), "buffers": made.buffers}
        return {**said, "cores": dict(made.cores)}


@dataclass(frozen=True, slots=True)
class Space:
    """Candidates, those that are predicted to be fastest first, and in words how finely dims are cut."""

    candidates: tuple[Candidate, ...]
    ladder: str


def mapping_space(payload_with: Callable[[int], Payload], machine: Machine, today: Mapping) -> Space:
    """The space of a kernel with the payload that a number of slots needs; it has today's mapping in any case."""
    found, ladder = _found(payload_with, machine)

    @functools.cache
    def predictions(slots: int) -> Predictions:
        return Predictions(payload_with(slots), machine)

    def candidate(mapping: Mapping) -> Candidate:
        cycles = predictions(mapping.buffers).of(mapping)
        return Candidate(mapping, round(cycles, 1), least_cycles(payload_with(mapping.buffers), machine, mapping))

    known = {_key(each): each for each in (*found, today)}
    return Space(tuple(sorted(map(candidate, known.values()), key=lambda each: each.predicted)), ladder)


def _found(payload_with: Callable[[int], Payload], machine: Machine) -> tuple[list[Mapping], str]:
    """The mappings by the finest ladder that does not make too many, and its name."""
    found, name = list[Mapping](), ""
    for name, ladder in _LADDERS.items():
        found = [*itertools.islice(_legal(payload_with, machine, ladder), MOST_CANDIDATES + 1)]
        if len(found) <= MOST_CANDIDATES:
            return found, name
    return found[:MOST_CANDIDATES], f"{name}, and of these mappings the first {MOST_CANDIDATES:,}"


def _key(mapping: Mapping) -> tuple[object, ...]:
    return tuple(mapping.tile.items()), mapping.order, mapping.buffers, tuple(mapping.cores.items())


@dataclass(frozen=True, slots=True)
class _Ladder:
    """The sizes of each dim, and how many orders of the same tile."""

    sizes: Callable[[Payload, Machine, str], set[int]]
    orders: int = 6


def _legal(payload_with: Callable[[int], Payload], machine: Machine, ladder: _Ladder) -> Iterator[Mapping]:
    for slots in range(1, MOST_SLOTS + 1):
        whole = payload_with(slots)
        for cores in splits(whole, len(machine.shares)):
            mine = share(whole, cores)
            demand = Demand(machine, mine, slots)
            ladders = [
                [mine.dims[dim]] if dim in mine.rows else sorted(ladder.sizes(mine, machine, dim), reverse=True)
                for dim in mine.dims
            ]
            for steps in itertools.product(*ladders):
                tile = dict(zip(mine.dims, steps, strict=True))
                if rounds_of(tile, mine.dims) > MOST_ROUNDS or useful_slots(slots, tile, mine.dims) < slots:
                    continue
                if slots > 1 and rounds_of(tile, mine.dims) == 1:  # one tile, which has one slot
                    continue
                if demand.fits(tile):
                    orders = itertools.islice(_orders(mine, tile), ladder.orders)
                    fitting = (order for order in orders if not refused_order(mine, tile, order))
                    yield from (Mapping(tile, order, slots, cores, "") for order in fitting if demand.fits(tile, order))


def _orders(payload: Payload, tile: dict[str, int]) -> Iterator[tuple[str, ...]]:
    """Orders of the dims that have a loop: first those with reduced ones last, as they come and with a product's
    columns innermost, so that other operands stay while these pass by; then all others."""
    looped = [dim for dim in payload.dims if tile[dim] < payload.dims[dim]]
    still = [dim for dim in payload.dims if dim not in looped]
    parallel = [dim for dim in looped if dim not in payload.reduced]
    columns_last = sorted(parallel, key=lambda dim: payload.kinds.get(dim) == "n")
    outer = dict.fromkeys([tuple(parallel), tuple(columns_last), *itertools.permutations(parallel)])
    inner = itertools.permutations(dim for dim in looped if dim in payload.reduced)
    usual = ((*before, *after) for after, before in itertools.product(inner, outer))
    whole = [dim for dim in still if dim not in payload.reduced]
    found = set[tuple[str, ...]]()
    for loops in itertools.chain(usual, itertools.permutations(looped)):
        if loops not in found:
            found.add(loops)
            yield (*whole, *loops, *(dim for dim in still if dim in payload.reduced))


def _fine(payload: Payload, machine: Machine, dim: str) -> set[int]:
    """Every multiple of the unit's extent, and the halves of these and of the dim."""
    extent, step = payload.dims[dim], _step(payload, machine, dim)
    return _halves(extent, _least(extent, step)) | set(range(step, extent + 1, step)) | {extent}


def _even(payload: Payload, machine: Machine, dim: str) -> set[int]:
    """Sizes that cut the dim into one to eight parts or a power of two, in whole multiples of the unit's extent."""
    extent, step = payload.dims[dim], _step(payload, machine, dim)
    counts = {*range(1, 9), *(2**power for power in range(extent.bit_length()))}
    sizes = {-(-extent // count) for count in counts}
    return {min(extent, -(-size // step) * step) for size in sizes} | _halves(extent, _least(extent, step))


def _halved(payload: Payload, machine: Machine, dim: str) -> set[int]:
    """The dim's halves, down to half the unit's extent."""
    return _halves(payload.dims[dim], _least(payload.dims[dim], _step(payload, machine, dim)))


def _quartered(payload: Payload, machine: Machine, dim: str) -> set[int]:
    """Every other of the halves."""
    extent, least = payload.dims[dim], _step(payload, machine, dim)
    sizes = {-(-extent // 4**power) for power in range(extent.bit_length())}
    return {size for size in sizes if size >= least} | {extent}


def _in_units(payload: Payload, machine: Machine, dim: str) -> set[int]:
    """The dim's halves, down to the unit's extent."""
    return _halves(payload.dims[dim], _step(payload, machine, dim))


_LADDERS: dict[str, _Ladder] = {
    "all multiples of the units' extents": _Ladder(_fine),
    "even parts": _Ladder(_even),
    "halves": _Ladder(_halved),
    "halves, in two orders": _Ladder(_halved, orders=2),
    "halves down to the units' extents, in two orders": _Ladder(_in_units, orders=2),
    "quarters, in two orders": _Ladder(_quartered, orders=2),
}


def _halves(extent: int, least: int) -> set[int]:
    return {size for power in range(extent.bit_length()) if (size := -(-extent // 2**power)) >= least} | {extent}


def _least(extent: int, step: int) -> int:
    """The smallest size: the unit's extent, half of it or an eighth where the dim is hardly longer than that."""
    return max(step // (1 if extent > 4 * step else 2 if extent > 2 * step else 8), 1)


def _step(payload: Payload, machine: Machine, dim: str) -> int:
    """The extent of the unit that works along a dim: the array's rows and columns, the lanes along the innermost."""
    kind = payload.kinds.get(dim, "")
    rows = [each for each in payload.dims if payload.kinds.get(each) == "m"]
    if payload.contraction is None:
        return machine.vector.lanes if dim == payload.in_memory[-1] else 1
    if kind == "n":
        return machine.array.columns
    if kind == "k" or (kind == "m" and dim == rows[-1]):
        return machine.array.rows
    return payload.dims[dim] if kind == "w" else 1
