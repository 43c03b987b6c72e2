"""Rows of both tables, each compiled once and simulated on several machines: what fit.py and ablation.py share."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from compiled_workloads import Compiled, both
from measured_tables import KINDS, Kind, Row, read_table
from workloads import family_of

import workbench as wb
from simulator.machine.machine import Machine

Figures = Mapping[str, int | float | str]
Variants = Sequence[Mapping[Kind, Figures]]
"""Figures to simulate with, on each chip."""
_OF_PRODUCTS = {"weight_switch_cycles"}
"""Figures that make no difference to a program without products."""


@dataclass(frozen=True)
class Simulated:
    """A measured row, and what its programs take with each of the variants; in the unit of its table."""

    kind: Kind
    row: Row
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    launches: int
    """Of their program."""

    @property
    def family(self) -> str:
        return family_of(self.row.workload)

    @property
    def measured(self) -> float:
        assert self.row.measured is not None
        return self.row.measured


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--memory", choices=("simple", "banked"), default="banked", help="the model of the DRAM")
    parser.add_argument("--sample", type=int, default=60, metavar="N", help="rows of the TPU v4, of every family")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes")


def sampled(rows: Sequence[Row], wanted: int, seed: int) -> list[Row]:
    """So many of the rows, as many of each family as it has a share of them, and at least two."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(family_of(row.workload), []).append(row)
    draw, found = random.Random(seed), list[Row]()
    for family in families.values():
        share = max(2, round(wanted * len(family) / len(rows)))
        found += draw.sample(family, min(share, len(family)))
    return found


def measured_rows(sample: int, seed: int) -> list[tuple[Kind, Row]]:
    """Every row of cycles, and a sample of those of microseconds."""
    found = list[tuple[Kind, Row]]()
    for kind in KINDS:
        rows = [row for row in read_table(kind.table).rows if row.measured is not None]
        found += [(kind, row) for row in (sampled(rows, sample, seed) if len(rows) > sample else rows)]
    return found


def simulated(given: argparse.Namespace, variants: Variants) -> Iterator[Simulated]:
    """The rows with each of the variants, as the options say; says on stderr what was done."""
    jobs = [(kind, row, given.memory, variants) for kind, row in measured_rows(given.sample, given.seed)]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as workers:
        for found in workers.map(simulated_row, jobs):
            print(f"{found.row.workload}: {found.theirs[0]:,.6g}, measured {found.measured:,.6g}", file=sys.stderr)
            yield found


def simulated_row(job: tuple[Kind, Row, str, Variants]) -> Simulated:
    kind, row, memory, variants = job
    machine = wb.machine(kind.machine, memory=memory)
    machines = [machine.with_(**variant[kind]) for variant in variants]
    programs = both(row, kind, machine, "f32")
    theirs = _times(programs.theirs, machines, kind)
    ours = theirs if programs.ours is programs.theirs else _times(programs.ours, machines, kind)
    return Simulated(kind, row, ours, theirs, len(programs.theirs.launches))


def _times(program: Compiled, machines: Sequence[Machine], kind: Kind) -> tuple[float, ...]:
    """The times of the program on each machine; no machine is simulated that makes no difference to the first."""
    first, found = program.on(machines[0]), list[float]()
    for machine in machines:
        changed = {name for name, value in machine.figures().items() if value != machines[0].figures()[name]}
        same = not changed or (changed <= _OF_PRODUCTS and not first.counters["macs"])
        found.append(kind.time(machine, (first if same else program.on(machine)).makespan))
    return tuple(found)
