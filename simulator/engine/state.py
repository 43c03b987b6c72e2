"""Columns of what the event loop knows: of a machine, its units, the issue stage of each core, a launch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.machine.machine import Machine
from simulator.records.spans import Wait
from simulator.tileprogram.program import I32, I64, U8

# Unit classes and causes as plain integers, which is what the compiled functions know
DMA, SYSTOLIC, SCALAR = 0, 1, 3
AT_LAUNCH, AT_ISSUE, AT_WINDOW, AT_QUEUE, AT_UNIT, AT_BANDWIDTH = 0, 1, 2, 3, 4, 5
AT_BARRIER, AT_COMMON = 11, 12
CAUSE_OF_KIND = (10, 6, 7, 9, 8, 11)
AFTER_READ_KIND, ACCUMULATE_KIND = 1, 3
NEVER = 1 << 62
INTERCONNECT, MEMORY_BUS, MOST_WAITED = int(Wait.INTERCONNECT), int(Wait.MEMORY_BUS), (1 << 31) - 1

# Figures of the machine, as the event loop reads them
QUEUES, ARRAYS, DEPTH, WINDOW, INTERVAL, CORES, IN_TURN, FIGURES = 0, 1, 2, 3, 4, 5, 6, 7

# State of one unit
HEAD, COUNT, FREE, LATEST, READY, SHADOW, BACKLOG, UNIT_STATE = 0, 1, 2, 3, 4, 5, 6, 7

# State of a core's issue stage; instructions are counted in the core's own order, of which `BASE` is the first; the
# last is the array whose turn it is
NEXT, TIME, BLOCKED, FREED, FREED_BY, RETIRED, BASE, LENGTH, TURN, ISSUE_STATE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

# State of the launch: who was last on the bus, how many transfers run in banked memory, when it began, what has
# started, who was last on the common memory's bus
BUS_USER, RUNNING, BEGIN, STARTED, COMMON_USER = 0, 1, 2, 3, 4

# How the loop comes back
OVER, PAUSED, STUCK = 0, 1, 2


class Asked(NamedTuple):
    """What a program asks of the machine: a row of costs an instruction, and what each waits for, edge by edge."""

    table: I64
    wait_start: I64
    wait: I32
    wait_kind: U8


class Parts(NamedTuple):
    """What every machine has: the figures that the loop reads, those of its memory, and the state of that."""

    figures: I64
    memory: I64
    memory_state: I64


class Launch(NamedTuple):
    """A launch under way: the state of units, issue stages and what they share, and what is known of its spans."""

    unit: I64
    queue: I64
    """What stands before each unit, a ring."""
    order: I32
    """Instructions core by core."""
    place: I32
    """Of an instruction in its core's order."""
    stages: I64
    """The issue stage of each core."""
    shared: I64
    retired: I32
    """Who is complete last of all of a core up to each, in its order."""
    spans: I64
    met: I64
    """When each constraint was met."""
    by: I64
    """And by whom, of the instruction that is at hand."""
    waits: I32
    """What an instruction waits for while it holds its unit."""


def figures_of(machine: Machine) -> I64:
    """The figures of a machine that the event loop reads."""
    figures = np.zeros(FIGURES, np.int64)
    figures[QUEUES], figures[ARRAYS] = machine.dma.queues, machine.array.count
    figures[DEPTH], figures[WINDOW] = machine.core.queue_depth, machine.core.issue_window
    figures[INTERVAL], figures[CORES] = machine.core.issue_interval_cycles, machine.core.count
    figures[IN_TURN] = machine.array.selection == "in_turn"
    return figures
