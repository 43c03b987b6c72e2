"""The mapping space of a kernel: every legal combination of tiles, order, slots and cores.

A mapping is legal if it fits the scratchpad by `Demand`, has boxes of few enough axes, and keeps rows whole that a
kernel reduces after a product. The sizes of each dim come from a ladder, the finest one that keeps the space small
enough to look through; loops with very many iterations are left out, since each iteration waits for memory.

The least cycles of a mapping are a bound, no guess like the heuristic's price: they assume no latency, waits or
overhead, transfers at the rate of long streams, and full arrays. So a mapping whose bound is no better than another
mapping's cycles need not be tried.
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
"""The most mappings of a space; if a ladder gives more, the next coarser ladder is used."""

MOST_ROUNDS = 1024
"""The most tiles of a core, over all loops: a program of so many tiles takes seconds to schedule, and runs slowly."""

MOST_SLOTS = 3
"""The most slots of a buffer: with three, two loads are under way while a tile is in use."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A legal mapping, the heuristic's estimate of its cycles, and a lower bound for them."""

    mapping: Mapping
    predicted: float
    least: int

    @property
    def asked(self) -> UserMapping:
        """The mapping as a user gives it."""
        return as_given(self.mapping)


@dataclass(frozen=True, slots=True)
class Space:
    """The candidates, fastest prediction first, and the name of the ladder of sizes."""

    candidates: tuple[Candidate, ...]
    ladder: str


def mapping_space(payload_with: Callable[[int], Payload], machine: Machine, today: Mapping) -> Space:
    """The space of a kernel; it always contains `today`, the current mapping. `payload_with` returns the payload that a
    mapping with a number of slots tiles."""
    payload_with = functools.cache(payload_with)
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
    """The mappings of the finest ladder that does not give too many, and the ladder's name."""
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
    """A rule for the sizes of each dim, and the most orders of one tile."""

    sizes: Callable[[int, int], set[int]]
    """Returns the sizes, from a dim's extent and the extent of the unit that works along the dim."""
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
    """All orders of the dims, those that have a loop permuted. First come orders with the reduced dims last, beginning
    with the given order and that with a product's columns innermost, which keeps the other operand in place."""
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
    """The extent, and its parts when divided by `factor` again and again, down to the size `least`."""
    return {size for power in range(extent.bit_length()) if (size := -(-extent // factor**power)) >= least} | {extent}


def _to_least(extent: int, step: int) -> set[int]:
    """The halves of the extent, down to the unit's extent; down to a half or an eighth of that for a short dim."""
    return _halves(extent, max(step // (1 if extent > 4 * step else 2 if extent > 2 * step else 8), 1))


def _multiples(extent: int, step: int) -> set[int]:
    """Every multiple of the unit's extent, and the halves of the dim's extent."""
    return _to_least(extent, step) | set(range(step, extent + 1, step))


def _even(extent: int, step: int) -> set[int]:
    """Sizes that cut the dim into one to eight parts or a power of two, rounded up to the unit's extent, and halves."""
    counts = {*range(1, 9), *(2**power for power in range(extent.bit_length()))}
    sizes = {-(-extent // count) for count in counts}
    return {min(extent, -(-size // step) * step) for size in sizes} | _to_least(extent, step)


def _quarters(extent: int, step: int) -> set[int]:
    """The extent, its quarter, sixteenth and so on, down to the unit's extent."""
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
    """The extent of the unit that works along a dim: the array's rows or columns; without a product, the lanes for the
    innermost dim; the whole dim for a window; else 1."""
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
    """A lower bound for the cycles of every schedule of this mapping."""
    return max(_bus(payload, machine, mapping), _arrays(payload, machine))


def _bus(payload: Payload, machine: Machine, mapping: Mapping) -> int:
    """The least cycles of the bus, for the bytes that the mapping's loops load and store; 0, no bound, with several
    chiplets, as they have several memories."""
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
    """True if every element of the tensor is transferred: it has no padding, and no window skips elements."""
    return not access.padded and all(
        len(terms) < 2 and all(factor == 1 for _, factor in terms) for terms in access.axes
    )


def _times(access: Access, payload: Payload, mapping: Mapping) -> int:
    """The least number of times that the whole tensor is transferred: once per iteration of each loop that does not
    index it but has a loop inside that does. Without a product, ops have their own loops, so only once is certain."""
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
    """The least cycles of the arrays for the products, with every cell at work; 0, no bound, if tiles of zeros are
    skipped."""
    if payload.contraction is None or machine.core.skips_zero_tiles:
        return 0
    passes = matmul_passes(machine, payload.factor_bytes)
    points = payload.products * math.prod(payload.dims[dim] for dim in payload.contraction.loops)
    return math.floor(points * passes / machine.peak_macs_per_cycle)
