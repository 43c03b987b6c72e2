"""Finds programs for which a later machine is slower: each of the spine on tpu-v2, tpu-v3 and tpu-v4, in microseconds.

    python benchmarks/generations.py [--memory simple|banked] [--only PROGRAM ...] [--write FILE]

The programs are those of benchmarks/monotonic.py. The exit status is 1 if some program takes longer on a machine than
on the one before it.
"""

from __future__ import annotations

import argparse
import csv
import sys
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import workbench as wb
from benchmarks.monotonic import ALL, journey

GENERATIONS = ("tpu-v2", "tpu-v3", "tpu-v4")


def microseconds(program: str, memory: str) -> dict[str, float]:
    """The microseconds of a program, by machine."""
    machines = [wb.machine(name, memory=memory) for name in GENERATIONS]
    first = journey(ALL[program], machines[0])
    made = [first, *(first.with_(machine=machine) for machine in machines[1:])]
    return {
        machine.name: machine.microseconds(each.simulated.cycles) for machine, each in zip(machines, made, strict=True)
    }


def in_order(took: dict[str, float]) -> bool:
    return all(later <= earlier for earlier, later in pairwise(took.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0], allow_abbrev=False)
    parser.add_argument("--memory", choices=("simple", "banked"), default="simple")
    parser.add_argument("--only", nargs="+", default=list(ALL), choices=list(ALL), metavar="PROGRAM")
    parser.add_argument("--write", type=Path, metavar="FILE")
    given = parser.parse_args()
    found = {program: microseconds(program, given.memory) for program in given.only}
    print(f"| program | {' | '.join(GENERATIONS)} | |\n|---|{'--:|' * len(GENERATIONS)}---|")
    for program, took in found.items():
        cells = " | ".join(f"{each:,.2f}" for each in took.values())
        print(f"| {program} | {cells} | {'' if in_order(took) else 'not in order'} |")
    if given.write:
        with given.write.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["program", *GENERATIONS])
            rows.writerows([program, *(f"{each:.3f}" for each in took.values())] for program, took in found.items())
    wrong = [program for program, took in found.items() if not in_order(took)]
    print(f"{len(found) - len(wrong)} of {len(found)} programs are in order", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
