"""The default mapping: how a kernel is tiled unless the user gives a mapping.

The choice has readable reasons: tiles are as large as the scratchpad allows, as a rule with two slots
for everything that moves, yet leave several steps so that a load can hide behind the work before it; lanes are filled
first. For a contraction the heuristic weighs a few hundred tilings by their bounds
(`workbench.scheduling.tiling_price`), for any other kernel a few. The choice is a guess about speed and never about
legality: the schedule checks the scratchpad it really needs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from simulator.machine.machine import Machine
from simulator.machine.optional.uneven_cores.shares import speeds
from workbench.ir import Mapping
from workbench.mlir.named_dims import Payload
from workbench.scheduling.array_price import array_cycles
from workbench.scheduling.core_split import dealt_to, share, splits, spread
from workbench.scheduling.loop_order import inside_reduced
from workbench.scheduling.product_passes import Passes
from workbench.scheduling.scratchpad_demand import Demand, outermost, rows_fit
from workbench.scheduling.tiling_price import NEVER, Price, Slowdown, traffic
from workbench.scheduling.vector_price import tile_cycles

STEPS = 16
"""Tiles at most: the first load and the last store, which nothing hides, are then a sixteenth of the transfer each."""

SLOTS = 2
"""Slots of a buffer that is moved inside a loop: one is worked on while the other is filled or emptied."""

TOLERANCE = 0.02
"""Of contraction tilings estimated this close to the fastest, the one with the fewest and largest tiles is taken."""


def choose(payload: Payload, machine: Machine, buffers: int = 2, cores: dict[str, int] | None = None) -> Mapping:
    """The default mapping of a payload on a machine, spread over its cores as said, or as seems best.

    More cores are better than fewer unless they are slower: all share one bus, and may load the same bytes more often.
    """
    ways = splits(payload, len(machine.shares)) if cores is None else [cores]
    priced = [_on_cores(payload, machine, buffers, way, cores is not None) for way in ways]
    fastest = min(cycles for cycles, _ in priced)
    chosen = next(mapping for cycles, mapping in priced if cycles <= fastest * (1 + TOLERANCE))
    reason = chosen.reason
    if payload.near:
        reason += "; some of what it moves is in the common memory"
    if buffers < SLOTS:
        reason += "; slots for more do not fit"
    return replace(chosen, reason=reason)


def _on_cores(
    payload: Payload, machine: Machine, buffers: int, cores: dict[str, int], asked: bool
) -> tuple[float, Mapping]:
    """The mapping if dims are split over so many cores, and its cycles."""
    mine, dealt = share(payload, cores), dealt_to(payload, machine, cores)
    demand = Demand(machine, mine, buffers)
    mapped = _contraction_mapping if payload.contraction is not None else _vector_mapping
    price, mapping = mapped(mine, machine, demand, len(dealt))
    cycles = _of_all(price, machine, dealt)
    return cycles, replace(mapping, cores=cores, spread=spread(payload, machine, cores, asked))


def predicted(
    payload: Payload, machine: Machine, mapping: Mapping, slowdown: Slowdown, steps: dict[tuple[int, ...], float]
) -> float:
    """The cycles of a mapping by which this heuristic would weigh it against others. `steps` keeps the work on tiles
    from one mapping to the next."""
    mine, dealt = share(payload, mapping.cores), dealt_to(payload, machine, mapping.cores)
    demand, cores = Demand(machine, mine, mapping.buffers), len(dealt)
    if payload.contraction is None:
        key = tuple(mapping.tile.values())
        if key not in steps:
            steps[key] = tile_cycles(mine, machine, mapping.tile)
        price = _vector_price(demand, mapping.tile, mapping.order, cores, slowdown, steps[key])
    else:
        passes = Passes(mine, machine)
        price = _product_price(demand, mapping.tile, mapping.order, cores, slowdown, passes)
    return _of_all(price, machine, dealt)


def _of_all(price: Price, machine: Machine, dealt: Counter[int]) -> float:
    """Cycles until the last core has worked through its shares, each at a price."""
    speed = speeds(machine)
    waits = 2 * machine.dram_latency_cycles  # for the first load and the last store, of each share of a core but one
    cycles = max(count * price.cycles(float(speed[core])) + (count - 1) * waits for core, count in dealt.items())
    if len(dealt) > 1:
        cycles += machine.network.latency_cycles + machine.across_cycles  # they meet
    return cycles


def _reduced_last(payload: Payload) -> tuple[str, ...]:
    return tuple(sorted(payload.dims, key=lambda dim: dim in payload.reduced))


def shrink(mapping: Mapping, payload: Payload) -> Mapping | None:
    """The next smaller tiling, or None when every tile is one: halves the longest tile, parallel dims first."""
    parallel = [dim for dim in payload.parallel if mapping.tile[dim] > 1]
    candidates = parallel or [dim for dim in payload.dims if mapping.tile[dim] > 1 and dim not in payload.rows]
    if not candidates:
        return None
    longest = max(candidates, key=lambda dim: mapping.tile[dim])
    tile = mapping.tile | {longest: -(-mapping.tile[longest] // 2)}
    return replace(mapping, tile=tile, reason=mapping.reason + f"; {longest} halved to fit")


def _vector_mapping(payload: Payload, machine: Machine, demand: Demand, cores: int) -> tuple[Price, Mapping]:
    """A core's tiling of a kernel without a product: a sixteenth of the work a step.

    Where such a small load does not hide the memory's latency, fewer steps are weighed against it. Elsewhere they are
    not, though tiles that fill the words of all lanes reduce across lanes less often: the measured chip shows no such
    gain (docs/accuracy.md), so the cost of a tree across lanes must be settled first. On a machine with blocks they
    are: where one tensor lies in another order than the rest, small tiles move the same blocks again and again.
    """
    slowdown, order = functools.cache(machine.dram_slowdown), _reduced_last(payload)
    size = max(access.element_bytes for op in payload.ops for access in op.accesses)
    points = math.prod(payload.dims.values())
    large = points // STEPS * size >= machine.dram_latency_cycles * machine.dram_bytes_per_cycle
    counts = [2**power for power in range(STEPS.bit_length())]
    if large:
        counts = [STEPS] if machine.dram_block is None else counts[::-1]
    tiles = [_vector_tile(payload, machine, demand, count) for count in counts]
    priced = [
        (_vector_price(demand, tile, order, cores, slowdown, tile_cycles(payload, machine, tile)), tile)
        for tile in tiles
    ]
    fastest = min(price.cycles() for price, _ in priced)
    price, tile = next(each for each in priced if each[0].cycles() <= fastest * (1 + TOLERANCE))
    whole = rows_fit(payload, machine, demand.buffers)
    reason = "rows stay whole; " if whole and payload.reduced else ""
    if payload.reduced and not whole:
        reason = f"a row does not fit into {machine.scratchpad_bytes} bytes, so its reduction is split; "
    reason += f"{price.steps} steps of up to {math.prod(tile.values())} points"
    return price, Mapping(tile, order, demand.buffers, {}, reason)


def _vector_tile(payload: Payload, machine: Machine, demand: Demand, steps: int) -> dict[str, int]:
    """Grows a tile from the innermost dim outwards, to its part of the work or as far as it fits.

    Reduced dims are whole when a row fits; otherwise they are walked in tiles, once per reduction.
    """
    whole = rows_fit(payload, machine, demand.buffers)
    tile = {dim: extent if whole and dim in payload.reduced else 1 for dim, extent in payload.dims.items()}
    size = max(access.element_bytes for op in payload.ops for access in op.accesses)
    goal = max(math.prod(payload.dims.values()) // steps, machine.vector_elements(size))
    for dim in _growth_order(payload, machine, whole):
        extent = payload.dims[dim]
        room = max(1, goal // max(1, math.prod(tile.values()) // tile[dim]))
        whole_vectors = _round_to(room, _packed(dim, tile, payload, machine), extent)
        tile[dim] = _largest(extent, min(extent, whole_vectors), tile, dim, demand)
    return tile


def _growth_order(payload: Payload, machine: Machine, whole: bool) -> list[str]:
    """Innermost first, so that DRAM is read in long runs; a split reduction fills the lanes with rows before that."""
    fixed = {*outermost(payload), *(payload.reduced if whole else ())}
    free = [dim for dim in payload.in_memory if dim not in fixed]
    if whole or not payload.reduced:
        return free[::-1]
    return [dim for dim in free[::-1] if dim not in payload.reduced] + [
        dim for dim in free[::-1] if dim in payload.reduced
    ]


def _packed(dim: str, tile: dict[str, int], payload: Payload, machine: Machine) -> int:
    """The multiple that a tile should have along a dim: the lanes for the innermost, then the elements of a lane, and
    the rows of a block for the dim next to the innermost."""
    *outer, innermost = payload.in_memory
    if dim == innermost:
        return machine.vector.lanes
    size = max(access.element_bytes for op in payload.ops for access in op.accesses)
    inside = math.prod(tile[each] for each in outer if each != dim)
    packed = -(-machine.lane_elements(size) // inside)
    block = machine.dram_block
    return math.lcm(packed, block.rows) if block is not None and dim == outer[-1] else packed


def _round_to(size: int, multiple: int, extent: int) -> int:
    return min(extent, max(multiple, size // multiple * multiple)) if size < extent else extent


def _largest(extent: int, size: int, tile: dict[str, int], dim: str, demand: Demand) -> int:
    """The largest extent up to `size` that fits, halving; 1 always stays."""
    while size > 1 and not demand.fits(tile | {dim: size}):
        size = -(-size // 2)
    return min(size, extent)


def _contraction_mapping(payload: Payload, machine: Machine, demand: Demand, cores: int) -> tuple[Price, Mapping]:
    """A core's tiling of a contraction that runs on so many cores, and its bound."""
    slowdown = functools.cache(machine.dram_slowdown)  # which may read the file of a memory: once for many tilings
    passes = Passes(payload, machine)
    cuts = [payload.windows[cut:] for cut in range(len(payload.windows) + 1)]
    for windows, least in [*((windows, False) for windows in cuts), ((), True)]:
        priced = [
            (_product_price(demand, tile, order, cores, slowdown, passes), tile, order)
            for tile in _candidates(payload, machine, windows, least)
            if demand.fits(tile)
            for order in _orders(payload)
        ]
        if priced:
            break
    else:
        tile = {dim: extent if dim in payload.rows else 1 for dim, extent in payload.dims.items()}
        return NEVER, Mapping(tile, _reduced_last(payload), demand.buffers, {}, "the smallest tiling there is")
    fastest = min(cost.cycles() for cost, _, _ in priced)
    bound, tile, order = max(
        (each for each in priced if each[0].cycles() <= fastest * (1 + TOLERANCE)),
        key=lambda each: (math.prod(each[1].values()), -each[0].cycles()),
    )
    limit = max(("memory", bound.memory), ("arrays", bound.arrays), ("vector", bound.vector), key=lambda each: each[1])
    reason = f"best of the tilings that fit, bound by {limit[0]} (about {bound.cycles():.0f} cycles)"
    return bound, Mapping(tile, order, demand.buffers, {}, reason)


def _orders(payload: Payload) -> list[tuple[str, ...]]:
    """The dims as they come; where windows move, also with the output's columns innermost.

    Then an input tile, with its halo, stays in place while the weights of all columns pass by.
    """
    usual = _reduced_last(payload)
    if not payload.windows:
        return [usual]
    place = {"n": 1, "k": 2, "w": 2}
    return [usual, tuple(sorted(usual, key=lambda dim: place.get(payload.kinds.get(dim, ""), 0)))]


def _candidates(payload: Payload, machine: Machine, windows: Sequence[str], least: bool) -> Iterator[dict[str, int]]:
    """Tilings with the given dims of the window whole, and others of it cut into single rows.

    The `least` ones leave part of the array empty, for a scratchpad too small for tiles that fill it.
    """
    names = list(payload.dims)
    cut = [dim for dim in payload.windows if dim not in windows]
    choices = [[1] if dim in cut else sorted(_sizes(payload, machine, dim, least)) for dim in names]
    for sizes in itertools.product(*choices):
        yield dict(zip(names, sizes, strict=True))


def _sizes(payload: Payload, machine: Machine, dim: str, least: bool) -> set[int]:
    """Tiles worth a look: multiples of the array's extent, whole windows, few cuts through a row of an image."""
    extent, kind = payload.dims[dim], payload.kinds.get(dim, "")
    rows = [each for each in payload.dims if payload.kinds.get(each) == "m"]
    if kind in ("w", "") or dim in payload.rows:
        return {extent}
    if kind == "b":
        return {1, extent}
    if kind == "m" and len(rows) > 1:
        halves = {-(-extent // 2**power) for power in range(extent.bit_length())}
        return {size for size in halves if size >= machine.array.rows} | {extent} if dim == rows[-1] else halves
    step = machine.array.columns if kind == "n" else machine.array.rows
    if least:
        return {min(extent, -(-step // 2**power)) for power in range(step.bit_length() + 1)}
    if extent <= 4 * step:  # of few tiles, halves may overlap better than they fill the array
        step = -(-step // 2)
    counts = {-(-extent // (step * 2**power)) for power in range(extent.bit_length())}
    even = {-(-extent // (step * count)) * step for count in counts}  # as many tiles, with no short one left over
    return {extent, *(size for size in even if size < extent)}


def _steps(payload: Payload, tile: dict[str, int], order: Sequence[str]) -> tuple[dict[str, int], int, int]:
    """Along each dim, tiles of operands in all, and tiles of the result that are done one after the other."""
    steps = {dim: math.ceil(extent / tile[dim]) for dim, extent in payload.dims.items()}
    together = inside_reduced(payload, tile, order)
    tiles = math.prod(steps[dim] for dim in payload.parallel if dim not in together)
    return steps, math.prod(steps.values()), tiles


def _vector_price(
    demand: Demand, tile: dict[str, int], order: Sequence[str], cores: int, slowdown: Slowdown, step: float
) -> Price:
    """A `step` is the work on a tile."""
    payload, machine = demand.payload, demand.machine
    _, every, tiles = _steps(payload, tile, order)
    moved = traffic(demand.touched(tile), payload, machine, tile, order, cores, slowdown)
    latency = float(machine.dram_latency_cycles)
    busy = step * math.prod(extent / tile[dim] for dim, extent in payload.dims.items())
    return Price(moved, 0.0, busy, step, step * every / tiles, step, tiles, every, demand.buffers, latency)


def _product_price(
    demand: Demand,
    tile: dict[str, int],
    order: Sequence[str],
    cores: int,
    slowdown: Slowdown,
    passes: Passes,
) -> Price:
    """The `passes` are the same for all tilings."""
    payload, machine, slots = demand.payload, demand.machine, demand.buffers
    steps, every, tiles = _steps(payload, tile, order)
    moved = traffic(demand.touched(tile), payload, machine, tile, order, cores, slowdown)
    latency = float(machine.dram_latency_cycles)
    before, after = passes.before(steps), passes.after(tile)
    arrays, product, fill = array_cycles(payload, machine, tile, steps, slots)
    step = product + before / every + passes.first_before
    work = step + fill + after / tiles + passes.first_after
    chain = work + (every // tiles - 1) * step
    if payload.rows or payload.prologue:  # the passes of a tile are before those of the next in the vector unit's queue
        arrays = max(arrays, (tiles - 1) * chain)
    return Price(moved, arrays, before + after, work, chain, step, tiles, every, slots, latency)
