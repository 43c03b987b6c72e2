"""The tensors in DRAM while a program runs: their bytes at each launch, by kind, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from simulator import Trace
from workbench.explaining.views.graphs.graph_tables import part_of
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.ground.basics.picture import Axis, Entry, Line, Mark, Picture, Steps, Told, Words
from workbench.ground.basics.table import Cell, Table
from workbench.ir import FORWARD, KernelGraph, Launches, Storage

SAVED: Final = "saved for backward"
BETWEEN: Final = "in between"
NEW: Final = "new values"
"""The kind of the new values of parameters and of all else that a run changes: they lie beside the old values, and
replace them after the run."""
KINDS: Final = ("parameters", "gradients", "optimizer state", NEW, "inputs", "results", SAVED, BETWEEN)
"""The kinds from the bottom of the picture to its top: those that stay come first."""

_KIND_OF: Final = {
    **dict.fromkeys(("parameter", "buffer", "constant", "closure"), "parameters"),
    "gradient": "gradients",
    "state": "optimizer state",
    "user": "inputs",
}

_TALL, _ABOVE = 220, 1.12
"""Height of the plot in pixels, and the top of its axis as a multiple of the most bytes, which leaves room for the
names of parts."""
_COLOURS: Final = ("k-LOAD", "k-COPY", "k-HOST", "k-GATHER", "c-data", "k-MATMUL", "k-STORE", "k-VECTOR")
"""The colours of the kinds, from the bottom to the top."""
_MEGABYTE: Final = 1e6


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor in DRAM, with its views, from one launch to another."""

    value: str
    kind: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time of a launch with its launch overhead, and the bytes that lie in DRAM meanwhile, by `KINDS`."""

    kernel: str
    part: str
    begin: int
    end: int
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """The tensors in DRAM, and the launches."""

    tensors: tuple[Held, ...]
    stretches: tuple[Stretch, ...]

    @property
    def peak(self) -> Stretch | None:
        """The launch with the most bytes in DRAM; the first one if there are several."""
        return max(self.stretches, key=lambda each: sum(each.bytes), default=None)

    def kinds(self) -> tuple[int, ...]:
        """The kinds that occur, as places in `KINDS`."""
        return tuple(place for place, kind in enumerate(KINDS) if any(each.kind == kind for each in self.tensors))

    def parts(self) -> list[tuple[str, int, int]]:
        """The parts of a training step, with the cycles in which each begins and ends; a part may come more than
        once."""
        runs = [(part, list(each)) for part, each in groupby(self.stretches, key=lambda stretch: stretch.part)]
        return [(part, each[0].begin, each[-1].end) for part, each in runs if part]

    def tensor_table(self) -> Table:
        """One row a tensor, the largest first."""
        names = [each.kernel for each in self.stretches]
        rows: list[tuple[Cell, ...]] = []
        for each in sorted(self.tensors, key=lambda held: -held.bytes):
            first = names[each.first] if each.first >= 0 else None
            rows.append(
                (each.value, each.kind, each.bytes, first, names[each.last] if each.last < len(names) else None)
            )
        return Table(("tensor", "kind", "bytes", "first", "last"), tuple(rows))

    def launch_table(self) -> Table:
        """One row a launch: its part and its time, and the bytes of each kind."""
        rows = tuple(
            (each.kernel, each.part, each.begin, each.end, *each.bytes, sum(each.bytes)) for each in self.stretches
        )
        return Table(("kernel", "part", "begin", "end", *KINDS, "all"), rows)


def contents(trace: Trace, launches: Launches, lowered: KernelGraph) -> Contents:
    """The tensors in DRAM during a run, by the plan of its storages."""
    kinds, parts = _kinds(lowered), [part_of(lowered, kernel) for kernel in lowered.kernels]
    thrown_away = _thrown_away(lowered)
    tensors = tuple(
        Held(each.value, kinds.get(each.value) or _between(each, parts), each.bytes, each.first, each.last)
        for each in launches.storages
        if each.value not in thrown_away
    )
    changes = [[0] * (len(lowered.kernels) + 1) for _ in KINDS]
    for each in tensors:
        row = changes[KINDS.index(each.kind)]
        row[max(each.first, 0)] += each.bytes
        row[min(each.last + 1, len(lowered.kernels))] -= each.bytes
    now, stretches, begin = [0] * len(KINDS), list[Stretch](), 0
    for number, (kernel, (_, _, end)) in enumerate(zip(lowered.kernels, trace.kernel_spans, strict=True)):
        now = [bytes + row[number] for bytes, row in zip(now, changes, strict=True)]
        stretches.append(Stretch(kernel.name, part_of(lowered, kernel), begin, end, tuple(now)))
        begin = end
    return Contents(tensors, tuple(stretches))


def _thrown_away(lowered: KernelGraph) -> set[str]:
    """The gradients of the step before that no kernel reads: `zero_grad()` drops them before anything runs."""
    base = lowered.bases
    read = {base.get(value, value) for kernel in lowered.kernels for value in kernel.inputs}
    return {item.value for item in lowered.captured.inputs if item.kind == "gradient"} - read


def _between(storage: Storage, parts: list[str]) -> str:
    """The kind of an intermediate: saved if the forward pass makes it and a later part reads it."""
    if 0 <= storage.first <= storage.last < len(parts) and parts[storage.first] == FORWARD != parts[storage.last]:
        return SAVED
    return BETWEEN


def _kinds(lowered: KernelGraph) -> dict[str, str]:
    """The kind of each storage that holds an input, a result or a changed value."""
    graph, base = lowered.captured, lowered.bases
    kinds = {item.value: _KIND_OF[item.kind] for item in graph.inputs}
    found = {base.get(value, value): "results" for value in graph.outputs}
    found |= {base.get(each.value, each.value): NEW for each in graph.mutations}
    return found | kinds


def peak_text(found: Contents) -> str:
    """`at most 17,311,752 bytes, in k22_mm (backward): parameters 1,056,768, ...`."""
    peak = found.peak
    if peak is None:
        return "nothing runs on the machine"
    parts = [f"{KINDS[kind]} {peak.bytes[kind]:,}" for kind in found.kinds() if peak.bytes[kind]]
    where = f"{peak.kernel} ({peak.part})" if peak.part else peak.kernel
    return f"at most {sum(peak.bytes):,} bytes, in {where}: {', '.join(parts)}"


def dram_picture(found: Contents, width: float = 910) -> Picture:
    """The picture and its legend."""
    label = f"DRAM over time: {peak_text(found)}"
    if found.peak is None:
        return Picture(label, nothing=NOTHING)
    end, most = max(found.stretches[-1].end, 1), max(sum(found.peak.bytes), 1) / _MEGABYTE
    parts = [mark for part in found.parts() for mark in _part(*part, most, width / end)]
    return Picture(
        label,
        width,
        _TALL,
        Axis(0, end, "cycles", None, whole=True),
        Axis(0, most * _ABOVE, "MB in DRAM", None, "line"),
        (*_areas(found), *parts),
        tuple(Entry(KINDS[kind], _COLOURS[kind]) for kind in found.kinds()),
    )


def _areas(found: Contents) -> Iterator[Told]:
    """The areas of the picture: the bytes of each kind, stacked above those of the kinds before it."""
    edges = np.array([*(each.begin for each in found.stretches), found.stretches[-1].end], np.float64)
    tops = np.cumsum([(0, *each.bytes) for each in found.stretches], axis=1) / _MEGABYTE
    for kind in found.kinds():
        most = max(each.bytes[kind] for each in found.stretches)
        area = Steps(edges, tops[:, kind], tops[:, kind + 1], _COLOURS[kind])
        yield Told(f"{KINDS[kind]}: at most {most:,} bytes", (area,))


def _part(part: str, begin: int, end: int, most: float, pixels: float) -> Iterator[Mark]:
    yield Line(((begin, 0), (begin, most * _ABOVE)), "soft")
    if (end - begin) * pixels > 7 * len(part):
        yield Words(begin, most * 1.03, part, dx=4, size=11)
