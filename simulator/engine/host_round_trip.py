"""Steps on the host in a trace; units/host.py has their costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.machine.machine import Machine
from simulator.records.spans import CAUSES, HOST_STEPS, Cause, HostCall, SpanTable
from simulator.tileprogram.program import I64
from simulator.units.cost_table import Told, work
from simulator.units.host import round_trip


def run(call: HostCall, machine: Machine, unit: int, begin: int) -> tuple[Told, SpanTable, I64]:
    """A host call's work, its spans on unit `unit` from cycle `begin` on, and when their constraints were met."""
    asked = replace(work(call.program, (), machine), moved=np.array([call.bytes_in, 0, call.bytes_out], np.int64))
    spans, met = SpanTable.of(HOST_STEPS), np.full((HOST_STEPS, CAUSES), -1, np.int64)
    spans.unit[:], spans.issue[:], spans.issue_cause[:] = unit, begin, Cause.LAUNCH
    met[:, Cause.LAUNCH] = begin
    now = begin
    for step, taken in enumerate(round_trip(call.bytes_in, call.flops, call.bytes_out, machine)):
        spans.start[step] = now
        if step:
            met[step, Cause.UNIT_BUSY] = met[step, Cause.DATA] = now
            spans.blocker[step] = step - 1
        spans.cause[step] = Cause.DATA if step else Cause.LAUNCH
        now += taken
        spans.phase[step] = spans.end[step] = spans.done[step] = now
    return asked.told(), spans, met
