"""The price of a tiling on one core, in cycles: steps that load, work and store side by side.

The price sees a kernel's bounds, not its single instructions: the bus, which all cores share; the units; and the slots
of a buffer, each of which is free again only when its tile has been used or stored. A transfer takes its latency
whatever it moves, so a kernel of few steps is bound by how often it waits for one. What the common memory serves is on
a bus of its own.
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
"""From the bytes of a run, and from run to run, to the factor by which a transfer takes longer."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Cycles of a core's transfers: on their bus, or in their queue where one takes longer there."""

    loads: float
    stores: float
    near: float
    """Of loads and stores, those on the bus of the common memory."""
    first: float
    """The loads before the first step."""
    last: float
    """The store after the last step, of a tile that may be short."""
    store: float
    """The store of a whole tile."""
    slower: float
    """Cycles that a step's loads take longer in their queues than on the bus."""


@dataclass(frozen=True, slots=True)
class Price:
    """Cycles that bound a core, and its units' cycles at speed 1."""

    traffic: Traffic
    arrays: float
    vector: float
    tile: float
    """Work on a result tile after its last operands have arrived."""
    chain: float
    """Work after its first operands have arrived."""
    step: float
    """Work on the operands of a step."""
    tiles: int
    steps: int
    slots: int
    latency: float

    @property
    def memory(self) -> float:
        return self.traffic.loads + self.traffic.stores - self.traffic.near

    def cycles(self, speed: float = 1.0) -> float:
        """Cycles on a core so fast, without the latencies of first load and last store, which all tilings have."""
        moved, latency = self.traffic, self.latency
        tile, chain, step = self.tile / speed, self.chain / speed, self.step / speed
        behind = max(min(moved.last, moved.stores - moved.last), 0.0)  # goes on behind the last tile's work
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
        """Counts how often a buffer's slots are reused if so many tiles pass through it."""
        return -(-count // self.slots)


NEVER = Price(Traffic(math.inf, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0, 0.0, 0.0, 1, 1, 1, 0.0)
"""The price of a kernel that has no tilings to weigh."""


class Transfers:
    """The transfers of a core that shares the buses with others that do the same, for all its tilings."""

    def __init__(self, payload: Payload, machine: Machine, cores: int) -> None:
        self._payload, self._machine, self._cores = payload, machine, cores
        self._slowdown = functools.cache(machine.dram_slowdown)  # which may read the file of a memory
        self._per_cycle = float(machine.bus_bytes_per_cycle) / cores
        self._near_per_cycle = float(common_bytes_per_cycle(machine)) / cores
        self._made = payload.made
        self._found: dict[tuple[object, ...], tuple[float, float]] = {}

    def traffic(self, accesses: Iterable[Access], tile: Mapping[str, int], order: Sequence[str]) -> Traffic:
        """The transfers of these tensors' tiles."""
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
        """Cycles on the bus, and how long after the bus its queue is done; reckoned once for equal tiles."""
        key = (access.value, access.is_output, access.axes, *(tile[dim] for dim in access.dims))
        if key not in self._found:
            asked, queued = _copied(access, tile, self._payload, self._machine, self._slowdown)
            near = access.argument in self._payload.near
            cycles = access.bytes(tile) / self._near_per_cycle if near else asked / self._per_cycle
            after = max(0.0, queued - cycles / self._cores)
            self._found[key] = cycles, after
        return self._found[key]


def _often(access: Access, payload: Payload, tile: Mapping[str, int], order: Sequence[str]) -> float:
    """Counts the whole tiles of a tensor that are moved: not those of inner loops that it does not depend on."""
    return math.prod(
        payload.dims[dim] / tile[dim] if dim in access.dims else math.ceil(payload.dims[dim] / tile[dim])
        for dim in loops_of(access, payload, tile, order)
    )


def _copied(
    access: Access, tile: Mapping[str, int], payload: Payload, machine: Machine, slowdown: Slowdown
) -> tuple[float, float]:
    """Bytes of the requests for a tile, and cycles in its queue.

    If its runs are too short and too far apart to hide opened rows, the bytes that would move in that time. For a
    vector pass, each row along the lanes begins in a cycle of its own.
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
    """Bytes of the blocks of a tile, and its runs as `_run` has them; None where tensors lie row after row."""
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
    """Blocks that a tile touches along an axis, on average: one that begins inside a block touches more."""
    begins = [factor * tile[dim] for dim, factor in access.axes[axis] if tile[dim] < payload.dims[dim]]
    begins += [
        factor * payload.dims[dim] for dim, factor in access.axes[axis] if payload.dims[dim] < payload.in_dram[dim]
    ]
    extent, whole = access.extents(tile)[axis], access.extents(payload.in_dram)[axis]
    step = math.gcd(block, *begins)  # what every tile's first place is a multiple of
    return min((extent - step) / block + 1 if begins else -(-extent // block), -(-whole // block))


def _run(access: Access, tile: Mapping[str, int], payload: Payload) -> tuple[int, int]:
    """Bytes of a tile that lie together in DRAM, and from where such a run begins to where the next one does."""
    run = apart = access.element_bytes
    for extent, whole in _nearest_first(access, tile, payload):
        run, apart = run * extent, apart * whole
        if extent < whole:
            break
    return run, apart


def in_short_runs(payload: Payload, machine: Machine, tile: Mapping[str, int]) -> bool:
    """True if a tile moves some tensor in runs shorter than a request of the memory, or than a queue is wide, and a
    wider tile would not."""
    least = max(machine.dram.request_bytes, machine.dma.bytes_per_cycle)
    moved = [access for access in payload.accesses if access.argument >= 0]
    runs = [(_run(access, tile, payload)[0], _run(access, payload.dims, payload)[0]) for access in moved]
    return any(run < min(least, longest) for run, longest in runs)


def _nearest_first(access: Access, tile: Mapping[str, int], payload: Payload) -> list[tuple[int, int]]:
    """Extents of a tile and of its tensor along each axis, that along which neighbours lie closest first."""
    extents, whole = access.extents(tile), access.extents(payload.in_dram)
    return [(extents[axis], whole[axis]) for axis in access.nearest]
