"""The roofline of a run: each kernel's operations per byte moved, under the machine's roofs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from simulator import Trace
from simulator.analysis import machine_roofs
from simulator.analysis.machine_roofs import MEMORY, ROOFS, SHORT
from simulator.analysis.stalls import traffic_of
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.explaining.views.timelines.timeline import host_cycles
from workbench.ground.basics.table import Table
from workbench.ir import KernelGraph, Launches

WHOLE: Final = "whole"

COLUMNS = (
    "kernel", "launches", "cycles", "macs", "element_ops", "operations", "bytes", "bytes_moved", "bytes_least", "run",
    "stretch", "intensity", "intensity_least", "ops_per_cycle", "ceiling", "ceiling_ops_per_cycle", "share",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel, all its launches together, or the whole run."""

    kernel: str
    launches: int
    cycles: int
    macs: int
    element_ops: int
    asked: int
    moved: int
    least_bytes: int
    runs: float
    stretches: float
    least: tuple[float, ...]
    """The least cycles that the kernel needs under each of the `ROOFS`."""

    @property
    def operations(self) -> int:
        """The number of operations: a multiply-add counts as one, as an operation on an element does."""
        return self.macs + self.element_ops

    @property
    def run(self) -> float:
        """The mean number of bytes that lie together in DRAM, over all pieces."""
        return self.asked / self.runs if self.runs else 0.0

    @property
    def stretch(self) -> float:
        """The mean number of bytes that a queue moves side by side, over all pieces."""
        return self.asked / self.stretches if self.stretches else 0.0

    @property
    def intensity(self) -> float:
        """Operations for each byte that the memory moves."""
        return _ratio(self.operations, self.moved)

    @property
    def intensity_least(self) -> float:
        """Operations for each of the least possible bytes."""
        return _ratio(self.operations, self.least_bytes)

    @property
    def attained(self) -> float:
        """Operations a cycle."""
        return self.operations / max(self.cycles, 1)

    @property
    def ceiling(self) -> str:
        """The roof that limits the kernel: the one under which it needs the most cycles."""
        return ROOFS[self.least.index(max(self.least))] if any(self.least) else ""

    @property
    def ceiling_attained(self) -> float:
        """Operations a cycle at the roof that limits the kernel."""
        return _ratio(self.operations, max(self.least))

    @property
    def share(self) -> float:
        """The least cycles under the roof that limits the kernel, divided by the kernel's cycles."""
        return max(self.least) / max(self.cycles, 1)

    @property
    def memory_rate(self) -> float:
        """Bytes a cycle that the memory moves at most in stretches as short as these; 0 where nothing is moved."""
        return _ratio(self.moved, max(self.least[ROOFS.index(MEMORY)], self.least[ROOFS.index(SHORT)]))


def _ratio(number: float, by: float) -> float:
    return number / by if by else float("inf") if number else 0.0


@dataclass(frozen=True, slots=True)
class Roofline:
    """All kernels of a run, the whole run, and the machine's peaks."""

    machine: str
    peaks: dict[str, float]
    """Operations a cycle of the arrays and of the vector unit, bytes a cycle of the memory."""
    points: tuple[Point, ...]
    """The kernels in the order of their first launches."""
    whole: Point | None
    """The whole run; None where nothing runs on the machine."""
    host_steps: int
    host_cycles: int

    def table(self) -> Table:
        """One row a kernel, then one for the whole run."""
        every = (*self.points, self.whole) if self.whole else ()
        return Table(COLUMNS, tuple(map(_row, every)), f"{NOTHING}{self._left_out('; ')}")

    def notes(self) -> tuple[str, ...]:
        """The kernels that a logarithmic picture cannot show, in words."""
        still = [each for each in self.points if not each.operations]
        kept = [each for each in self.points if each.operations and not each.moved]
        reasons = (("no operations, only bytes", still), ("no bytes from or to DRAM", kept))
        notes = [f"not in the picture, since {why}: {_some(points)}" for why, points in reasons if points]
        return (*notes, *filter(None, [self._left_out("")]))

    def _left_out(self, before: str) -> str:
        steps = f"{self.host_steps} step{'s' * (self.host_steps != 1)} on the host"
        return f"{before}left out: {steps}, {self.host_cycles:,} cycles" if self.host_steps else ""


def _some(points: list[Point]) -> str:
    under = (
        (each.kernel, f"{each.share:.0%} of {each.ceiling}" if each.ceiling else "nothing moved") for each in points
    )
    names = [f"{kernel} ({share})" for kernel, share in under]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _row(point: Point) -> tuple[str | int | float, ...]:
    return (
        *(point.kernel, point.launches, point.cycles, point.macs, point.element_ops, point.operations),
        *(point.asked, point.moved, point.least_bytes, point.run, point.stretch),
        *(point.intensity, point.intensity_least, point.attained),
        *(point.ceiling, point.ceiling_attained, point.share),
    )


def roofline_of(trace: Trace, launches: Launches, lowered: KernelGraph) -> Roofline:
    """The roofline of a simulated run."""
    loads, traffic = machine_roofs.loads(trace), traffic_of(trace)
    of_launch = Counter[int]()
    for row, size in zip(traffic, machine_roofs.least_bytes(trace, traffic), strict=True):
        of_launch[int(row["launch"])] += size
    points = [
        _point(kernel, [load for load in loads if load.kernel == kernel], of_launch)
        for kernel in dict.fromkeys(load.kernel for load in loads)
    ]
    hosted = host_cycles(trace)
    whole = None
    if points:
        all_least = {loads[0].launch: _least_of_all(traffic, launches, lowered)}
        whole = _point(WHOLE, loads, all_least, trace.makespan - sum(hosted))
    peaks = machine_roofs.peaks(trace.machine)
    return Roofline(trace.machine.label, peaks, tuple(points), whole, len(hosted), sum(hosted))


def _point(name: str, loads: list[machine_roofs.Load], least: dict[int, int], cycles: int | None = None) -> Point:
    return Point(
        kernel=name,
        launches=len(loads),
        cycles=sum(load.cycles for load in loads) if cycles is None else cycles,
        macs=sum(load.macs for load in loads),
        element_ops=sum(load.element_ops for load in loads),
        asked=sum(load.asked for load in loads),
        moved=sum(load.moved for load in loads),
        least_bytes=sum(least.get(load.launch, 0) for load in loads),
        runs=sum(load.runs for load in loads),
        stretches=sum(load.stretches for load in loads),
        least=tuple(sum(load.least[roof] for load in loads) for roof in range(len(ROOFS))),
    )


def _least_of_all(traffic: Sequence[Mapping[str, str | int]], launches: Launches, lowered: KernelGraph) -> int:
    """Bytes of all inputs and weights that kernels read, and of all results that kernels write, each counted once."""
    base = lowered.bases
    read, written = Counter[str](), Counter[str]()
    place = 0
    for number, row in enumerate(traffic):
        place = place + 1 if number and row["launch"] == traffic[number - 1]["launch"] else 0
        value = launches.launches[int(row["launch"])].arguments[place]
        storage = base.get(value, value)
        read[storage] += int(row["read"])
        written[storage] += int(row["written"])
    size = {storage.value: storage.bytes for storage in launches.storages}
    captured = lowered.captured
    inputs = {base.get(each.value, each.value) for each in captured.inputs}
    results = {base.get(value, value) for value in (*captured.outputs, *(each.value for each in captured.mutations))}
    parts = (min(moved[each], size.get(each, 0)) for moved, of in ((read, inputs), (written, results)) for each in of)
    return sum(parts)
