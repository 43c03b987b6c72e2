"""The engine's record of each instruction, and the names of its waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.tileprogram.program import I64, DependenceKind, Instruction, Opcode, OpInfo, TileProgram
from simulator.tileprogram.program_builder import ProgramBuilder


class SpanTable(NamedTuple):
    """The engine's record of each instruction; -1 while a time is not known."""

    unit: I64
    start: I64
    end: I64
    """When its unit is free."""
    done: I64
    """When it is complete."""
    phase: I64
    """Between start and end: a matmul's first row enters, a transfer's last byte is on the bus."""
    issue: I64
    cause: I64
    """The last constraint to be met, of `Cause`."""
    blocker: I64
    """The instruction that met it, -1 for none."""
    issue_cause: I64
    issue_blocker: I64
    """The same for its issue."""

    @staticmethod
    def of(rows: int) -> SpanTable:
        """A table in which no time is known."""
        return SpanTable(*(np.full(rows, -1, np.int64) for _ in SpanTable._fields))


class Cause(IntEnum):
    """The last constraint that an instruction waited for."""

    LAUNCH = 0
    """Its launch began."""
    ISSUE = 1
    """The instruction before it was issued."""
    WINDOW = 2
    """An instruction `issue_window` places before it was complete."""
    QUEUE_FULL = 3
    """There was room in a queue."""
    UNIT_BUSY = 4
    """Its unit was free."""
    BANDWIDTH = 5
    """The memory was free. analysis/contention.py divides the wait by what the memory did meanwhile."""
    WRITE_AFTER_READ = 6
    """The bytes that it overwrites had been read."""
    WRITE_AFTER_WRITE = 7
    """The bytes that it overwrites had been written."""
    REUSE = 8
    """A buffer at the same address was no longer used."""
    ACCUMULATE = 9
    """The matmul before it in its K chain had streamed."""
    DATA = 10
    """Its inputs were there."""
    BARRIER = 11
    """All cores had come to where they meet."""
    SECOND_MEMORY = 12
    """The second memory was free: `common_memory` in files and tables."""

    @property
    def label(self) -> str:
        return "common_memory" if self == Cause.SECOND_MEMORY else self.name.lower()


CAUSES = len(Cause)


class Wait(IntEnum):
    """Waits of an instruction while it held its unit: a transfer's, in the network, in a banked memory and on several
    buses."""

    INTERCONNECT = 0
    """The way to the memory."""
    MEMORY_BUS = 1
    """Data of other transfers moved: divided likewise."""
    MEMORY_ROW = 2
    """A row was closed and another opened: bank conflicts, ACTs too close to others."""
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
    """The rows and columns of a tensor in DRAM: columns along the axis whose elements lie side by side, rows along the
    next."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Launched:
    """One run of a program: its arguments' DRAM byte addresses, and the launches whose results it reads."""

    kernel: str
    program: TileProgram
    addresses: tuple[int, ...]
    after: tuple[int, ...] = ()
    indices: Mapping[int, I64] = field(default_factory=dict[int, I64])
    """The known index tensors: argument -> the elements of its storage, from its base on. Addresses that follow from
    other tensors are assumed."""
    filled: Mapping[int, npt.NDArray[np.bool_]] = field(default_factory=dict[int, npt.NDArray[np.bool_]])
    """The known nonzero elements of tensors, likewise: for machines that leave zeros out."""
    grids: tuple[Grid | None, ...] = ()
    """The rows and columns of each argument's tensor, for machines on which tensors lie in blocks; None for those of
    one dim. Empty: all lie row after row."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """One step on the host between two kernels: its bytes over the host link, its operations, and its bytes back."""

    kernel: str
    bytes_in: int
    bytes_out: int
    flops: int
    after: tuple[int, ...] = ()

    @property
    def addresses(self) -> tuple[int, ...]:
        return ()

    @property
    def program(self) -> TileProgram:
        """Its way there, its work and its way back as three instructions, so that a trace holds them like others."""
        made = ProgramBuilder(self.kernel, ops=[OpInfo("host", 0, ())], origin_names=[self.kernel])
        for step in range(HOST_STEPS):
            waits = ((step - 1, DependenceKind.READ_AFTER_WRITE),) if step else ()
            made.add(Instruction(Opcode.HOST, 0, (), (), (), dependences=waits, origins=(0,)))
        return made.build()


HOST_STEPS = 3
"""Spans of a host call: to the host, on the host, back."""

HOST_UNIT = "host"
"""Name of the unit that host calls run on; it is there only in a trace that has some."""


class Via(IntEnum):
    """The memory that a transfer used."""

    NONE = 0
    """No transfer, or one within the scratchpad."""
    DRAM = 1
    SECOND = 2
    """A second memory, beside DRAM: `common` in files and tables."""
    SKIPPED = 3
    """None, as with all that is left out."""

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
"""Bytes asked of the DRAM, bytes it moved in whole requests, and those of them that lay in another part of it than the
core's own; bytes asked of the second memory, bytes copied within the scratchpad, multiply-accumulates, element
operations of the ALUs and of the special function units, vector and scalar."""

CHANNEL_COUNTERS = ("reads", "writes", "row_hits", "row_misses", "row_conflicts", "activates", "refreshes", "forwarded")
"""Requests by direction; requests by what they found: their row, none, another; ACTs, refreshes of a pseudo-channel,
reads answered from the write queue."""

CHANNEL_CYCLES = (
    "transfer_cycles", "row_cycles", "bank_group_cycles", "turnaround_cycles", "refresh_cycles", "command_cycles",
    "idle_cycles", "queue_full_cycles",
)  # fmt: skip
"""States of a channel: data moved, the oldest request waited (`Wait` says for what), nothing was queued. These add up
to the makespan; besides them, cycles in which requests stood before a full queue."""


class Statistics(NamedTuple):
    """Statistics of a banked memory's channels; no channels with a simple one."""

    channels: I64
    """C x `CHANNEL_COUNTERS`."""
    channel_cycles: I64
    """C x `CHANNEL_CYCLES`."""
    channel_bytes: I64
    """C x piece of time."""
    channel_times: I64
    """The cycles in which the pieces of time begin, and the end of the last."""
