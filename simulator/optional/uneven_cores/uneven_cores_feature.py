"""Cores that differ on the hooks of the simulator."""

from __future__ import annotations

from simulator.machine.optional.uneven_cores.shares import SHAPE
from simulator.optional.feature import Feature

FEATURE = Feature(name="uneven cores", shape=SHAPE)
