"""The place of every tensor in DRAM, and the launches that each launch waits for.

The caller's inputs, held tensors and results have their places for the whole run. An intermediate is live from the
launch that makes it to the last launch that reads it; then its bytes are free for another. All lifetimes are known
before anything runs, so the plan is made offline: the largest intermediate takes the lowest place where it overlaps no
tensor that is alive at the same time, then the next largest, and so on. A few large tensors determine the peak, and
smaller ones fit into the gaps between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.machine.tile_form import Tile
from simulator.records.spans import Grid
from simulator.units.tiled_tensors import storage_elements
from workbench.ir import KernelGraph, Launch, Launches, Numbers, Storage, TensorType

ALIGNMENT = 4096
"""Every storage starts at a page of this size: operating systems map and pin whole pages for a device, and a page is a
multiple of every DRAM request and of every vector, so no tensor's first transfer is a partial one."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A storage that needs a place from launch `first` to launch `last`, both included."""

    value: str
    bytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """True if both are alive at some launch."""
        return self.first <= other.last and other.first <= self.last


def plan_launches(lowered: KernelGraph, kernels: dict[str, str], block: Tile | None = None) -> Launches:
    """The launches of a graph, one for each of its kernels, in order.

    `kernels` has the scheduled kernel that each kernel of the graph runs: identical kernels share one. A step on the
    host is not in `kernels` and runs under its own name. If tensors lie in `block`s, they take more bytes.
    """
    storages = place(lifetimes(lowered, block), whole=len(lowered.kernels))
    address = {storage.value: storage.address for storage in storages}
    base = lowered.bases
    parents = {item.node.name: item.parent for item in lowered.nodes}
    waits = _Waits(storages)
    launches: list[Launch] = []
    for kernel in lowered.kernels:
        arguments = (*kernel.inputs, *kernel.outputs)
        reads, writes = ({base.get(value, value) for value in values} for values in (kernel.inputs, kernel.outputs))
        launches.append(
            Launch(
                kernel=kernels.get(kernel.name, kernel.name),
                name=kernel.name,
                arguments=arguments,
                addresses=tuple(address[base.get(value, value)] for value in arguments),
                after=waits.add(reads, writes),
                origins=tuple(parents[name] for name in kernel.nodes),
            )
        )
    top = max((storage.end for storage in storages), default=0)
    return Launches(tuple(launches), top, storages, tuple(_numbers(lowered, base)))


def _numbers(lowered: KernelGraph, base: Mapping[str, str]) -> Iterator[Numbers]:
    """The traced values of indices, under the names that kernels use for them."""
    known = {numbers.value: numbers for numbers in lowered.captured.numbers}
    for value in dict.fromkeys(bound.value for kernel in lowered.kernels for bound in kernel.bounds):
        if (owner := base.get(value, value)) in known:
            yield replace(known[owner], value=value)


def lifetimes(lowered: KernelGraph, block: Tile | None = None) -> list[Lifetime]:
    """The lifetime of every storage of a graph; views have none. Storages that stay for the whole run come first."""
    base = lowered.bases
    count = len(lowered.kernels)
    kept = [item.value for item in lowered.captured.inputs]
    results = (*lowered.captured.outputs, *(mutation.value for mutation in lowered.captured.mutations))
    kept = list(dict.fromkeys([*kept, *(base.get(value, value) for value in results)]))
    made: dict[str, int] = {}
    used: dict[str, int] = {}
    for number, kernel in enumerate(lowered.kernels):
        for value in (*kernel.inputs, *kernel.outputs):
            made.setdefault(base.get(value, value), number)
            used[base.get(value, value)] = number
    takes = {value: storage_bytes(lowered.types[value], block) for value in (*kept, *made)}
    whole = [Lifetime(value, takes[value], -1, count) for value in kept]
    between = [value for value in made if value not in kept]
    return whole + [Lifetime(value, takes[value], made[value], used[value]) for value in between]


def place(wanted: Sequence[Lifetime], whole: int) -> tuple[Storage, ...]:
    """Places every storage such that no two that are alive at one launch overlap. `whole` is the number of launches.

    Storages that are alive throughout lie at the bottom, in the given order: none can share their bytes.
    """
    bottom = 0
    found: dict[str, int] = {}
    rest: list[Lifetime] = []
    for lifetime in wanted:
        if lifetime.first < 0 and lifetime.last >= whole:
            found[lifetime.value] = bottom
            bottom += _padded(lifetime.bytes)
        else:
            rest.append(lifetime)
    placed: list[tuple[int, Lifetime]] = []
    for lifetime in sorted(rest, key=lambda item: (-item.bytes, item.first)):
        start = _lowest_gap(lifetime, bottom, [item for item in placed if item[1].meets(lifetime)])
        placed.append((start, lifetime))
        found[lifetime.value] = start
    return tuple(Storage(item.value, found[item.value], item.bytes, item.first, item.last) for item in wanted)


def _lowest_gap(wanted: Lifetime, bottom: int, taken: Iterable[tuple[int, Lifetime]]) -> int:
    start, size = bottom, _padded(wanted.bytes)
    for address, other in sorted(taken, key=lambda item: item[0]):
        if start + size <= address:
            break
        start = max(start, address + _padded(other.bytes))
    return start


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def storage_bytes(kind: TensorType, block: Tile | None = None) -> int:
    """The bytes from the base of a tensor's storage to the end of its last element or, with blocks, last `block`."""
    if not kind.numel:
        return 0
    elements, grid = kind.offset + kind.span, grid_of(kind) if block else None
    if block and grid:
        elements = storage_elements(grid, -(-elements // (grid.rows * grid.columns)), block)
    return elements * kind.element_bytes


def grid_of(kind: TensorType) -> Grid | None:
    """The columns and rows of a tensor: its extents along the axis with the smallest stride, and along the next.

    None for a tensor of one dim. Axes of extent one or stride zero do not count.
    """
    dims = sorted(
        (stride, extent) for stride, extent in zip(kind.strides, kind.shape, strict=True) if extent > 1 and stride
    )
    if len(dims) < 2:
        return None
    columns = dims[1][0]
    return Grid(dims[2][0] // columns if len(dims) > 2 else dims[1][1], columns)


def grids(lowered: KernelGraph) -> dict[str, Grid | None]:
    """The rows and columns of every value; a view has those of its base tensor."""
    found = {value: grid_of(kind) for value, kind in lowered.types.items()}
    return found | {view.value: found[view.base] for view in lowered.views}


class _Waits:
    """Derives the waits of each launch from the storages that launches read and write, in order.

    A launch waits for the launches whose results it reads. It must also not write where an earlier launch still reads
    or writes; since addresses are reused, such a launch may be unrelated. Today the launches run one after the other,
    which satisfies both; a simulator that lets them overlap needs both. A wait of the second kind is left out if a
    chain of other waits implies it.
    """

    def __init__(self, storages: Sequence[Storage]) -> None:
        self._storages = {storage.value: storage for storage in storages}
        self._maker: dict[str, int] = {}
        self._touched: dict[str, list[int]] = {}
        self._before: list[int] = []
        """For each launch, a bit mask of the launches that it waits for, directly or indirectly."""

    def add(self, reads: set[str], writes: set[str]) -> tuple[int, ...]:
        """The launches that the next one waits for, as ascending indices."""
        after = {self._maker[value] for value in reads if value in self._maker}
        before = 0
        for launch in after:
            before |= self._before[launch] | 1 << launch
        for launch in sorted(set(self._in_the_way(writes)) - after, reverse=True):
            if not before >> launch & 1:
                after.add(launch)
                before |= self._before[launch] | 1 << launch
        number = len(self._before)
        self._before.append(before)
        self._maker |= dict.fromkeys(writes, number)
        for value in reads | writes:
            self._touched.setdefault(value, []).append(number)
        return tuple(sorted(after))

    def _in_the_way(self, writes: set[str]) -> Iterator[int]:
        """Earlier launches that read or write bytes of the storages `writes`."""
        for written in map(self._storages.__getitem__, writes):
            for value, launches in self._touched.items():
                if self._storages[value].overlaps(written):
                    yield from launches
