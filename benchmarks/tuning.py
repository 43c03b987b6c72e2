"""Tuning against an exhaustive search, and how far the heuristic is from the best mapping of its space.

    python benchmarks/tuning.py exhaustive [--write FILE]
    python benchmarks/tuning.py regret [--machine NAME] [--only PROGRAM ...] [--budget N] [--write FILE]

`exhaustive` simulates every candidate of a product of 1,024^3 on tpu-v3, then tunes the same kernel with the usual
budget and with four times as much, and compares the best cycles and the times: those of the processor, since others may
work on the machine as well. The exit status is 1 if tuning is as good as the exhaustive search with neither, or takes a
tenth of its time or more for it.

`regret` is by how many percent the cycles of a program are above those with the best mappings: of each kernel's whole
space, or of the 1,000 candidates that tuning simulates where it is larger. Candidates that the bound rules out are not
simulated: they cannot be the best. The programs are those of the spine (`tests/programs.py`). The exit status is 1 if
the mean is above 5% or the worst above 20%.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

import workbench as wb
from tests.programs import PROGRAMS
from workbench.exploring.tuning.tuning_budget import BUDGET

MEAN, WORST = 0.05, 0.20
"""The regret that is wanted, as parts of the best cycles."""

PART = 0.1
"""The part of an exhaustive search's time that tuning may take."""

BUDGETS = (BUDGET, 4 * BUDGET)
"""The usual one, and one for those who have more time."""


def exhaustive(write: Path | None) -> bool:
    j = wb.trace(torch.matmul, torch.randn(1024, 1024), torch.randn(1024, 1024), machine="tpu-v3")
    today = j.simulated.cycles
    began = time.process_time()
    space = j.scheduled.mapspace("k0", simulate=10**9)
    whole = time.process_time() - began
    table = space.table
    best = int(table.cycles.min())
    print(f"space: {len(table):,} legal candidates, {int((table.refused != '').sum())} refused when scheduled")
    wrong = int((table.cycles < table.least).sum())
    print(f"bound: {wrong} candidates are faster than their bound")
    print(f"the heuristic: {today:,} cycles; the best of all: {best:,}, in {whole:,.0f} s of the processor")
    as_good = [_is_as_good(j, budget, best, whole) for budget in BUDGETS]
    if write:
        table.to_csv(write, index=False, lineterminator="\n")
    return any(as_good) and not wrong


def _is_as_good(j: wb.Journey, budget: int, best: int, whole: float) -> bool:
    """Whether tuning finds cycles as few as the exhaustive search's, in a part of its seconds."""
    began = time.process_time()
    row = j.tuned(budget=budget).table.iloc[0]
    took = time.process_time() - began
    what = f"tuned, budget={budget}: {row.tuned:,} cycles, {row.tried} tried, {row.pruned:,} ruled out"
    print(f"{what}, in {took:,.1f} s of the processor, {took / whole:.1%} of the exhaustive search's")
    return bool(row.tuned <= best and took < PART * whole)


def regret(machine: str, programs: list[str], budget: int, write: Path | None) -> bool:
    rows = list[dict[str, Any]]()
    print("| program | candidates | simulated | ruled out | heuristic | best | regret |\n|---|--:|--:|--:|--:|--:|--:|")
    for name in programs:
        program = PROGRAMS[name]
        j = wb.trace(program.build(), *program.inputs(), kwargs=program.kwargs(), machine=machine)
        answer = j.tuned(budget=budget)
        table, before, after = answer.table, j.simulated.cycles, answer.journey.simulated.cycles
        counts = [int(table[column].sum()) for column in ("candidates", "tried", "pruned")]
        rows.append(
            dict(program=name, candidates=counts[0], simulated=counts[1], ruled_out=counts[2])
            | dict(heuristic=before, best=after, regret=round(before / after - 1, 4))
            | dict(mapping="; ".join(table.mapping))
        )
        cells = " | ".join(f"{each:,}" for each in (*counts, before, after))
        print(f"| {name} | {cells} | {before / after - 1:.1%} |", flush=True)
        if write:
            with write.open("w", newline="", encoding="utf-8") as file:
                made = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                made.writeheader()
                made.writerows(rows)
    found = [row["regret"] for row in rows]
    print(f"\nregret on {machine}: mean {statistics.mean(found):.1%}, worst {max(found):.1%}")
    return statistics.mean(found) <= MEAN and max(found) <= WORST


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0], allow_abbrev=False)
    parser.add_argument("what", choices=("exhaustive", "regret"))
    parser.add_argument("--machine", default="tpu-v3")
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS), metavar="PROGRAM")
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--write", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.what == "exhaustive":
        return 0 if exhaustive(given.write) else 1
    return 0 if regret(given.machine, given.only, given.budget, given.write) else 1


if __name__ == "__main__":
    sys.exit(main())
