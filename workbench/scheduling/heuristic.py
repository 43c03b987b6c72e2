"""The default mapping: how a kernel is tiled unless the user gives a mapping.

The choice has readable reasons: tiles are as large as the scratchpad allows, usually with two slots
for everything that moves, yet leave several steps so that a load can hide behind the work before it; lanes are filled
first. For a contraction the heuristic compares a few hundred tilings by their bounds
(`workbench.scheduling.tiling_price`), for any other kernel a few. The choice is a guess about speed, never about
legality: scheduling then checks the scratchpad bytes that are really needed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from simulator.machine.machine import Machine
from simulator.machine.optional.uneven_cores.shares import speeds
from workbench.ir import Mapping
from workbench.mlir.named_dims import Payload
from workbench.scheduling.core_price import CorePrice
from workbench.scheduling.core_split import dealt_to, share, splits, spread
from workbench.scheduling.scratchpad_demand import Demand, outermost, rows_fit
from workbench.scheduling.tiling_price import NEVER, Price, in_short_runs
from workbench.scheduling.user_mapping import useful_slots

STEPS = 16
"""The most tiles. The first load and the last store, which no work hides, are then each a sixteenth of the transfer."""

SLOTS = 2
"""Slots of a buffer that is loaded or stored inside a loop: one is in use while the other is filled or emptied."""

WEIGHED = (SLOTS, 3)
"""Numbers of slots that are compared for a product: with three, two loads wait for the memory at the same time."""

TOLERANCE = 0.02
"""Tilings estimated within this fraction of the fastest count as equal. Of these a contraction gets the one with the
fewest slots, then with the largest tiles."""


def choose(
    payload: Payload, machine: Machine, slots: Sequence[int] = WEIGHED, cores: dict[str, int] | None = None
) -> Mapping:
    """The default mapping of a payload on a machine, with one of these numbers of slots, the smallest first. It is
    spread over `cores`, or as the prices suggest if that is None.

    More cores are chosen unless they are slower: all share one bus, and may load the same bytes more often.
    """
    ways = splits(payload, len(machine.shares)) if cores is None else [cores]
    priced = [_on_cores(payload, machine, slots, way, cores is not None) for way in ways]
    fastest = min(cycles for cycles, _ in priced)
    chosen = next(mapping for cycles, mapping in priced if cycles <= fastest * (1 + TOLERANCE))
    reason = chosen.reason
    if payload.near:
        reason += "; some of what it moves is in the common memory"
    if chosen.buffers < SLOTS:
        reason += "; slots for more do not fit"
    return replace(chosen, reason=reason)


def _on_cores(
    payload: Payload, machine: Machine, slots: Sequence[int], cores: dict[str, int], asked: bool
) -> tuple[float, Mapping]:
    """The estimated cycles and the mapping, if the dims are split over these cores."""
    dealt = dealt_to(payload, machine, cores)
    priced = CorePrice(share(payload, cores), machine, len(dealt))
    mapped = _contraction_mapping if payload.contraction is not None else _vector_mapping
    price, mapping = mapped(priced, machine, slots)
    cycles = _of_all(price, machine, dealt)
    return cycles, replace(mapping, cores=cores, spread=spread(payload, machine, cores, asked))


class Predictions:
    """Estimates the cycles of a kernel's mappings, as the heuristic does when it compares tilings."""

    def __init__(self, payload: Payload, machine: Machine) -> None:
        self._payload, self._machine = payload, machine
        self._prices: dict[tuple[tuple[str, int], ...], tuple[CorePrice, Counter[int]]] = {}

    def of(self, mapping: Mapping) -> float:
        key = tuple(mapping.cores.items())
        if key not in self._prices:
            dealt = dealt_to(self._payload, self._machine, mapping.cores)
            mine = share(self._payload, mapping.cores)
            self._prices[key] = CorePrice(mine, self._machine, len(dealt)), dealt
        priced, dealt = self._prices[key]
        return _of_all(priced.of(mapping.tile, mapping.order, mapping.buffers), self._machine, dealt)


def _of_all(price: Price, machine: Machine, dealt: Counter[int]) -> float:
    """Cycles until the last core has finished all its shares, each of which costs `price`."""
    speed = speeds(machine)
    waits = 2 * machine.dram_latency_cycles  # for the first load and the last store of each further share of a core
    cycles = max(count * price.cycles(float(speed[core])) + (count - 1) * waits for core, count in dealt.items())
    if len(dealt) > 1:
        cycles += machine.network.latency_cycles + machine.across_cycles  # of the barrier at the end
    return cycles


def _reduced_last(payload: Payload) -> tuple[str, ...]:
    return tuple(sorted(payload.dims, key=lambda dim: dim in payload.reduced))


def shrink(mapping: Mapping, payload: Payload) -> Mapping | None:
    """The mapping with its longest tile dim halved, a parallel one if possible; None if no dim can be halved."""
    parallel = [dim for dim in payload.parallel if mapping.tile[dim] > 1]
    cut = [] if payload.keeps_rows else [dim for dim in payload.reduced if dim not in payload.rows]
    candidates = parallel or [dim for dim in cut if mapping.tile[dim] > 1]
    if not candidates:
        return None
    longest = max(candidates, key=lambda dim: mapping.tile[dim])
    tile = mapping.tile | {longest: -(-mapping.tile[longest] // 2)}
    return replace(mapping, tile=tile, reason=mapping.reason + f"; {longest} halved to fit")


def _vector_mapping(priced: CorePrice, machine: Machine, slots: Sequence[int]) -> tuple[Price, Mapping]:
    """A core's tiling of a kernel without a product: each step is a sixteenth of the work.

    If so small a load does not hide the memory's latency, fewer steps are tried too; also on a machine with blocks,
    where small tiles move the same blocks repeatedly if one tensor lies in another order than the rest. Otherwise fewer
    steps are not tried, although larger tiles reduce across lanes less often: the measured chip shows no such gain
    (docs/accuracy.md), so the cost of a tree across lanes must be settled first.
    """
    payload = priced.payload
    demand, order = Demand(machine, payload, slots[0]), _reduced_last(payload)
    bytes_in_step = math.prod(payload.dims.values()) // STEPS * payload.widest_bytes
    large = bytes_in_step >= machine.dram_latency_cycles * machine.dram_bytes_per_cycle
    powers = [2**power for power in range(STEPS.bit_length())]
    counts = powers
    if large:
        counts = [STEPS] if machine.dram_block is None else powers[::-1]
    whole = rows_fit(payload, machine, demand.buffers)
    tiles = [_vector_tile(payload, machine, demand, count, whole) for count in counts]
    prices = [(priced.of(tile, order, slots[0]), tile) for tile in tiles]
    reason = "rows stay whole; " if whole and payload.reduced else ""
    if payload.reduced and not whole:
        reason = f"a row does not fit into {machine.scratchpad_bytes} bytes, so its reduction is split; "
    fastest = min(price.cycles() for price, _ in prices)
    price, tile = next(each for each in prices if each[0].cycles() <= fastest * (1 + TOLERANCE))
    if in_short_runs(payload, machine, tile):
        ways = [whole] if payload.keeps_rows or not whole else [True, False]
        tiles = [_vector_tile(payload, machine, demand, count, rows) for rows in ways for count in powers]
        longer = min(((priced.of(each, order, slots[0]), each) for each in tiles), key=lambda each: each[0].cycles())
        if longer[0].cycles() < price.cycles() * (1 - TOLERANCE):
            price, tile = longer
            reason = "tiles are wide enough for the memory's requests; "
    reason += f"{price.steps} steps of up to {math.prod(tile.values())} points"
    return price, Mapping(tile, order, demand.buffers, {}, reason)


def _vector_tile(payload: Payload, machine: Machine, demand: Demand, steps: int, whole: bool) -> dict[str, int]:
    """Grows a tile from the innermost dim outwards, to one of `steps` parts of the work or as far as it fits.

    With `whole`, reduced dims are not cut; otherwise they are walked in tiles, once per reduction.
    """
    tile = {dim: extent if whole and dim in payload.reduced else 1 for dim, extent in payload.dims.items()}
    goal = max(math.prod(payload.dims.values()) // steps, machine.vector_elements(payload.widest_bytes))
    for dim in _growth_order(payload, whole):
        extent = payload.dims[dim]
        room = max(1, goal // max(1, math.prod(tile.values()) // tile[dim]))
        whole_vectors = _round_to(room, _packed(dim, tile, payload, machine), extent)
        tile[dim] = _largest(extent, min(extent, whole_vectors), tile, dim, demand)
    return tile


def _growth_order(payload: Payload, whole: bool) -> list[str]:
    """The dims in which a tile grows, innermost first, so that DRAM is read in long runs; reduced dims come last, so
    that a split reduction fills the lanes with rows."""
    fixed = {*outermost(payload), *(payload.reduced if whole else ())}
    free = [dim for dim in payload.in_memory if dim not in fixed]
    return sorted(free[::-1], key=lambda dim: dim in payload.reduced)


def _packed(dim: str, tile: dict[str, int], payload: Payload, machine: Machine) -> int:
    """The number whose multiple a tile's size along a dim should be: the lanes for the innermost dim; for others enough
    to fill the elements of a lane, and for the second innermost also the rows of a block."""
    *outer, innermost = payload.in_memory
    if dim == innermost:
        return machine.vector.lanes
    inside = math.prod(tile[each] for each in outer if each != dim)
    packed = -(-machine.lane_elements(payload.widest_bytes) // inside)
    block = machine.dram_block
    return math.lcm(packed, block.rows) if block is not None and dim == outer[-1] else packed


def _round_to(size: int, multiple: int, extent: int) -> int:
    return min(extent, max(multiple, size // multiple * multiple)) if size < extent else extent


def _largest(extent: int, size: int, tile: dict[str, int], dim: str, demand: Demand) -> int:
    """The first of `size`, its half, its quarter and so on with which the tile fits, at least 1."""
    while size > 1 and not demand.fits(tile | {dim: size}):
        size = -(-size // 2)
    return min(size, extent)


def _contraction_mapping(priced: CorePrice, machine: Machine, slots: Sequence[int]) -> tuple[Price, Mapping]:
    """The price and the mapping of a core's best tiling of a contraction."""
    payload = priced.payload
    cuts = [payload.windows[cut:] for cut in range(len(payload.windows) + 1)]
    for windows, least in [*((windows, False) for windows in cuts), ((), True)]:
        found = [
            (priced.of(tile, order, count), tile, order)
            for tile in _candidates(payload, machine, windows, least)
            for count in _useful(slots, tile, payload)
            if Demand(machine, payload, count).fits(tile)
            for order in _orders(payload, tile)
        ]
        if found:
            break
    else:
        tile = {dim: extent if dim in payload.rows else 1 for dim, extent in payload.dims.items()}
        return NEVER, Mapping(tile, _reduced_last(payload), slots[0], {}, "the smallest tiling there is")
    fastest = min(cost.cycles() for cost, _, _ in found)
    bound, tile, order = max(
        (each for each in found if each[0].cycles() <= fastest * (1 + TOLERANCE)),
        key=lambda each: (-each[0].slots, _matrix_points(each[1], payload), -each[0].cycles()),
    )
    limit = max(("memory", bound.memory), ("arrays", bound.arrays), ("vector", bound.vector), key=lambda each: each[1])
    reason = f"best of the tilings that fit, bound by {limit[0]} (about {bound.cycles():.0f} cycles)"
    return bound, Mapping(tile, order, bound.slots, {}, reason)


def _matrix_points(tile: dict[str, int], payload: Payload) -> int:
    """Points of a tile in one matrix of a batch. More matrices in a tile save no bytes, since no two share data."""
    return math.prod(size for dim, size in tile.items() if payload.kinds.get(dim) != "b")


def _useful(slots: Sequence[int], tile: dict[str, int], payload: Payload) -> list[int]:
    """The least number of slots, and those larger numbers that the loops have enough iterations for."""
    return [count for count in slots if count == slots[0] or useful_slots(count, tile, payload.dims) == count]


def _orders(payload: Payload, tile: dict[str, int]) -> list[tuple[str, ...]]:
    """The orders to try: the dims as they are, reduced ones last; and a second one if rows and columns are both cut.

    The second has the output's rows innermost of the parallel dims: a tile of the operand with the columns stays in
    place meanwhile. If windows move, it has the output's columns there: an input tile, with its halo, stays in place.
    """
    usual = _reduced_last(payload)
    cut = {kind for dim, kind in payload.kinds.items() if tile[dim] < payload.dims[dim]}
    if not payload.windows and not {"m", "n"} <= cut:
        return [usual]
    place = {"n": 1, "k": 2, "w": 2} if payload.windows else {"m": 1, "k": 2}
    return [usual, tuple(sorted(usual, key=lambda dim: place.get(payload.kinds.get(dim, ""), 0)))]


def _candidates(payload: Payload, machine: Machine, windows: Sequence[str], least: bool) -> Iterator[dict[str, int]]:
    """Tilings that leave these dims of the window whole and cut its other dims to size 1.

    With `least`, tiles are so small that part of the array stays empty, for a scratchpad too small for larger tiles.
    """
    names = list(payload.dims)
    cut = [dim for dim in payload.windows if dim not in windows]
    choices = [[1] if dim in cut else sorted(_sizes(payload, machine, dim, least)) for dim in names]
    for sizes in itertools.product(*choices):
        yield dict(zip(names, sizes, strict=True))


def _sizes(payload: Payload, machine: Machine, dim: str, least: bool) -> set[int]:
    """Sizes worth trying for a dim: multiples of the array's extent, whole windows, few cuts through an image's row."""
    extent, kind = payload.dims[dim], payload.kinds.get(dim, "")
    rows = [each for each in payload.dims if payload.kinds.get(each) == "m"]
    if kind in ("w", "") or dim in payload.rows:
        return {extent}
    if kind == "b":
        return {-(-extent // 2**power) for power in range(extent.bit_length())} | {1}
    if kind == "m" and len(rows) > 1:
        halves = {-(-extent // 2**power) for power in range(extent.bit_length())}
        return {size for size in halves if size >= machine.array.rows} | {extent} if dim == rows[-1] else halves
    step = machine.array.columns if kind == "n" else machine.array.rows
    if least:
        return {min(extent, -(-step // 2**power)) for power in range(step.bit_length() + 1)}
    if extent <= 4 * step:  # with few tiles, half-filled arrays may cost less than the lost overlap
        step = -(-step // 2)
    counts = {-(-extent // (step * 2**power)) for power in range(extent.bit_length())}
    even = {-(-extent // (step * count)) * step for count in counts}  # as many tiles, of sizes as equal as possible
    return {extent, *(size for size in even if size < extent)}
