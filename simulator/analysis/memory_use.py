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
    """Bytes that lie together in DRAM: each run of a copy, a gather or a scatter; an element of a loop of accesses."""
    stretch: I64
    """Bytes that a queue moves side by side; 0 for all but LOAD and STORE."""
    asked: I64
    """Bytes that the instruction needs."""
    requested: I64
    """Bytes that the memory moves for the instruction, in whole requests."""
    cycles: I64
    """Cycles from the first request to the last byte on the bus or in the queue, without the latency."""
    own: I64
    """`cycles` without those in which the memory served others or no request had reached a banked memory yet."""
    rate: float
    """Bytes per cycle that the memory moves at its peak rate."""

    @property
    def peak_share(self) -> npt.NDArray[np.float64]:
        """For each transfer, its needed bytes, divided by the bytes that the memory can move in `own` cycles; at most
        1."""
        return np.minimum(self.asked / (self.rate * np.maximum(self.own, 1)), 1)

    def peak_share_of(self, rows: npt.NDArray[np.int64]) -> float:
        """The `peak_share` of some transfers together; at most 1, since a banked memory accepts writes early."""
        return float(min(self.asked[rows].sum() / (self.rate * max(self.own[rows].sum(), 1)), 1))


def memory_use_of(trace: TraceRecord) -> MemoryUse:
    """The memory use of each transfer; columns that the trace does not keep are computed again."""
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
    """The key of a launch by which the lengths of its transfers are known."""
    return (id(launched.program), launched.grids) if isinstance(launched, Launched) else (0, ())


def _lengths(launched: Launched | HostCall, trace: TraceRecord) -> I64:
    """The run and the stretch of each instruction, which do not depend on the arguments' addresses."""
    program, grids = launched.program, launched.grids if isinstance(launched, Launched) else ()
    anywhere = (0,) * len(program.arguments)
    copies = dma.transfers(program, anywhere, trace.machine, dma.in_rows(program), grids)
    stretch = np.where(program.opcode == Opcode.COPY, 0, copies.stretch)
    return np.stack([copies.run + run_bytes(program) + _single(program), stretch])


def _single(program: TileProgram) -> I64:
    """For each loop of accesses, the bytes of its widest element in DRAM; 0 for other instructions."""
    owner = program.owners()
    accesses = (program.opcode[owner] == Opcode.DIRECT) & (program.space == Space.DRAM)
    widest = np.zeros(len(program), np.int64)
    np.maximum.at(widest, owner[accesses], program.element_bytes[accesses])
    return widest
