"""The default tile of attention: the tile with the fewest estimated cycles.

A step is one block of keys for one block of queries. Its products keep the arrays busy, and its passes the vector unit;
if a block has two parts, the arrays work on one part while the vector unit works on the other. Loads run beside steps.
Three times are not hidden: the latency of one number through a whole step, which small blocks pay often; the loads of
the first step, and the store of the last step, which are long with large blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from simulator.machine.machine import Machine
from simulator.machine.machine_record import matmul_passes
from simulator.units.systolic import estimate
from templates.attention_call import Call
from templates.attention_tiles import NAMES, Tiles, buffers, fits, tiles_for
from templates.writing import element_bytes

HARDLY_MORE = 1.03
"""The largest price, as a multiple of the least one, of a tile that is chosen because it moves fewer bytes."""

OPERATIONS = 4
"""ALU operations on a score: a maximum, a difference, a scale and a sum."""


def chosen_tile(of: Call, slots: int, machine: Machine) -> dict[str, int]:
    """The tile that moves the fewest bytes, among those that fit and cost hardly more than the cheapest.

    Of several such tiles, the largest. If none fits, a tile of one element. Widths are cut as long as that saves
    cycles.
    """
    dims = of.dims()
    best, least = dict.fromkeys(NAMES, 1), math.inf
    for widths in zip(_cuts(of.width), _cuts(of.value_width), strict=True):
        every = (tiles_for(of, each, slots, machine) for each in _candidates(of, widths, machine))
        prices = [(*_price(of, tiles, machine), tiles.sizes) for tiles in every if fits(of, tiles, machine)]
        now = min((cycles for cycles, _, _ in prices), default=math.inf)
        if now >= least < math.inf:
            break
        if prices:
            cheap = [(moved, sizes) for cycles, moved, sizes in prices if cycles <= HARDLY_MORE * now]
            best = min(cheap, key=lambda each: (each[0], -math.prod(each[1].values())))[1]
        least = now
    return {name: best[letter] for letter, name in NAMES.items() if name in dims}


def _cuts(width: int) -> list[int]:
    """A width, its half, its quarter and so on, 20 numbers."""
    return [-(-width // 2**cut) for cut in range(20)]


def _candidates(of: Call, widths: tuple[int, int], machine: Machine) -> Iterator[dict[str, int]]:
    """Yields sizes of tiles: divisors of the numbers of matrices, and queries and keys halved again and again."""
    dims = of.dims()
    several = {each: dims.get(NAMES[each], 1) for each in "hg"}
    divisors = {each: [n for n in range(1, several[each] + 1) if several[each] % n == 0] for each in "hg"}
    for h in divisors["h"]:
        for g in divisors["g"]:
            for q in _halves(of.queries, machine.array.columns):
                for k in _halves(of.keys, machine.array.rows):
                    yield {"h": h, "g": g, "q": q, "k": k, "w": widths[0], "v": widths[1]}


def _halves(extent: int, unit: int) -> Iterator[int]:
    """Yields an extent, its half, its quarter and so on; sizes above `unit` are rounded up to multiples of `unit`."""
    count, before = 1, 0
    while before != 1:
        size = -(-extent // count)
        size = min(extent, -(-size // unit) * unit) if size > unit else size
        if size != before:
            yield size
        count, before = 2 * count, size


def _price(of: Call, tiles: Tiles, machine: Machine) -> tuple[float, float]:
    """The estimated cycles of a kernel, and the cycles in which its bytes pass the memory's bus."""
    size, extents = tiles.sizes, of.dims()
    dims = {letter: extents.get(name, 1) for letter, name in NAMES.items()}
    trips = {each: -(-dims[each] // size[each]) for each in NAMES}
    others = math.prod(walk.extent for walk in of.walks if not walk.letter)
    outer = others * trips["h"]
    inner = trips["g"] * trips["q"]
    seen = [of.keys] * trips["q"]
    if of.causal:
        seen = [min(of.keys, (place + 1) * size["q"]) for place in range(trips["q"])]
    times = trips["g"] * trips["v"]
    visited, whole = times * sum(-(-each // size["k"]) for each in seen), times * sum(seen) / size["k"]
    held = {name: math.prod(each.shape) * element_bytes(each.dtype) for name, each in buffers(of, tiles).items()}
    rate = float(machine.bus_bytes_per_cycle)
    keys, mask = (trips["w"] * held["key"] + held["value"]) / rate, held.get("attn_mask", 0) / rate
    query, result = held["query"] / rate, held["result"] / rate
    again = visited * trips["w"] if trips["w"] > 1 else inner
    moved = outer * (
        (1 if tiles.held else visited) * keys + again * query + inner * trips["v"] * result + visited * mask
    )
    way = _way(of, tiles, machine)
    work = whole * _step(of, tiles, machine) + visited * way
    if not tiles.held:
        work = max(work, visited * (keys + mask)) + (again - inner) * way / 2
    elif tiles.held == 1:
        work += keys
    cycles = max(outer * work, moved)
    dealt = next((each for each in (others, trips["h"], trips["g"], trips["q"]) if each > 1), 1)
    cycles *= -(-dealt // machine.core.count) / dealt
    cycles += keys + mask + query + result + outer * inner * way / 4
    return cycles, moved


def _step(of: Call, tiles: Tiles, machine: Machine) -> float:
    """Cycles of a step: arrays and vector unit work side by side if a block has two parts."""
    parts = 2 if tiles.split else 1
    size = dict(tiles.sizes)
    if tiles.split:
        size[tiles.split] = tiles.part
    scores, values = _products(of, size, tiles.across, machine)
    passes = _passes(of, tiles, size, machine)
    if parts == 1:
        return scores + passes + values
    first = max(2 * scores, scores + passes)
    return max(first + values, first + passes) + values


def _products(of: Call, size: dict[str, int], across: bool, machine: Machine) -> tuple[float, float]:
    """Cycles of the arrays for both products of a part."""
    many, few = size["g"] * size["q"], size["h"]
    times = matmul_passes(machine, element_bytes(of.narrow))

    def cycles(m: int, k: int) -> int:
        return estimate(few, *((m, many) if across else (many, m)), k, machine, times)

    return cycles(size["k"], of.width), cycles(size["v"], size["k"])


def _passes(of: Call, tiles: Tiles, size: dict[str, int], machine: Machine) -> float:
    """Cycles of the vector unit for the scores of a part."""
    lanes, each = machine.vector.lanes, machine.lane_elements(element_bytes(of.accumulated))
    along, rest = ("q", "k") if tiles.across else ("k", "q")
    lead = size["h"] * size["g"]
    vectors = -(-size[along] // lanes) * -(-lead * size[rest] // each)
    operations = 1 + max(1.0, (OPERATIONS - 1) / machine.vector.alus, machine.vector.special_interval_cycles)
    operations += of.masked
    sums = -(-size["q"] // lanes) * -(-lead * size["v"] // each) if tiles.across else 0
    if not tiles.across:
        steps = (min(lanes, size["k"]) - 1).bit_length()
        sums = -(-size["v"] // lanes) * -(-lead * size["q"] // each)
        sums += 4 * steps * -(-lead * size["q"] // each) * machine.vector.cross_lane_step_cycles
    return vectors * operations + sums


def _way(of: Call, tiles: Tiles, machine: Machine) -> float:
    """The latency of one number through a step: into the arrays and out of them twice, and through five passes."""
    size, array, vector = tiles.sizes, machine.array, machine.vector
    depth = min(of.width, array.rows) + min(size["k"], array.rows)
    columns = min(size["g"] * size["q"], array.columns)
    across = 0 if tiles.across else 4 * (min(vector.lanes, size["k"]) - 1).bit_length()
    return 2 * depth + 2 * columns + 3 * vector.special_latency_cycles + 10 * vector.alu_latency_cycles + across
