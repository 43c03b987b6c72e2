"""The part of a launch's work that spares DRAM: copies of a second memory, and what is left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.tileprogram.program import I64
from simulator.units.unit import Mask


class Spared(NamedTuple):
    """Which instructions of one launch spare DRAM, and how."""

    rows: Mask
    """Whether each instruction is a copy that a second memory serves."""
    waits: I64
    """Pairs: a copy, and the instruction that brings its box to the second memory."""
    skipped: Mask
    """Whether each instruction is left out: it issues and waits like any other, and then takes no time."""


def none_spared(rows: int) -> Spared:
    """Of so many instructions none spares DRAM."""
    return Spared(np.zeros(rows, np.bool_), np.zeros((0, 2), np.int64), np.zeros(rows, np.bool_))
