"""How well each transfer of a trace used the memory: what lay together, what was asked for, what had to be moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from simulator import dma, indexed, scalar
from simulator.again import works
from simulator.costs import REQUESTED, Work
from simulator.errors import SimulatorError
from simulator.indexed import INDEXED
from simulator.program import I64, Opcode, TileProgram
from simulator.spans import HostCall, Via

if TYPE_CHECKING:
    import numpy.typing as npt

    from simulator.trace import Trace


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One entry per span of a trace; 0 for those that move nothing from or to DRAM."""

    run: I64
    """Bytes that lie together in DRAM: of a copy each of its runs, of a gather, a scatter or a loop of accesses one."""
    stretch: I64
    """Bytes that a queue moves side by side, LOAD and STORE alone."""
    asked: I64
    """Bytes that the instruction wants."""
    requested: I64
    """Bytes that the memory moves for it, in whole requests."""
    cycles: I64
    """From its first request to its last byte on the bus or in the queue, without the latency."""


def memory_use(trace: Trace) -> MemoryUse:
    """Works out again what the trace does not keep."""
    if trace.kernels and not trace.launches:
        raise SimulatorError("this trace was loaded without its programs, which its transfers follow from")
    run, stretch, requested = (np.zeros(len(trace), np.int64) for _ in range(3))
    starts = np.searchsorted(trace.launch, np.arange(len(trace.launches) + 1)).tolist()
    rows_of = dict[int, "npt.NDArray[np.bool_]"]()
    for index, (launched, on_chiplets) in enumerate(zip(trace.launches, _on_chiplets(trace), strict=True)):
        if isinstance(launched, HostCall):
            continue
        here, program = slice(starts[index], starts[index + 1]), launched.program
        if id(program) not in rows_of:
            rows_of[id(program)] = dma.in_rows(program)
        copies = dma.transfers(program, launched.addresses, trace.machine, rows_of[id(program)])
        one = _single(program)
        if on_chiplets is None:
            loops = scalar.loops(program, launched.addresses, trace.machine)
            runs = indexed.requests(program, launched.addresses, launched.indices, trace.machine)
            asked = copies.request_bytes + loops.request_bytes + runs.request_bytes
            requested[here] = np.where(trace.via[here] == Via.DRAM, asked, 0)
        else:
            requested[here] = on_chiplets.table[:, REQUESTED]
        run[here] = np.where(requested[here] > 0, np.maximum(copies.run, one), 0)
        stretch[here] = np.where(requested[here] > 0, copies.stretch, 0)
    in_dram = (requested > 0) & (trace.via == Via.DRAM)
    return MemoryUse(
        run,
        stretch,
        np.where(in_dram, trace.bytes, 0),
        np.where(in_dram, requested, 0),
        np.where(in_dram, trace.phase - trace.start, 0),
    )


def _on_chiplets(trace: Trace) -> Iterator[Work | None]:
    """The work of each launch where it depends on which chiplet has the bytes; None where an instruction says it."""
    return works(trace) if trace.machine.chiplets > 1 else repeat(None, len(trace.launches))


def _single(program: TileProgram) -> I64:
    """Of a gather, a scatter and a loop of accesses, the bytes of one element; 0 of all else."""
    alone = np.isin(program.opcode, [*INDEXED, Opcode.DIRECT])
    last = np.maximum(program.operand_start[1:] - 1, 0)
    has = program.operand_start[1:] > program.operand_start[:-1]
    size = program.element_bytes[last] if len(program.element_bytes) else np.zeros(len(program), np.int64)
    return np.where(alone & has, size, 0).astype(np.int64)
