"""Records of launches and of each instruction's span, and the names of causes, waits and counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.program import I64, DependenceKind, Instruction, Opcode, OpInfo, TileProgram
from simulator.tileprogram.program_builder import ProgramBuilder


class SpanTable(NamedTuple):
    """The engine's record of each instruction, a column per field; -1 while a time is not known."""

    unit: I64
    start: I64
    end: I64
    """The cycle in which the instruction's unit is free again."""
    done: I64
    """The cycle in which the instruction is complete."""
    phase: I64
    """A cycle between start and end: a matmul's first row enters, a transfer's last byte is on the bus."""
    issue: I64
    cause: I64
    """The constraint of the start that was met last: a `Cause`."""
    blocker: I64
    """The instruction that met this constraint, -1 for none."""
    issue_cause: I64
    issue_blocker: I64
    """`issue_cause` and `issue_blocker` are the same for the instruction's issue."""

    @staticmethod
    def of(rows: int) -> SpanTable:
        """A table in which no time is known."""
        return SpanTable(*(np.full(rows, -1, np.int64) for _ in SpanTable._fields))


class Cause(IntEnum):
    """The last constraint that an instruction waited for; each docstring says how it is met."""

    LAUNCH = 0
    """Its launch began."""
    ISSUE = 1
    """The instruction before it was issued."""
    WINDOW = 2
    """An instruction `issue_window` places before it was complete."""
    QUEUE_FULL = 3
    """A queue had room for the instruction."""
    UNIT_BUSY = 4
    """Its unit was free."""
    BANDWIDTH = 5
    """The memory was free. analysis/contention.py divides the wait by the bytes that the memory moved meanwhile."""
    WRITE_AFTER_READ = 6
    """Earlier instructions had read the bytes that this one overwrites."""
    WRITE_AFTER_WRITE = 7
    """Earlier instructions had written the bytes that this one overwrites."""
    REUSE = 8
    """The buffer that was at the same address before was no longer used."""
    ACCUMULATE = 9
    """The matmul before it in its K chain had streamed."""
    DATA = 10
    """Its inputs had been written."""
    BARRIER = 11
    """All cores had reached the barrier."""
    SECOND_MEMORY = 12
    """The second memory was free: `common_memory` in files and tables."""

    @property
    def label(self) -> str:
        return "common_memory" if self == Cause.SECOND_MEMORY else self.name.lower()


CAUSES = len(Cause)


class Wait(IntEnum):
    """Waits of a transfer while it held its unit: in the network, in a banked memory and on several buses."""

    INTERCONNECT = 0
    """Requests were on their way through the interconnect."""
    MEMORY_BUS = 1
    """Data of other transfers moved. analysis/contention.py divides this wait as it does `Cause.BANDWIDTH`."""
    MEMORY_ROW = 2
    """A row was being closed or opened: bank conflicts, ACTs that had to keep their distance from others."""
    MEMORY_BANK_GROUP = 3
    """A bank group takes its next request later than the bus does."""
    MEMORY_TURNAROUND = 4
    """The bus turned from reads to writes or back."""
    MEMORY_REFRESH = 5
    MEMORY_COMMAND = 6
    """The command bus carried another command."""

    @property
    def label(self) -> str:
        return self.name.lower()


WAITS = len(Wait)


class Grid(NamedTuple):
    """The rows and columns of a tensor in DRAM: columns along the axis of smallest stride, rows along the next axis."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Launched:
    """One run of a program: its arguments' byte addresses in DRAM, and in `after` the launches that it depends on."""

    kernel: str
    program: TileProgram
    addresses: tuple[int, ...]
    after: tuple[int, ...] = ()
    indices: Mapping[int, I64] = field(default_factory=dict[int, I64])
    """The index tensors with known numbers: argument -> the elements of its storage, from its base on. Addresses that
    depend on other tensors are assumed."""
    filled: Mapping[int, npt.NDArray[np.bool_]] = field(default_factory=dict[int, npt.NDArray[np.bool_]])
    """Argument -> True for each nonzero element of its storage. For machines that skip zeros; only known tensors."""
    grids: tuple[Grid | None, ...] = ()
    """The rows and columns of each argument's tensor, for machines on which tensors lie in blocks; None for tensors of
    one dim. Empty if all tensors lie row after row."""


@dataclass(frozen=True)
class HostCall:
    """One step on the host between two kernels: the bytes to the host, its operations there, and the bytes back."""

    kernel: str
    bytes_in: int
    bytes_out: int
    flops: int
    after: tuple[int, ...] = ()

    @property
    def addresses(self) -> tuple[int, ...]:
        return ()

    @cached_property
    def program(self) -> TileProgram:
        """A program of three instructions, so that a trace has spans for the way there, the work, and the way back."""
        made = ProgramBuilder(self.kernel, ops=[OpInfo("host", 0, ())], origin_names=[self.kernel])
        for step in range(HOST_STEPS):
            waits = ((step - 1, DependenceKind.READ_AFTER_WRITE),) if step else ()
            made.add(Instruction(Opcode.HOST, 0, (), (), (), dependences=waits, origins=(0,)))
        return made.build()


HOST_STEPS = 3
"""Number of spans of a host call: to the host, on the host, back."""

HOST_UNIT = "host"
"""Name of the unit that host calls run on; only a trace with host calls has this unit."""


class Via(IntEnum):
    """The memory that a transfer used."""

    NONE = 0
    """No transfer, or a transfer within the scratchpad."""
    DRAM = 1
    SECOND = 2
    """A second memory, beside DRAM: `common` in files and tables."""
    SKIPPED = 3
    """None: the instruction was skipped, since its data is zeros."""

    @property
    def label(self) -> str:
        return {Via.NONE: "", Via.SECOND: "common"}.get(self, self.name.lower())


TOTALS = (
    "dram_read_bytes",
    "dram_write_bytes",
    "dram_request_bytes",
    "dram_remote_bytes",
    "common_read_bytes",
    "common_write_bytes",
    "copied_bytes",
    "macs",
    "alu",
    "special",
)
"""The totals of a launch, in this order: bytes read and written in DRAM, bytes that the DRAM moved in whole requests,
and the part of these in another part of the memory than the core's own; bytes read and written in the second memory;
bytes copied within the scratchpad; multiply-accumulates; element operations of the ALUs and of the special function
units, vector and scalar."""

CHANNEL_COUNTERS = ("reads", "writes", "row_hits", "row_misses", "row_conflicts", "activates", "refreshes", "forwarded")
"""Counters of a channel: requests by direction; requests that found their row open, no row open, another row open;
ACTs; refreshes of a pseudo-channel; reads answered from the write queue."""

CHANNEL_CYCLES = (
    "transfer_cycles", "row_cycles", "bank_group_cycles", "turnaround_cycles", "refresh_cycles", "command_cycles",
    "idle_cycles", "queue_full_cycles",
)  # fmt: skip
"""Cycles of a channel by state: data moved; the oldest request waited, by reason (see `Wait`); nothing was queued.
These add up to the makespan. The last column counts cycles in which requests stood before a full queue."""


class Statistics(NamedTuple):
    """Statistics of a banked memory's channels; a simple memory has no channels here."""

    channels: I64
    """C x `CHANNEL_COUNTERS`."""
    channel_cycles: I64
    """C x `CHANNEL_CYCLES`."""
    channel_bytes: I64
    """C x piece of time."""
    channel_times: I64
    """The cycles in which the pieces of time begin, and the end of the last piece."""
