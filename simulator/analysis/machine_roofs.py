"""The least cycles of each kernel of a trace, by part of the machine: its place under the machine's roofs.

    arrays             multiply-adds * passes / multiply-adds of all arrays in a cycle
    vector unit        vectors of element operations, all lanes full and no waits: see units/vector.py
    memory             bytes in whole requests / bytes that the memory moves in a cycle
    short transfers    cycles that DMA queues need for stretches narrower than they are, of all queues: see units/dma.py

A kernel takes at least the largest of these, whatever its schedule, while its operations and bytes stay the same. If
cores differ, the times of arrays and vector units are computed for each kind of core; the longest counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.analysis.memory_use import memory_use_of
from simulator.machine.machine import Machine
from simulator.records.spans import TOTALS, Via
from simulator.tileprogram.program import I64, Argument, Opcode, TileProgram
from simulator.trace_record import TraceRecord
from simulator.units import systolic, vector

ARRAYS, VECTOR, MEMORY, SHORT = ROOFS = ("arrays", "vector unit", "memory", "short transfers")


@dataclass(frozen=True, slots=True)
class Load:
    """The operations and bytes of one launch."""

    launch: int
    kernel: str
    cycles: int
    macs: int
    element_ops: int
    """Operations of the ALUs and the special functions, vector and scalar."""
    asked: int
    """Bytes asked of the DRAM."""
    moved: int
    """Bytes that the DRAM moved for the `asked` bytes, in whole requests."""
    runs: float
    """The number of contiguous runs in DRAM of the `asked` bytes."""
    stretches: float
    """The number of stretches in which queues move these bytes."""
    least: tuple[float, ...]
    """The least cycles that each of `ROOFS` allows."""


def loads(trace: TraceRecord) -> list[Load]:
    """The load of each launch of a program; steps on the host are left out."""
    trace.check_has_programs("which its roofline follows from")
    use = memory_use_of(trace)
    stretch = np.where(use.stretch > 0, use.stretch, use.asked)  # a gather or a loop of accesses has no known stretch
    width = trace.machine.dma.bytes_per_cycle
    queued = -(-stretch // width) * use.asked / np.maximum(stretch, 1)
    found, spans = list[Load](), trace.kernel_spans
    for index, launched, rows in trace.programs():
        kernel, begin, end = spans[index]
        totals = dict(zip(TOTALS, trace.totals[index].tolist(), strict=True))
        moved, counted = int(use.requested[rows].sum()), totals["alu"] + totals["special"]
        queues = trace.kind[rows] != Opcode.DIRECT
        least = (
            *_computing(launched.program, trace.machine, trace.via[rows] != Via.SKIPPED),
            float(moved / trace.machine.bus_bytes_per_cycle),
            float(queued[rows][queues].sum()) / (trace.machine.dma.queues * trace.machine.core.count),
        )
        runs, stretches = (_pieces(use.asked[rows], each[rows]) for each in (use.run, use.stretch))
        asked = int(use.asked[rows].sum())
        found.append(Load(index, kernel, end - begin, totals["macs"], counted, asked, moved, runs, stretches, least))
    return found


def _pieces(asked: I64, size: I64) -> float:
    """Counts the pieces of `size` bytes in `asked` bytes; bytes of unknown size (0) are left out."""
    return float(np.sum(asked / np.maximum(size, 1) * (size > 0)))


def _computing(program: TileProgram, machine: Machine, done: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """The least cycles of the arrays and of the vector units for the instructions of a program that are `done`."""
    is_matmul, is_vector = program.opcode == Opcode.MATMUL, program.opcode == Opcode.VECTOR
    macs = program.extent.prod(1) * systolic.passes(program, machine) * (is_matmul & done)
    products, passes = 0.0, 0.0
    for alike, ratio, cores in machine.kinds_of_cores:
        mine, rate = np.isin(program.core, cores), float(ratio) * len(cores)
        products = max(products, float(macs[mine].sum()) / (alike.macs_per_cycle * rate))
        cycles = vector.least_cycles(program, alike)
        passes = max(passes, float(cycles[mine & is_vector & done].sum()) / rate)
    return products, passes


def least_bytes(trace: TraceRecord, traffic: Sequence[Mapping[str, str | int]]) -> list[int]:
    """For each row of `traffic`, its bytes if each byte of the argument that is read or written moved once.

    The result is at most the row's bytes: a kernel that looks up some rows of a table needs no others.
    """
    programs = [launched.program for launched in trace.launches]
    sizes = [_size(argument) for program in programs for argument in program.arguments]
    return [
        min(int(row["read"]), size) + min(int(row["written"]), size) for row, size in zip(traffic, sizes, strict=True)
    ]


def _size(argument: Argument) -> int:
    """Bytes of an argument's elements; an element that several indices share counts once."""
    moving = (extent for extent, stride in zip(argument.shape, argument.strides, strict=True) if stride)
    return math.prod(moving) * argument.element_bytes


def peaks(machine: Machine) -> dict[str, float]:
    """The peak rate of each roof per cycle: multiply-adds of arrays, vector operations on elements of four bytes,
    bytes."""
    of_vectors = (
        each.vector_elements(4) * each.vector.alus * float(ratio) * len(cores)
        for each, ratio, cores in machine.kinds_of_cores
    )
    return {
        ARRAYS: float(machine.peak_macs_per_cycle),
        VECTOR: sum(of_vectors),
        MEMORY: float(machine.bus_bytes_per_cycle),
    }
