"""The price of a tiling on one core, in cycles: steps that load, work and store at the same time.

The price is made of a kernel's bounds, not of single instructions: the bus, which all cores share; the units; and the
slots of a buffer, each of which is free again only when its tile has been used or stored. Every transfer takes the
latency, whatever its size, so a kernel of few steps is bound by the number of waits for a transfer. The common memory
has its own bus.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from simulator.machine.machine import Machine
from simulator.machine.optional.common_memory_shape import bytes_per_cycle as common_bytes_per_cycle
from simulator.units import dma
from workbench.mlir.named_dims import Access, Payload
from workbench.scheduling.loop_order import inside_reduced, loops_of

Slowdown = Callable[[int, int], float]
"""Returns the factor by which a transfer takes longer, from the bytes of a run and the bytes from run to run."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Cycles of a core's transfers on their bus, and the extra cycles in their queues if those are slower."""

    loads: float
    stores: float
    near: float
    """Cycles of the loads and stores that are on the bus of the common memory."""
    first: float
    """Cycles of the loads before the first step."""
    last: float
    """Cycles of the store after the last step, whose tile may be shorter."""
    store: float
    """Cycles of the store of a whole tile."""
    slower: float
    """Extra cycles of a step's loads in their queues, beyond those on the bus."""


@dataclass(frozen=True, slots=True)
class Price:
    """The terms of a tiling's cycles on one core; cycles of units are at speed 1."""

    traffic: Traffic
    arrays: float
    vector: float
    tile: float
    """Cycles of work on a result tile after the tile's last operands have arrived."""
    chain: float
    """Cycles of work on a result tile after the tile's first operands have arrived."""
    step: float
    """Cycles of work on the operands of a step."""
    tiles: int
    steps: int
    slots: int
    latency: float

    @property
    def memory(self) -> float:
        return self.traffic.loads + self.traffic.stores - self.traffic.near

    def cycles(self, speed: float = 1.0) -> float:
        """Cycles on a core of this speed, without the latencies of first load and last store, equal for all tilings."""
        moved, latency = self.traffic, self.latency
        tile, chain, step = self.tile / speed, self.chain / speed, self.step / speed
        behind = max(min(moved.last, moved.stores - moved.last), 0.0)  # stores during the last tile's work
        whole = chain + moved.store + latency
        before_last = moved.store if self.tiles > 1 else moved.last
        turns = self._turns(self.steps) - 1
        later = max(moved.loads - (moved.first - moved.slower), 0.0)  # operands that stay came with the first step
        turn = later / max(self.steps - 1, 1) + moved.slower + latency + step
        bus = max(self.memory - behind + max(tile, behind), moved.first + moved.stores + tile)
        buses = max(bus, moved.near + tile, moved.loads + tile + moved.last)
        units = max(self.arrays / speed + tile - step, self.vector / speed)
        operands = turns * turn + (self.steps - turns * self.slots - 1) * step + tile
        results = (self._turns(self.tiles) - 1) * whole + chain
        results_before = (self._turns(max(self.tiles - 1, 1)) - 1) * whole + chain
        return max(
            buses,
            moved.first + max(units, operands, results) + moved.last,
            moved.first + results_before + before_last,
        )

    def _turns(self, count: int) -> int:
        """The number of times that a buffer's slots are all used, if `count` tiles pass through it."""
        return -(-count // self.slots)


NEVER = Price(Traffic(math.inf, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0, 0.0, 0.0, 1, 1, 1, 0.0)
"""The price of a kernel without a tiling to compare."""


class Transfers:
    """Computes the transfers of one core's tilings, while `cores` cores share the buses and do the same."""

    def __init__(self, payload: Payload, machine: Machine, cores: int) -> None:
        self._payload, self._machine, self._cores = payload, machine, cores
        self._slowdown = functools.cache(machine.dram_slowdown)  # which may read the file of a memory
        self._per_cycle = float(machine.bus_bytes_per_cycle) / cores
        self._near_per_cycle = float(common_bytes_per_cycle(machine)) / cores
        self._made = payload.made
        self._found: dict[tuple[object, ...], tuple[float, float]] = {}

    def traffic(self, accesses: Iterable[Access], tile: Mapping[str, int], order: Sequence[str]) -> Traffic:
        """The traffic of these accesses in a tiling."""
        payload = self._payload
        stored = payload.results
        steps = {dim: math.ceil(extent / tile[dim]) for dim, extent in payload.dims.items()}
        short = {dim: extent - (steps[dim] - 1) * tile[dim] for dim, extent in payload.dims.items()}
        loads, stores, near, first, last, store, slower = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for access in accesses:
            if access.value in self._made and access.value not in stored:
                continue
            cycles, after = self._moved(access, tile)
            often = _often(access, payload, tile, order)
            if access.value in stored:
                stores, store = stores + cycles * often, store + cycles + after
                last += sum(self._moved(access, short))
            else:
                loads, first, slower = loads + cycles * often, first + cycles, max(slower, after)
            if access.argument in payload.near:
                near += cycles * often
        store *= math.prod(steps[dim] for dim in inside_reduced(payload, tile, order))  # sums are done together
        return Traffic(loads, stores, near, first + slower, last, store, slower)

    def _moved(self, access: Access, tile: Mapping[str, int]) -> tuple[float, float]:
        """The cycles of a tile's transfer on the bus, and the cycles by which its queue ends later; cached for equal
        tiles."""
        key = (access.value, access.is_output, access.axes, *(tile[dim] for dim in access.dims))
        if key not in self._found:
            asked, queued = _copied(access, tile, self._payload, self._machine, self._slowdown)
            near = access.argument in self._payload.near
            cycles = access.bytes(tile) / self._near_per_cycle if near else asked / self._per_cycle
            after = max(0.0, queued - cycles / self._cores)
            self._found[key] = cycles, after
        return self._found[key]


def _often(access: Access, payload: Payload, tile: Mapping[str, int], order: Sequence[str]) -> float:
    """The number of transfers of a tensor, in whole tiles: inner loops that do not index it move nothing."""
    return math.prod(
        payload.dims[dim] / tile[dim] if dim in access.dims else math.ceil(payload.dims[dim] / tile[dim])
        for dim in loops_of(access, payload, tile, order)
    )


def _copied(
    access: Access, tile: Mapping[str, int], payload: Payload, machine: Machine, slowdown: Slowdown
) -> tuple[float, float]:
    """The bytes of the requests for a tile, and its cycles in the queue.

    If the tile's runs are too short and too far apart to hide the opening of DRAM rows, the bytes are those that could
    move in that time. In a tile for a vector pass, each row along the lanes begins in its own cycle.
    """
    if (blocks := _blocks(access, tile, payload, machine)) is not None:
        moved, run, apart = blocks
        return moved * slowdown(run, apart), moved / run * -(-run // machine.dma.bytes_per_cycle)
    run, apart = stretch, _ = _run(access, tile, payload)
    passes = (op for op in payload.ops if op.role not in ("contraction", "fill"))
    if access.padded or any(access.value == each.value for op in passes for each in op.accesses):
        stretch = next((extent for extent, _ in _nearest_first(access, tile, payload)), 1) * access.element_bytes
    asked, queued = dma.estimate(access.bytes(tile), run, apart, stretch, access.element_bytes, machine)
    return asked * slowdown(run, apart), queued


def _blocks(
    access: Access, tile: Mapping[str, int], payload: Payload, machine: Machine
) -> tuple[float, int, int] | None:
    """The bytes of a tile's blocks, and its runs as in `_run`; None if the tensor does not lie in blocks."""
    block, whole = machine.dram_block, access.extents(payload.in_dram)
    near = [axis for axis in access.nearest if whole[axis] > 1]
    if block is None or len(near) < 2:
        return None
    size = block.rows * block.columns * access.element_bytes
    column, row, *others = near
    wide = _covered(access, column, tile, payload, block.columns)
    high = _covered(access, row, tile, payload, block.rows)
    extents = access.extents(tile)
    moved = wide * high * math.prod(extents[axis] for axis in others) * size
    run, apart = math.ceil(wide) * size, -(-whole[column] // block.columns) * size
    if run == apart:
        run, apart = run * math.ceil(high), apart * -(-whole[row] // block.rows)
    return moved, run, apart


def _covered(access: Access, axis: int, tile: Mapping[str, int], payload: Payload, block: int) -> float:
    """The average number of blocks that a tile touches along an axis: tiles that begin inside a block touch more."""
    begins = [factor * tile[dim] for dim, factor in access.axes[axis] if tile[dim] < payload.dims[dim]]
    begins += [
        factor * payload.dims[dim] for dim, factor in access.axes[axis] if payload.dims[dim] < payload.in_dram[dim]
    ]
    extent, whole = access.extents(tile)[axis], access.extents(payload.in_dram)[axis]
    step = math.gcd(block, *begins)  # every tile begins at a multiple of this
    return min((extent - step) / block + 1 if begins else -(-extent // block), -(-whole // block))


def _run(access: Access, tile: Mapping[str, int], payload: Payload) -> tuple[int, int]:
    """The bytes of a tile's run, which lies together in DRAM, and the bytes from one run's begin to the next one's."""
    run = apart = access.element_bytes
    for extent, whole in _nearest_first(access, tile, payload):
        run, apart = run * extent, apart * whole
        if extent < whole:
            break
    return run, apart


def in_short_runs(payload: Payload, machine: Machine, tile: Mapping[str, int]) -> bool:
    """True if a tile moves some tensor in runs shorter than a request of the memory or the width of a queue, and a
    wider tile would not."""
    least = max(machine.dram.request_bytes, machine.dma.bytes_per_cycle)
    moved = [access for access in payload.accesses if access.argument >= 0]
    runs = [(_run(access, tile, payload)[0], _run(access, payload.dims, payload)[0]) for access in moved]
    return any(run < min(least, longest) for run, longest in runs)


def _nearest_first(access: Access, tile: Mapping[str, int], payload: Payload) -> list[tuple[int, int]]:
    """(extent of the tile, extent of the tensor) along each axis, the axis with the smallest stride in DRAM first."""
    extents, whole = access.extents(tile), access.extents(payload.in_dram)
    return [(extents[axis], whole[axis]) for axis in access.nearest]
