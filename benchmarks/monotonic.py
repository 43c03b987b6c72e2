"""Finds programs that more of anything makes slower: each of the spine with one figure of the machine doubled.

    python benchmarks/monotonic.py [--machine NAME ...] [--only PROGRAM ...] [--knob KNOB ...] [--write FILE] [--json]

Every program of `tests/programs.py` and three convolutions, on every shipped machine, is compiled and simulated as any
user's is, then again with lanes, arrays, their size, queues, the memory's bandwidth, the queues' width, the scratchpad
or the cores doubled. A ratio is microseconds after by microseconds before: the clock stays, so cycles by cycles. The
table has the worst of each program and machine; all ratios are in the file that `--write` names
(`benchmarks/data/monotonic.csv` is the one that is committed). The exit status is 1 if some ratio is
above 1.05.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from torch import nn

import workbench as wb
from simulator.machine.machine import Machine
from simulator.machine.machine_file import machine_names
from tests.programs import PROGRAMS, Program

MOST = 1.05
"""A doubled figure may cost so much: a schedule is a guess, and its tiles are whole."""

CONVOLUTIONS: dict[str, Program] = {
    "conv_3x3": Program(lambda: nn.Conv2d(128, 128, 3, padding=1), ((1, 128, 14, 14),)),
    "conv_first": Program(lambda: nn.Conv2d(3, 32, 7, stride=2, padding=3), ((1, 3, 56, 56),)),
    "conv_point": Program(lambda: nn.Conv2d(64, 96, 1), ((2, 64, 14, 14),)),
}
ALL: dict[str, Program] = PROGRAMS | CONVOLUTIONS


def _doubled(*figures: str) -> Callable[[Machine], Machine]:
    return lambda machine: machine.with_(**{name: 2 * machine.figures()[name] for name in figures})  # type: ignore[operator]


KNOBS: dict[str, Callable[[Machine], Machine]] = {
    "lanes": _doubled("vector_lanes"),
    "arrays": _doubled("systolic_arrays"),
    "array size": _doubled("systolic_rows", "systolic_columns"),
    "queues": _doubled("dma_queues"),
    "bandwidth": _doubled("dram_bytes_per_second"),
    "queue width": _doubled("dma_bytes_per_cycle"),
    "scratchpad": _doubled("scratchpad_bytes_per_lane"),
    "cores": _doubled("cores"),
}


def journey(program: Program, machine: Machine) -> Any:
    return wb.trace(program.build(), *program.inputs(), machine=machine, kwargs=program.kwargs())


def ratios(name: str, machine: Machine, knobs: list[str]) -> dict[str, tuple[int, int]]:
    """Cycles before and after, by knob."""
    made = journey(ALL[name], machine)
    before = int(made.simulated.cycles)
    return {knob: (before, int(made.with_(machine=KNOBS[knob](machine)).simulated.cycles)) for knob in knobs}


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0], allow_abbrev=False)
    parser.add_argument("--machine", nargs="+", default=list(machine_names()), choices=machine_names(), metavar="NAME")
    parser.add_argument("--only", nargs="+", default=list(ALL), choices=list(ALL), metavar="PROGRAM")
    parser.add_argument("--knob", nargs="+", default=list(KNOBS), choices=list(KNOBS), metavar="KNOB")
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = list[dict[str, Any]]()
    for name in given.only:
        for machine in given.machine:
            for knob, (before, after) in ratios(name, wb.machine(machine), given.knob).items():
                ratio = round(after / before, 4)
                rows.append({"program": name, "machine": machine, "knob": knob, "before": before, "after": after})
                rows[-1]["ratio"] = ratio
                if ratio > MOST:
                    print(f"{name} on {machine}, {knob}: {before:,} -> {after:,} ({ratio:.3f})", file=sys.stderr)
    if given.write:
        with given.write.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print(json.dumps(rows) if given.json else table(rows))
    return int(any(row["ratio"] > MOST for row in rows))


def table(rows: list[dict[str, Any]]) -> str:
    """The worst ratio of each machine and knob, with its program, and how many are above the bound."""
    lines = ["| machine | knob | worst ratio | program | above 1.05 |", "|---|---|--:|---|--:|"]
    for machine, knob in dict.fromkeys((row["machine"], row["knob"]) for row in rows):
        mine = [row for row in rows if (row["machine"], row["knob"]) == (machine, knob)]
        worst = max(mine, key=lambda row: row["ratio"])
        above = sum(row["ratio"] > MOST for row in mine)
        lines.append(f"| {machine} | {knob} | {worst['ratio']:.3f} | {worst['program']} | {above} of {len(mine)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
