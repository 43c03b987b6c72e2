"""Fits what nobody published of tpu-v3 to the accuracy table, and says what the fit is worth.

    python benchmarks/fit.py [--table FILE] [--memory simple|banked]

One figure is fitted: `launch_overhead_cycles`, what a kernel costs before its first instruction. Launches run one after
another, so it adds a cycle to each of a workload's launches, and least squares of the relative errors have a closed
form. Leave-one-out: each workload is predicted with the overhead that fits the others. The result goes into
simulator/machines/tpu-v3.toml by hand.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accuracy import MACHINE, TABLE, error_of, options, read_table
from models import workload

import workbench as wb
from simulator.machine import Machine


@dataclass(frozen=True)
class Sample:
    """A measured workload, and what we say of it without launch overhead."""

    name: str
    measured: int
    cycles: int
    launches: int

    def error(self, overhead: int) -> float:
        return error_of(self.cycles + self.launches * overhead, self.measured)


def sample(name: str, measured: int, machine: Machine) -> Sample:
    given = workload(name)
    simulated = wb.trace(given.function, *given.inputs, machine=machine).simulated
    print(f"{name}: {simulated.cycles:,} cycles without launch overhead", file=sys.stderr)
    return Sample(name, measured, simulated.cycles, int(simulated.by_kernel["launches"].sum()))


def fitted(samples: Sequence[Sample]) -> int:
    """The overhead with the least squares of relative errors: they are linear in it."""
    slopes = [each.launches / each.measured for each in samples]
    missing = [-each.error(0) for each in samples]
    best = sum(a * b for a, b in zip(slopes, missing, strict=True)) / sum(a * a for a in slopes)
    return max(0, round(best))


def main() -> int:
    parser = argparse.ArgumentParser(description="Fits the launch overhead of tpu-v3 to measured cycles.")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    options(parser)
    given = parser.parse_args()
    rows = [(row.workload, row.measured) for row in read_table(given.table) if row.measured is not None]
    machine = wb.machine(MACHINE, memory=given.memory, **given.figures).with_(launch_overhead_cycles=0)
    samples = [sample(name, measured, machine) for name, measured in rows]
    overhead = fitted(samples)
    print(f"launch_overhead_cycles = {overhead}, fitted to all rows\n")
    print("| workload | launches | error | fitted without it | error then |\n|---|--:|--:|--:|--:|")
    inside, outside = list[float](), list[float]()
    for each in samples:
        without = fitted([other for other in samples if other is not each])
        inside.append(each.error(overhead))
        outside.append(each.error(without))
        print(f"| {each.name} | {each.launches} | {inside[-1]:+.1%} | {without} | {outside[-1]:+.1%} |")
    means = [statistics.fmean(map(abs, errors)) for errors in (inside, outside)]
    print(f"| mean of absolute errors | | {means[0]:.1%} | | {means[1]:.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
