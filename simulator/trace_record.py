"""The record of a trace: when every instruction ran, and its waits. Analyses and audits read it.

A span is the time an instruction holds its unit. `start` is the cycle in which the last of its constraints was met, and
`cause` is that constraint; if several were met in the same cycle, `cause` is the one that stands last in `Cause`. A
matmul holds its array until its last row has entered (`end`); its results are complete later (`done`). For all other
instructions `done` is `end`. `phase` splits a span in two: at a copy's last request on the bus, before the latency; at
the cycle in which a loop of direct accesses would end if all were answered at once; at a matmul's first streamed row,
after the visible part of its preload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.errors import SimulatorError
from simulator.machine.machine import Machine
from simulator.records.spans import TOTALS, HostCall, Launched
from simulator.tileprogram.program import I32, I64, U8
from simulator.units.unit_table import STALL_OF, STALLS


@dataclass(frozen=True, eq=False)
class TraceRecord:
    """A trace as columns with one entry per span, in order of launch and instruction; see the module's docstring."""

    machine: Machine
    kernels: tuple[str, ...]
    """Name of each launch's kernel."""
    unit_names: tuple[str, ...]
    begins: I64
    """When each launch began."""

    launch: I32
    instr: I32
    core: I32
    unit: I32
    kind: U8
    start: I64
    end: I64
    done: I64
    phase: I64
    issue: I64
    bytes: I64
    requested: I64
    """Bytes that the DRAM moved for the span, in whole requests; 0 if it did not use the DRAM."""
    cause: U8
    blocker: I32
    """Index, in the same launch, of the instruction that met the last constraint; -1 for none."""
    issue_cause: U8
    issue_blocker: I32
    via: U8
    """The memory that a transfer used: see `Via`."""
    assumed: npt.NDArray[np.bool_]
    """True if a span's addresses were drawn at random, because its indices are not known: `simulator.units.gather`."""
    waits: I32
    """N x `spans.Wait`: cycles that a span waited after its start. No rows with a simple memory without links."""
    met: I64
    """N x causes: the cycle in which each constraint was met; -1 if the span had no such constraint."""

    origin_start: I64
    origin: I32
    """Kernel-local origin ids of each span, as CSR."""
    totals: I64
    """Totals of each launch: see `TOTALS`."""

    channels: I64
    """The counters of each channel of a banked memory: `spans.CHANNEL_COUNTERS`. No rows with a simple memory."""
    channel_cycles: I64
    """The cycles of each channel by state: `spans.CHANNEL_CYCLES`."""
    channel_bytes: I64
    """Channels x pieces of time: bytes that each channel moved in each piece."""
    channel_times: I64
    """The cycles in which these pieces of time begin, and the end of the last piece."""
    link_bytes: I64
    """Bytes that each link of the interconnect carried: see machine/topology.py. Empty with a simple interconnect."""

    launches: tuple[Launched | HostCall, ...] = field(default=(), compare=False, repr=False)
    """The simulated launches; empty in a trace that was loaded from a file."""
    asked: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    """The arguments of `simulate` for optional hardware, by name; empty in a trace that was loaded from a file."""

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return f"Trace({self.machine.name!r}, {len(self.kernels)} launches, {len(self)} spans, {self.makespan} cycles)"

    @property
    def makespan(self) -> int:
        """Cycles until everything is complete."""
        return int(max(self.done.max(initial=0), self.begins.max(initial=0)))

    def check_has_programs(self, why: str) -> None:
        """Raises for a trace that was loaded without its programs; `why` says what needs the programs."""
        if self.kernels and not self.launches:
            raise SimulatorError(f"this trace was loaded without its programs, {why}")

    def rows_of(self, launch: int) -> slice:
        """The spans of a launch, as rows of the trace: the first row plus `i` is the span of instruction `i`."""
        return self._rows(np.array([launch, launch + 1]))[0]

    @property
    def rows_by_launch(self) -> list[slice]:
        """The spans of each launch: `rows_of` for all of them."""
        return self._rows(np.arange(len(self.kernels) + 1))

    def programs(self) -> Iterator[tuple[int, Launched, slice]]:
        """Yields (number, launch, rows of its spans) for each launch of a program; steps on the host are left out."""
        for number, (launched, rows) in enumerate(zip(self.launches, self.rows_by_launch, strict=True)):
            if isinstance(launched, Launched):
                yield number, launched, rows

    def _rows(self, launches: I64) -> list[slice]:
        """For each two neighbours in `launches`, the rows from the first span of one to the first span of the other."""
        edges = np.searchsorted(self.launch, launches.astype(self.launch.dtype)).tolist()
        return [slice(first, after) for first, after in pairwise(edges)]

    @property
    def counters(self) -> dict[str, int]:
        """Sums over all launches: see `TOTALS`."""
        sums = self.totals.sum(0).tolist()
        return dict(zip(TOTALS, sums, strict=True))

    @property
    def kernel_spans(self) -> list[tuple[str, int, int]]:
        """(kernel, begin, end) of each launch."""
        out = list[tuple[str, int, int]]()
        for kernel, begin, rows in zip(self.kernels, self.begins.tolist(), self.rows_by_launch, strict=True):
            out.append((kernel, begin, max(begin, int(self.done[rows].max(initial=0)))))
        return out

    @property
    def busy_cycles(self) -> I64:
        """For each span, the cycles in which its unit is busy: without a transfer's waits on its way, and without the
        waits of a loop of single accesses for answers."""
        return self._after_waits() - self.unanswered

    @property
    def unanswered(self) -> I64:
        """For each span, the cycles in which its unit only waits for answers: `Does.stall`."""
        asked = np.maximum(self.phase - (self.end - self._after_waits()), 0)
        return np.where(STALL_OF[self.kind] < len(STALLS), self._after_waits() - asked, 0)

    def _after_waits(self) -> I64:
        lengths = self.end - self.start
        return lengths - self.waits.sum(1, np.int64) if len(self.waits) else lengths
