"""The memory use of each transfer of a trace: its contiguous runs, its bytes, and the bytes moved for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.records.spans import Grid, HostCall, Launched, Wait
from simulator.tileprogram.program import I64, Opcode, Space, TileProgram
from simulator.trace_record import TraceRecord
from simulator.units import dma
from simulator.units.gather import run_bytes


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One entry per span of a trace; 0 for spans without DRAM traffic."""

    run: I64
    """Bytes that lie together in DRAM: of a copy, a gather or a scatter each of its runs, of a loop of accesses an
    element."""
    stretch: I64
    """Bytes that a queue moves side by side, LOAD and STORE alone."""
    asked: I64
    """Bytes that the instruction wants."""
    requested: I64
    """Bytes that the memory moves for it, in whole requests."""
    cycles: I64
    """From its first request to its last byte on the bus or in the queue, without the latency."""
    own: I64
    """The same without the cycles in which the memory served others, or no request had reached a banked memory yet."""
    rate: float
    """Bytes a cycle that the memory moves at its peak."""

    @property
    def peak_share(self) -> npt.NDArray[np.float64]:
        """Each transfer's bytes as a part of the bytes that the memory can move in its own cycles."""
        return np.minimum(self.asked / (self.rate * np.maximum(self.own, 1)), 1)

    def peak_share_of(self, rows: npt.NDArray[np.int64]) -> float:
        """The same for some together. At most 1: a banked memory accepts writes faster than it performs them."""
        return float(min(self.asked[rows].sum() / (self.rate * max(self.own[rows].sum(), 1)), 1))


def memory_use_of(trace: TraceRecord) -> MemoryUse:
    """Computes again the columns that the trace does not keep."""
    trace.check_has_programs("which its transfers follow from")
    in_dram = trace.requested > 0
    alike = {_key(launched): launched for launched in trace.launches}
    known = {key: _lengths(launched, trace) for key, launched in alike.items()}
    lengths = np.concatenate([np.zeros((2, 0), np.int64), *(known[_key(each)] for each in trace.launches)], axis=1)
    run, stretch = lengths * in_dram
    asked, cycles = trace.bytes * in_dram, (trace.phase - trace.start) * in_dram
    own = cycles.copy()
    if len(trace.waits):
        own -= trace.waits[:, Wait.MEMORY_BUS]
        own -= trace.waits[:, Wait.INTERCONNECT] if trace.machine.dram.kind == "banked" else 0
    return MemoryUse(run, stretch, asked, trace.requested, cycles, own, float(trace.machine.bus_bytes_per_cycle))


def _key(launched: Launched | HostCall) -> tuple[int, tuple[Grid | None, ...]]:
    """The figures from which the lengths of a launch's transfers follow."""
    return (id(launched.program), launched.grids) if isinstance(launched, Launched) else (0, ())


def _lengths(launched: Launched | HostCall, trace: TraceRecord) -> I64:
    """Run and stretch of each instruction, wherever its arguments lie."""
    program, grids = launched.program, launched.grids if isinstance(launched, Launched) else ()
    anywhere = (0,) * len(program.arguments)
    copies = dma.transfers(program, anywhere, trace.machine, dma.in_rows(program), grids)
    stretch = np.where(program.opcode == Opcode.COPY, 0, copies.stretch)
    return np.stack([copies.run + run_bytes(program) + _single(program), stretch])


def _single(program: TileProgram) -> I64:
    """For a loop of accesses, the bytes of its widest element in DRAM; else 0."""
    owner = program.owners()
    accesses = (program.opcode[owner] == Opcode.DIRECT) & (program.space == Space.DRAM)
    widest = np.zeros(len(program), np.int64)
    np.maximum.at(widest, owner[accesses], program.element_bytes[accesses])
    return widest
