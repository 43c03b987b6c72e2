"""Fits what nobody published of tpu-v3 to the accuracy table, and says what the fit is worth.

    python benchmarks/fit.py [--table FILE] [--memory simple|banked] [--set FIGURE=VALUE ...]

Two figures are fitted here, by least squares of the relative errors. `launch_overhead_cycles` is what a kernel costs
before its first instruction; launches run one after another, so it adds a cycle to each of a workload's launches, and
the best one has a closed form. `weight_switch_cycles` is what an array loses with every set of weights; all programs
are simulated with each of SWITCHES. Leave-one-out: each workload is predicted with the two that fit the others. The
result goes into simulator/machine/shipped/tpu-v3.toml by hand.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accuracy import MACHINE, TABLE, error_of, options, read_table
from workloads import workload

import workbench as wb
from simulator.engine.engine import simulate
from simulator.machine.machine import Machine

SWITCHES = range(0, 129, 8)
"""From none to as long as the array is high."""


@dataclass(frozen=True)
class Sample:
    """A measured workload, and what we say of it without launch overhead, by weight_switch_cycles."""

    name: str
    measured: int
    cycles: dict[int, int]
    launches: int

    def error(self, switch: int, overhead: int) -> float:
        return error_of(self.cycles[switch] + self.launches * overhead, self.measured)


def sample(name: str, measured: int, machine: Machine) -> Sample:
    given = workload(name)
    launches = wb.trace(given.function, *given.inputs, machine=machine).simulated.trace.launches
    found = {switch: simulate(launches, machine.with_(weight_switch_cycles=switch)).makespan for switch in SWITCHES}
    print(f"{name}: {found[0]:,} to {found[SWITCHES[-1]]:,} cycles without launch overhead", file=sys.stderr)
    return Sample(name, measured, found, len(launches))


def overhead_for(samples: Sequence[Sample], switch: int) -> int:
    """The overhead with the least squares of relative errors: they are linear in it."""
    slopes = [each.launches / each.measured for each in samples]
    missing = [-each.error(switch, 0) for each in samples]
    best = sum(a * b for a, b in zip(slopes, missing, strict=True)) / sum(a * a for a in slopes)
    return max(0, round(best))


def fitted(samples: Sequence[Sample]) -> tuple[int, int]:
    """The switch and the overhead with the least squares of relative errors."""
    tried = [(switch, overhead_for(samples, switch)) for switch in SWITCHES]
    return min(tried, key=lambda both: sum(each.error(*both) ** 2 for each in samples))


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Fits the launch overhead and weight switch of tpu-v3.", allow_abbrev=False
    )
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    options(parser)
    given = parser.parse_args()
    rows = [(row.workload, row.measured) for row in read_table(given.table) if row.measured is not None]
    machine = wb.machine(MACHINE, memory=given.memory, **given.figures).with_(launch_overhead_cycles=0)
    samples = [sample(name, measured, machine) for name, measured in rows]
    switch, overhead = fitted(samples)
    print(f"weight_switch_cycles = {switch}, launch_overhead_cycles = {overhead}, fitted to all rows\n")
    print("| workload | launches | error | fitted without it | error then |\n|---|--:|--:|--:|--:|")
    inside, outside = list[float](), list[float]()
    for each in samples:
        others = fitted([other for other in samples if other is not each])
        inside.append(each.error(switch, overhead))
        outside.append(each.error(*others))
        without = f"{others[0]}, {others[1]}"
        print(f"| {each.name} | {each.launches} | {inside[-1]:+.1%} | {without} | {outside[-1]:+.1%} |")
    means = [statistics.fmean(map(abs, errors)) for errors in (inside, outside)]
    print(f"| mean of absolute errors | | {means[0]:.1%} | | {means[1]:.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
