"""Memory does not grow with use; the full figures are those of benchmarks/memory.py, of which this is a tenth."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import memory

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")


def test_calls_of_one_journey_leave_nothing_behind() -> None:
    first, last = memory.calls(300)
    assert last - first < memory.CALLS_MB


@pytest.mark.test_all
def test_compiling_and_dropping_journeys_leaves_little_behind() -> None:
    """Less a cycle than the five hundred of the benchmark may leave, with room for what settles first."""
    count = 20
    seen = memory.cycles(count)
    assert seen[-1] - seen[len(seen) // 2] < memory.CYCLES_MB / 500 * count + 5
