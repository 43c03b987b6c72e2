"""`python -m tests.wrong_results [--every N]`: all mutants, or those of every Nth call; what is missed, and a table."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import torch

from tests.wrong_results.mutants import MUTATIONS, Mutant, calls, mutants

WRITTEN = Path(__file__).with_name("results.md")


def table(found: list[Mutant]) -> str:
    """Table of mutants: all, those that count, those caught, by mutation and kind of number; why others do not."""
    lines = ["| mutation | of | mutants | count | caught | unchanged | within one unit | within 4 x PyTorch's error |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|")
    for mutation in MUTATIONS:
        for kind in ("float", "whole"):
            these = [each for each in found if (each.mutation, each.kind) == (mutation, kind)]
            counted = [each for each in these if not each.why_not]
            why = Counter(each.why_not for each in these)
            share = f"{len(counted)} ({len(counted) / max(len(these), 1):.1%})"
            reasons = [why[each] for each in ("unchanged", "within one unit", "within four times PyTorch's error")]
            cells = [mutation, kind, len(these), share, sum(each.caught for each in counted), *reasons]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: list[Mutant] = []
    for name, dtype, case in calls()[:: given.every]:
        found += mutants(name, dtype, case)
    missed = [each for each in found if not each.why_not and not each.caught]
    for each in missed:
        print(f"not caught: {each}")
    print(table(found))
    if given.every == 1:
        WRITTEN.write_text(
            "# Results made wrong on purpose\n\nWritten by `make wrong-results`; what counts is said in "
            "`tests/wrong_results/__init__.py`.\n\n" + table(found)
        )
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
