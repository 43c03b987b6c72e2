"""The mappings that a kernel could have: every combination of tiles, order, slots and cores that is legal.

Legal is what fits the scratchpad by `Demand`, has boxes of few enough axes, and keeps rows whole that a kernel reduces
after a product. Of each dim a ladder of sizes is taken, as fine as leaves the space small enough to look through; loops
of very many rounds are left out, since each round waits for memory.

The cycles that a mapping takes at the least are a bound and no guess, unlike the heuristic's price: no latency, no wait
and no overhead, transfers at the rate of long streams, and every array full. So a mapping whose bound is no better than
the cycles of another need not be tried.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simulator.machine.figure_places import figure
from simulator.machine.machine import Machine
from simulator.machine.machine_record import matmul_passes
from workbench.ir import Mapping
from workbench.mlir.named_dims import Access, Payload
from workbench.scheduling.core_split import share, splits
from workbench.scheduling.heuristic import Predictions
from workbench.scheduling.loop_order import loops_of, refused_order
from workbench.scheduling.scratchpad_demand import Demand
from workbench.scheduling.user_mapping import UserMapping, as_given, rounds_of, useful_slots

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
        return as_given(self.mapping)


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
        return Candidate(mapping, round(cycles, 1), _least_cycles(payload_with(mapping.buffers), machine, mapping))

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

    sizes: Callable[[int, int], set[int]]
    """Of a dim's extent, and the extent of the unit that works along it."""
    orders: int = 6


def _legal(payload_with: Callable[[int], Payload], machine: Machine, ladder: _Ladder) -> Iterator[Mapping]:
    for slots in range(1, MOST_SLOTS + 1):
        whole = payload_with(slots)
        for cores in splits(whole, len(machine.shares)):
            mine = share(whole, cores)
            demand = Demand(machine, mine, slots)
            ladders = [
                [size] if dim in mine.rows else sorted(ladder.sizes(size, _step(mine, machine, dim)), reverse=True)
                for dim, size in mine.dims.items()
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


def _halves(extent: int, least: int, factor: int = 2) -> set[int]:
    """The dim's halves, or smaller parts by another factor, down to a size."""
    return {size for power in range(extent.bit_length()) if (size := -(-extent // factor**power)) >= least} | {extent}


def _to_least(extent: int, step: int) -> set[int]:
    """The dim's halves, down to the unit's extent, half of it or an eighth where the dim is hardly longer than that."""
    return _halves(extent, max(step // (1 if extent > 4 * step else 2 if extent > 2 * step else 8), 1))


def _multiples(extent: int, step: int) -> set[int]:
    """Every multiple of the unit's extent, and the halves of these and of the dim."""
    return _to_least(extent, step) | set(range(step, extent + 1, step))


def _even(extent: int, step: int) -> set[int]:
    """Sizes that cut the dim into one to eight parts or a power of two, in whole multiples of the unit's extent."""
    counts = {*range(1, 9), *(2**power for power in range(extent.bit_length()))}
    sizes = {-(-extent // count) for count in counts}
    return {min(extent, -(-size // step) * step) for size in sizes} | _to_least(extent, step)


def _quarters(extent: int, step: int) -> set[int]:
    """Every other of the halves."""
    return _halves(extent, step, 4)


_LADDERS: dict[str, _Ladder] = {
    "all multiples of the units' extents": _Ladder(_multiples),
    "even parts": _Ladder(_even),
    "halves": _Ladder(_to_least),
    "halves, in two orders": _Ladder(_to_least, orders=2),
    "halves down to the units' extents, in two orders": _Ladder(_halves, orders=2),
    "quarters, in two orders": _Ladder(_quarters, orders=2),
}


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


def _least_cycles(payload: Payload, machine: Machine, mapping: Mapping) -> int:
    """A bound that no schedule of this mapping can go below."""
    return max(_bus(payload, machine, mapping), _arrays(payload, machine))


def _bus(payload: Payload, machine: Machine, mapping: Mapping) -> int:
    """The bytes that its loops load and store. Several memories of chiplets are no one bus: then there is no bound."""
    if figure(machine, "chiplets") != 1:
        return 0
    rate = machine.bus_bytes_per_cycle if machine.dram.kind == "simple" else machine.dram_bytes_per_cycle
    inside = payload.made - payload.results
    most: dict[int, float] = {}
    for access in payload.accesses:
        if access.value in inside or access.argument < 0 or access.argument in payload.near or not _is_plain(access):
            continue
        moved = access.bytes(payload.dims) * _times(access, payload, mapping)
        most[access.argument] = max(most.get(access.argument, 0), moved)
    return math.floor(sum(most.values()) / rate)


def _is_plain(access: Access) -> bool:
    """True if each of its elements is loaded: not of a border, nor between the elements that a window touches."""
    return not access.padded and all(
        len(terms) < 2 and all(factor == 1 for _, factor in terms) for terms in access.axes
    )


def _times(access: Access, payload: Payload, mapping: Mapping) -> int:
    """Number of times the whole tensor is transferred: once per iteration of each loop that does not index it, unless
    no loop inside does. Where there is no product, ops have loops of their own, so once is all that is sure."""
    if access.is_output or payload.contraction is None:
        return 1
    mine = share(payload, mapping.cores).dims
    loops = loops_of(access, share(payload, mapping.cores), mapping.tile, mapping.order)
    times = 1
    for dim, extent in payload.dims.items():
        if dim not in access.dims:
            shares = [min(mine[dim], extent - begin) for begin in range(0, extent, mine[dim])]
            times *= sum(math.ceil(each / mapping.tile[dim]) for each in shares) if dim in loops else len(shares)
    return times


def _arrays(payload: Payload, machine: Machine) -> int:
    """The products, with every cell of every array at work. Where tiles of zeros are left out none may be left."""
    if payload.contraction is None or machine.core.skips_zero_tiles:
        return 0
    passes = matmul_passes(machine, payload.factor_bytes)
    points = payload.products * math.prod(payload.dims[dim] for dim in payload.contraction.loops)
    return math.floor(points * passes / machine.peak_macs_per_cycle)
