"""Fits what nobody published of tpu-v3 to the accuracy table, and says what the fit is worth.

    python benchmarks/fit.py [--table FILE] [--memory simple]

Two figures are fitted, both to whole numbers, by trying every pair and taking the one with the least mean of absolute
errors: `cross_lane_step_cycles`, one step across the lanes in a reduction or a spread, and `launch_overhead_cycles`,
what a kernel costs before its first instruction. All workloads are compiled and simulated anew for each value of the
first; launches run one after another, so the second adds a cycle to every launch. Leave-one-out: each workload is
predicted with the figures that fit the others best. The result goes into simulator/machines/tpu-v3.toml by hand.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accuracy import MACHINE, TABLE, Row, error_of, options, read_table
from models import workload

import workbench as wb

STEPS = range(2, 13)
OVERHEADS = range(0, 2001, 25)


@dataclass(frozen=True)
class Sample:
    """A workload without launch overhead, at one cost of a step across lanes."""

    cycles: int
    launches: int


Samples = dict[tuple[str, int], Sample]


@dataclass(frozen=True)
class Fit:
    """Values of the fitted figures."""

    step: int
    overhead: int

    def cycles(self, row: Row, samples: Samples) -> int:
        sample = samples[row.workload, self.step]
        return sample.cycles + sample.launches * self.overhead

    def error(self, rows: Sequence[Row], samples: Samples) -> float:
        """Mean of absolute errors."""
        return statistics.fmean(abs(error_of(self.cycles(row, samples), row.measured or 1)) for row in rows)


def sample(row: Row, step: int, figures: dict[str, int | float | str]) -> Sample:
    machine = wb.machine(MACHINE, **{**figures, "cross_lane_step_cycles": step, "launch_overhead_cycles": 0})
    given = workload(row.workload)
    simulated = wb.trace(given.function, *given.inputs, machine=machine).simulated
    return Sample(simulated.cycles, int(simulated.by_kernel["launches"].sum()))


def best(rows: Sequence[Row], samples: Samples) -> Fit:
    """Of fits that are equally good, the one with the smallest figures."""
    tried = (Fit(step, overhead) for step in STEPS for overhead in OVERHEADS)
    return min(tried, key=lambda fit: fit.error(rows, samples))


def main() -> int:
    parser = argparse.ArgumentParser(description="Fits two figures of tpu-v3 to measured cycles.")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    options(parser)
    given = parser.parse_args()
    rows = [row for row in read_table(given.table) if row.measured is not None]
    samples: Samples = {}
    for step in STEPS:
        for row in rows:
            samples[row.workload, step] = sample(row, step, given.figures)
        print(f"cross_lane_step_cycles = {step}: done", file=sys.stderr)
    fit = best(rows, samples)
    print(f"cross_lane_step_cycles = {fit.step}, launch_overhead_cycles = {fit.overhead}")
    print(f"mean of absolute errors {fit.error(rows, samples):.1%}")
    print("\n| left out | measured | predicted | error | step, overhead |\n|---|--:|--:|--:|--:|")
    errors: list[float] = []
    for row in rows:
        without = best([other for other in rows if other is not row], samples)
        predicted = without.cycles(row, samples)
        errors.append(error_of(predicted, row.measured or 1))
        cells = [row.workload, f"{row.measured:,}", f"{predicted:,}", f"{errors[-1]:+.1%}"]
        print(f"| {' | '.join(cells)} | {without.step}, {without.overhead} |")
    print(f"| mean of absolute errors | | | {statistics.fmean(map(abs, errors)):.1%} | |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
