"""A run's cycles and bytes of DRAM on each captured node and on each kernel of the graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator import Trace
from simulator.records.spans import TOTALS, Via
from workbench.ir import Launch, Launches


class Cost(NamedTuple):
    """Cycles of the makespan, and bytes that went from and to DRAM."""

    cycles: int = 0
    bytes: int = 0

    @staticmethod
    def sum(each: Iterable[Cost]) -> Cost:
        costs = list(each)
        return Cost(sum(cost.cycles for cost in costs), sum(cost.bytes for cost in costs))


@dataclass(frozen=True, slots=True)
class Spent:
    """The costs of a run by node and by kernel. Nodes share the cycles and bytes of each launch in proportion to those
    of the spans that work for them. So the cycles of all nodes, like those of all kernels, and the cycles before
    kernels begin, add up to the makespan."""

    nodes: dict[str, Cost]
    """Captured node -> its cost; nodes that no launch works for are left out."""
    kernels: dict[str, Cost]
    """Kernel of the graph -> its cost."""
    launching: int
    """Cycles that pass before kernels begin."""
    whole: int
    """The makespan."""


def dram_bytes(trace: Trace) -> npt.NDArray[np.int64]:
    """Bytes that each launch reads from DRAM and writes there."""
    return trace.totals[:, [TOTALS.index("dram_read_bytes"), TOTALS.index("dram_write_bytes")]]


def spent(trace: Trace, launches: Launches) -> Spent:
    """Divides the makespan of a run among nodes and among kernels."""
    moved = dram_bytes(trace).sum(1).tolist()
    nodes, kernels = dict[str, Cost](), dict[str, Cost]()
    runs = zip(launches.launches, trace.kernel_spans, trace.rows_by_launch, moved, strict=True)
    for launch, (_, begin, end), rows, bytes_moved in runs:
        taken = Cost(end - begin, bytes_moved)
        kernels[launch.name] = Cost.sum([kernels.get(launch.name, Cost()), taken])
        for name, part in _shares(trace, launch, rows, taken):
            nodes[name] = Cost.sum([nodes.get(name, Cost()), part])
    inside = sum(cost.cycles for cost in kernels.values())
    return Spent(nodes, kernels, trace.makespan - inside, trace.makespan)


def _shares(trace: Trace, launch: Launch, rows: slice, taken: Cost) -> list[tuple[str, Cost]]:
    """The part of a launch that belongs to each node that it works for."""
    if not launch.origins:
        return []
    counts = np.diff(trace.origin_start[rows.start : rows.stop + 1])
    ids = trace.origin[trace.origin_start[rows.start] : trace.origin_start[rows.stop]]
    in_dram = np.where(trace.via[rows] == Via.DRAM, trace.bytes[rows], 0)

    def of_each(amount: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        divided = np.repeat(amount / np.maximum(counts, 1), counts)
        return np.bincount(ids, divided, minlength=len(launch.origins)).astype(np.float64)

    busy, bytes = of_each(trace.busy_cycles[rows]), of_each(in_dram)
    cycles = _apportioned(taken.cycles, busy)
    moved = _apportioned(taken.bytes, bytes if bytes.any() else busy)
    return [(name, Cost(*each)) for name, *each in zip(launch.origins, cycles, moved, strict=True)]


def _apportioned(whole: int, parts: npt.NDArray[np.float64]) -> list[int]:
    """Whole numbers in proportion to the parts, which add up to `whole`; evenly where there are no parts."""
    weights = parts if parts.any() else np.ones(len(parts))
    edges = np.rint(whole * np.cumsum(weights) / weights.sum()).astype(np.int64)
    found: list[int] = np.diff(edges, prepend=0).tolist()
    return found
