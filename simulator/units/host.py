"""The host: a step on the host is a round trip over the host link, with arithmetic on the host between.

Each way costs the link's latency and the bytes at its bandwidth; the arithmetic costs its operations at the host's
rate. A step is never free: without bytes and operations it still costs two latencies. Nothing overlaps a step, since
launches run one after another. The host belongs to no core; a trace with such steps lists it after all units.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from simulator.machine.machine import Machine
from simulator.tileprogram.program import Opcode
from simulator.units.unit import Costs, Does, Unit


def round_trip(bytes_in: int, flops: int, bytes_out: int, machine: Machine) -> tuple[int, int, int]:
    """Cycles of the machine for the way to the host, the work there, and the way back."""
    hertz = 1000 * machine.clock_khz
    latency = Fraction(str(machine.host.link_latency_us)) * machine.clock_khz / 1000
    there, back = (
        math.ceil(latency + Fraction(size * hertz, machine.host.link_bytes_per_second))
        for size in (bytes_in, bytes_out)
    )
    return there, math.ceil(Fraction(flops * hertz, machine.host.flops_per_second)), back


UNIT = Unit(
    name="host",
    lane="host",
    does={Opcode.HOST: Does("host", "host")},
    costs=lambda part: Costs(np.zeros(len(part.program), np.int64)),  # a step is timed as a round trip
    own_clock=False,
)
