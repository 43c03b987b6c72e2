"""Steps on the host: a round trip over the host link, and the host's own arithmetic between.

Each way costs the link's latency and the bytes at its bandwidth; the arithmetic its operations at the host's rate. It
is never free: no bytes and no operations still cost two latencies. Nothing overlaps it, since launches run one after
another.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from simulator.machine.machine import Machine
from simulator.records.spans import (
    BLOCKER,
    CAUSE,
    CAUSES,
    DONE,
    END,
    HOST_STEPS,
    ISSUE,
    ISSUE_BLOCKER,
    ISSUE_CAUSE,
    PHASE,
    SPAN_COLUMNS,
    START,
    UNIT,
    Cause,
    HostCall,
)
from simulator.tileprogram.program import I64
from simulator.units.cost_table import Told, work


def cycles(call: HostCall, machine: Machine) -> tuple[int, int, int]:
    """Cycles of the machine for the way to the host, the work on it, and the way back."""
    hertz = 1000 * machine.clock_khz
    latency = Fraction(str(machine.host.link_latency_us)) * machine.clock_khz / 1000
    there, back = (
        math.ceil(latency + Fraction(size * hertz, machine.host.link_bytes_per_second))
        for size in (call.bytes_in, call.bytes_out)
    )
    return there, math.ceil(Fraction(call.flops * hertz, machine.host.flops_per_second)), back


def run(call: HostCall, machine: Machine, unit: int, begin: int) -> tuple[Told, I64, I64]:
    """What a call asks, its spans on unit `unit` from cycle `begin` on, and when their constraints were met."""
    asked = replace(work(call.program, (), machine), moved=np.array([call.bytes_in, 0, call.bytes_out], np.int64))
    spans = np.full((HOST_STEPS, SPAN_COLUMNS), -1, np.int64)
    met = np.full((HOST_STEPS, CAUSES), -1, np.int64)
    spans[:, UNIT], spans[:, ISSUE], spans[:, ISSUE_CAUSE] = unit, begin, Cause.LAUNCH
    spans[:, ISSUE_BLOCKER] = spans[0, BLOCKER] = -1
    met[:, Cause.LAUNCH] = begin
    now = begin
    for step, taken in enumerate(cycles(call, machine)):
        spans[step, START] = now
        if step:
            met[step, Cause.UNIT_BUSY] = met[step, Cause.DATA] = now
            spans[step, BLOCKER] = step - 1
        spans[step, CAUSE] = Cause.DATA if step else Cause.LAUNCH
        now += taken
        spans[step, [PHASE, END, DONE]] = now
    return asked.told(), spans, met
