"""The trace: what every instruction did when, and what it waited for.

A span is the time an instruction holds its unit. `start` is the latest of the constraints it waited for, and its cause
is that constraint; when several were met in the same cycle, the one that stands last in `Cause` is named. A matmul
holds its array until its last row has entered (`end`); its results are complete later (`done`). For all others `done`
is `end`. `phase` splits a span in two: a copy's last request on the bus, before the latency; the time a loop of direct
accesses would take if all were answered at once; a matmul's first streamed row, after what of its preload was not
hidden.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from simulator.analysis import critical_path, energy, stalls
from simulator.audit import invariants, trace_columns
from simulator.errors import FileFormatError, InvariantViolation, SimulatorError
from simulator.machine.machine import Machine
from simulator.records.spans import (
    BLOCKER,
    CAUSE,
    CAUSES,
    DONE,
    END,
    HOST_UNIT,
    ISSUE,
    ISSUE_BLOCKER,
    ISSUE_CAUSE,
    PHASE,
    SPAN_COLUMNS,
    START,
    TOTALS,
    UNIT,
    WAITS,
    Cause,
    HostCall,
    Launched,
    Statistics,
    Via,
)
from simulator.tileprogram.program import I32, I64, U8, Opcode, TileProgram
from simulator.trace import trace_file
from simulator.units import scalar, vector, zero_tiles
from simulator.units.cost_table import pieces

if TYPE_CHECKING:
    from simulator.analysis import launch_costs
    from simulator.analysis.memory_use import MemoryUse
    from simulator.machine.chiplets import Placed
    from simulator.units.common_memory import Resident
    from simulator.units.cost_table import Told


@dataclass(frozen=True, eq=False)
class Trace:
    """See the module's docstring. One entry per span, in order of launch and instruction."""

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
    """Bytes that the DRAM moved for it, in whole requests; 0 where it had no part in it."""
    cause: U8
    blocker: I32
    """Index, in the same launch, of the instruction that met the last constraint; -1 for none."""
    issue_cause: U8
    issue_blocker: I32
    via: U8
    """Where a transfer went: see `Via`."""
    assumed: npt.NDArray[np.bool_]
    """Whether a span's addresses are drawn, because the indices they follow from are not known:
    `simulator.units.gather`."""
    waits: I32
    """N x `spans.Wait`: cycles of the span itself. No rows where no transfer's time is told apart: simple memory."""
    met: I64
    """N x causes: when each constraint was met; -1 where there was none."""

    origin_start: I64
    origin: I32
    """Kernel-local origin ids of each span, as CSR."""
    totals: I64
    """Of each launch: see `TOTALS`."""

    channels: I64
    """What each channel of a banked memory counted: `spans.CHANNEL_COUNTERS`. No rows with a simple memory."""
    channel_cycles: I64
    """What each did with its time: `spans.CHANNEL_CYCLES`."""
    channel_bytes: I64
    """Bytes each channel moved, by piece of time."""
    channel_times: I64
    """Where these pieces begin, and the last ends."""
    link_bytes: I64
    """What each link of the interconnect carried: see machine/topology.py. No links where it is simple."""

    launches: tuple[Launched | HostCall, ...] = field(default=(), compare=False, repr=False)
    """What was simulated; empty in a trace that was loaded from a file."""
    residents: tuple[Resident, ...] = field(default=(), compare=False, repr=False)
    """What was kept in the common memory, likewise."""
    placed: tuple[Placed, ...] = field(default=(), compare=False, repr=False)
    """Which tensors lie where on several chiplets, likewise."""

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return f"Trace({self.machine.name!r}, {len(self.kernels)} launches, {len(self)} spans, {self.makespan} cycles)"

    @property
    def makespan(self) -> int:
        """Cycles until everything is complete."""
        return int(max(self.done.max(initial=0), self.begins.max(initial=0)))

    def rows_of(self, launch: int) -> slice:
        """The spans of a launch: instruction `i` is the one `i` places after the first."""
        first, after = np.searchsorted(self.launch, [launch, launch + 1]).tolist()
        return slice(first, after)

    @property
    def counters(self) -> dict[str, int]:
        """Sums over all launches: see `TOTALS`."""
        sums = self.totals.sum(0).tolist()
        return dict(zip(TOTALS, sums, strict=True))

    @property
    def kernel_spans(self) -> list[tuple[str, int, int]]:
        """(kernel, begin, end) of each launch."""
        out = list[tuple[str, int, int]]()
        for index, kernel in enumerate(self.kernels):
            done = self.done[self.launch == index]
            begin = int(self.begins[index])
            out.append((kernel, begin, max(begin, int(done.max(initial=0)))))
        return out

    def columns(self) -> dict[str, list[int] | list[str] | list[tuple[int, ...]]]:
        """The events, column by column."""
        starts = self.origin_start.tolist()
        origin = self.origin.tolist()
        return {
            "launch": self.launch.tolist(),
            "kernel": [self.kernels[index] for index in self.launch.tolist()],
            "instr": self.instr.tolist(),
            "core": self.core.tolist(),
            "unit": [self.unit_names[index] for index in self.unit.tolist()],
            "kind": [_KINDS[index] for index in self.kind.tolist()],
            "start": self.start.tolist(),
            "end": self.end.tolist(),
            "bytes": self.bytes.tolist(),
            "cause": [_CAUSE_LABELS[index] for index in self.cause.tolist()],
            "blocker": self.blocker.tolist(),
            "via": [_VIA_LABELS[index] for index in self.via.tolist()],
            "origins": [tuple(origin[starts[i] : starts[i + 1]]) for i in range(len(self))],
        }

    @property
    def busy_cycles(self) -> I64:
        """Of each span, the cycles in which its unit is busy: a transfer's without what it waited for on its way, and
        a loop's of single accesses without what it waited for their answers."""
        return self._after_waits() - self.unanswered

    @property
    def unanswered(self) -> I64:
        """Of each span, the cycles in which a scalar unit has nothing to do but wait for answers: see
        units/scalar.py."""
        asked = np.maximum(self.phase - (self.end - self._after_waits()), 0)
        return np.where(self.kind == Opcode.DIRECT, self._after_waits() - asked, 0)

    def _after_waits(self) -> I64:
        lengths = self.end - self.start
        return lengths - self.waits.sum(1, np.int64) if len(self.waits) else lengths

    def stalls(self) -> list[dict[str, str | int]]:
        """One row per unit: busy cycles, idle cycles by cause, and their total, which is the makespan.

        A gap before a span belongs to the span's cause. What is left of a launch after a unit's last span is
        `finished`, the time before a launch begins is `launch`, and what a step on the host takes is `host`. What a
        transfer waited for on its way and in a banked memory (`spans.Wait`) is no busy time either, nor is what a
        scalar unit waited for answers (`scalar_latency`). Waiting for the memory while it served others is
        `memory_peak` or `inefficient_transfers`: see analysis/contention.py.
        """
        return stalls.stalls(self)

    def waterfall(self) -> list[tuple[str, int]]:
        """(label, cycles) along the critical path, most cycles first; they add up to the makespan exactly."""
        return critical_path.waterfall(self)

    def critical_path(self) -> list[critical_path.Step]:
        """The makespan from its first cycle to its last, each piece with what was on its way."""
        return critical_path.critical_path(self)

    def slack(self) -> I64:
        """Cycles that each span could have started later without moving the makespan, all else as it was."""
        from simulator.analysis import (
            slack,  # only here: it loads the compiler, which reading a trace does not wait for
        )

        return slack.slack(self)

    def memory_use(self) -> MemoryUse:
        """How well each transfer used the memory; needs the programs, as `slack` does."""
        from simulator.analysis import memory_use  # only here, as in `slack`

        return memory_use.memory_use(self)

    def memory(self) -> list[dict[str, int]]:
        """One row per channel of a banked memory: its requests, what they found, refreshes; bytes; cycles by state."""
        return stalls.memory(self)

    def bandwidth(self) -> list[dict[str, int]]:
        """One row per channel of a banked memory and piece of time: begin, end, bytes moved."""
        return stalls.bandwidth(self)

    def energy(self) -> list[energy.Spent]:
        """What each kernel spent, by unit and kind, in picojoules of the machine's figures: see analysis/energy.py."""
        if self.kernels and not self.launches:
            raise SimulatorError("this trace was loaded without its programs, which its energy follows from")
        return energy.energy(self)

    def links(self) -> list[dict[str, str | int | float]]:
        """One row per link of the interconnect: from, to, bytes, cycles it was held, and their part of the makespan."""
        return stalls.links(self)

    def placement(self) -> list[launch_costs.OnChiplets]:
        """One entry per tensor that was told of, and one for what belongs to none if there is such: where its pages
        lay, and how many bytes were asked for from there and from elsewhere. None on a machine in one piece."""
        from simulator.analysis import launch_costs  # only here, as in `slack`

        return launch_costs.placement(self)

    def skipped(self) -> list[dict[str, str | int | bool]]:
        """One row per launch and argument it loads, and per launch one for its products: how many, how many skipped."""
        return zero_tiles.report(self)

    def traffic(self) -> list[dict[str, str | int]]:
        """One row per launch and argument: bytes read from it and written to it."""
        return stalls.traffic(self)

    def invariants(self) -> None:
        """Raises `InvariantViolation` if the trace contradicts its programs or machine: `invariants.violations`."""
        found = invariants.violations(self)
        if found:
            raise InvariantViolation(found)

    def digest(self) -> str:
        """A hash of every span: equal for equal traces, in any process."""
        sha = hashlib.sha256(repr((self.machine.figures(), self.kernels, self.unit_names)).encode())
        for name in trace_file.ARRAYS:
            array = getattr(self, name)
            sha.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the spans, without the programs, as a versioned npz."""
        arrays = {name: getattr(self, name) for name in trace_file.ARRAYS}
        trace_file.write_trace(path, self.machine, self.kernels, self.unit_names, arrays)

    def to_bytes(self) -> bytes:
        """What `save` writes; `load(io.BytesIO(...))` reads it."""
        arrays = {name: getattr(self, name) for name in trace_file.ARRAYS}
        return trace_file.pack_trace(self.machine, self.kernels, self.unit_names, arrays)

    @staticmethod
    def load(path: str | os.PathLike[str] | BinaryIO) -> Trace:
        """The trace that `save` wrote; `FileFormatError` for anything else."""
        found = trace_file.read_trace(path)
        trace = Trace(found.machine, found.kernels, found.unit_names, **found.arrays)
        wrong = trace_columns.violations(trace, unit_names(trace.machine) + _host_of(found.unit_names))
        if wrong:
            raise FileFormatError(f"{path}: it is no trace of this machine: {'; '.join(wrong[:3])}")
        return trace


_KINDS = [opcode.name for opcode in Opcode]
_CAUSE_LABELS = [cause.label for cause in Cause]
_VIA_LABELS = [via.label for via in Via]


def assemble(
    launches: Sequence[Launched | HostCall],
    machine: Machine,
    works: Sequence[Told],
    spans: Sequence[I64],
    met: Sequence[I64],
    waits: Sequence[I32],
    begins: Sequence[int],
    channels: Statistics,
    links: I64,
    residents: Sequence[Resident] = (),
    placed: Sequence[Placed] = (),
) -> Trace:
    """The trace of all launches from the engine's tables of each."""
    rows = _joined(spans, np.int64, SPAN_COLUMNS)
    programs = [launched.program for launched in launches]
    lengths = [len(program) for program in programs]
    has_host = any(isinstance(launched, HostCall) for launched in launches)
    origin_counts = [np.zeros(0, np.int64), *(np.diff(program.origin_start) for program in programs)]
    return Trace(
        machine=machine,
        kernels=tuple(launched.kernel for launched in launches),
        unit_names=unit_names(machine) + ((HOST_UNIT,) if has_host else ()),
        begins=np.array(begins, np.int64),
        launch=np.repeat(np.arange(len(launches), dtype=np.int32), lengths),
        instr=_joined([np.arange(length) for length in lengths], np.int32),
        core=_joined([program.core for program in programs], np.int32),
        unit=rows[:, UNIT].astype(np.int32),
        kind=_joined([program.opcode for program in programs], np.uint8),
        start=rows[:, START].copy(),
        end=rows[:, END].copy(),
        done=rows[:, DONE].copy(),
        phase=rows[:, PHASE].copy(),
        issue=rows[:, ISSUE].copy(),
        bytes=_joined([asked.moved for asked in works], np.int64),
        requested=_joined([asked.requested for asked in works], np.int64),
        cause=rows[:, CAUSE].astype(np.uint8),
        blocker=rows[:, BLOCKER].astype(np.int32),
        issue_cause=rows[:, ISSUE_CAUSE].astype(np.uint8),
        issue_blocker=rows[:, ISSUE_BLOCKER].astype(np.int32),
        via=_joined([asked.via for asked in works], np.uint8),
        assumed=_joined([asked.assumed for asked in works], np.bool_),
        waits=_joined(waits, np.int32, WAITS),
        met=_joined(met, np.int64, CAUSES),
        origin_start=np.concatenate([[0], np.cumsum(np.concatenate(origin_counts))]).astype(np.int64),
        origin=_joined([program.origin for program in programs], np.int32),
        totals=np.array([*map(_totals, programs, works)], np.int64).reshape(-1, len(TOTALS)),
        channels=channels.counters,
        channel_cycles=channels.cycles,
        channel_bytes=channels.bytes,
        channel_times=channels.times,
        link_bytes=links,
        launches=tuple(launches),
        residents=tuple(residents),
        placed=tuple(placed),
    )


def unit_names(machine: Machine) -> tuple[str, ...]:
    """Names of the machine's own units, as spans number them; the host comes after them in a trace that uses it."""
    queues = [f"dma{index}" for index in range(machine.dma_queues)]
    arrays = [f"mxu{index}" for index in range(machine.systolic_arrays)]
    own = (*queues, *arrays, "vpu", "scalar")
    if machine.cores == 1:
        return own
    return tuple(f"core{core}.{name}" for core in range(machine.cores) for name in own)


def _host_of(units: tuple[str, ...]) -> tuple[str, ...]:
    return units[-1:] if units[-1:] == (HOST_UNIT,) else ()


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: type[np.generic], *width: int) -> npt.NDArray[Any]:
    """One after another; the only one as it is, since a trace may be the largest thing there is."""
    if len(parts) == 1:
        return parts[0].astype(dtype, copy=False)
    return np.concatenate([np.zeros((0, *width), dtype), *parts]).astype(dtype, copy=False)


def _totals(program: TileProgram, asked: Told) -> tuple[int, ...]:
    moved, opcode = asked.moved, program.opcode
    macs = program.extent[(opcode == Opcode.MATMUL) & (asked.via != Via.SKIPPED)].prod(1).sum()
    done = np.zeros(2, np.int64)
    for _, part in pieces(program):
        done += vector.operations(part)[part.opcode == Opcode.VECTOR].sum(0) + scalar.operations(part).sum(0)
    return (
        asked.read,
        asked.written,
        int(asked.requested.sum()),
        asked.remote,
        asked.common_read,
        asked.common_written,
        int(moved[opcode == Opcode.COPY].sum()),
        int(macs),
        int(done[0]),
        int(done[1]),
    )
