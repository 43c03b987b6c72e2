"""What the engine writes down of each instruction, and the names of what it may have waited for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from simulator.program import TileProgram

# Columns of the engine's table of spans
UNIT, START, END, DONE, PHASE, ISSUE, CAUSE, BLOCKER, ISSUE_CAUSE, ISSUE_BLOCKER, SPAN_COLUMNS = range(11)


class Cause(IntEnum):
    """What an instruction waited for last."""

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
    """The memory was free."""
    WRITE_AFTER_READ = 6
    """What it overwrites had been read."""
    WRITE_AFTER_WRITE = 7
    """What it overwrites had been written."""
    REUSE = 8
    """A buffer at the same address was no longer used."""
    ACCUMULATE = 9
    """The matmul before it in its K chain had streamed."""
    DATA = 10
    """What it reads was there."""

    @property
    def label(self) -> str:
        return self.name.lower()


CAUSES = len(Cause)


@dataclass(frozen=True, slots=True)
class Launched:
    """One run of a program: its arguments' DRAM byte addresses, and the launches whose results it reads."""

    kernel: str
    program: TileProgram
    addresses: tuple[int, ...]
    after: tuple[int, ...] = ()


TOTALS = ("dram_read_bytes", "dram_write_bytes", "dram_request_bytes", "copied_bytes", "macs", "alu", "special")
"""Bytes asked of the DRAM and what it moved in whole requests, bytes copied within the scratchpad,
multiply-accumulates, element operations of the ALUs and of the special function units, vector and scalar."""
