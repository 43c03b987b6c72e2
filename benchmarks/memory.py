"""Measures the growth of memory over compile-and-run cycles of ever new functions, and over calls of one journey.

    python benchmarks/memory.py [--json] [--cycles N] [--calls N]

1. N cycles (500), each of a function and shapes not seen before: traced, scheduled, compiled and run once. The resident
   memory of the process grows by less than 100 MB from after the first cycle to the end.
2. N calls (1,000) of one journey: less than 2 MB from the 100th to the last.

What is left of a cycle is LLVM's: an engine keeps about 33 kB when it goes, and Dynamo keeps its code objects.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from pathlib import Path

import torch

import workbench as wb

CYCLES_MB, CALLS_MB = 100.0, 2.0
SETTLED = 100
"""Calls after which allocators have what they need."""


def resident_mb() -> float:
    """Resident memory of this process, after a collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cycle(number: int) -> None:
    """A journey of a function that no other cycle has."""
    x, w = torch.randn(16, 64), torch.randn(64, 32 + number % 100)
    scale = float(number + 1)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ w) * scale, -1)

    wb.trace(f, x).run(x)


def cycles(count: int) -> list[float]:
    """Resident memory after the first cycle, and after every tenth part of the others."""
    cycle(0)
    seen = [resident_mb()]
    for number in range(1, count):
        cycle(number)
        if number % max(1, count // 10) == 0 or number == count - 1:
            seen.append(resident_mb())
    return seen


def calls(count: int) -> list[float]:
    """Resident memory after the first hundred calls of a journey, and after the last."""
    w = torch.randn(64, 64)
    x = torch.randn(16, 64)
    journey = wb.trace(lambda x: torch.softmax(x @ w, -1), x)
    seen: list[float] = []
    for number in range(1, count + 1):
        journey.run(x)
        if number in (SETTLED, count):
            seen.append(resident_mb())
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--cycles", type=int, default=500, help="compile-and-run cycles (default: 500)")
    parser.add_argument("--calls", type=int, default=1000, help="calls of one journey (default: 1000)")
    options = parser.parse_args()
    os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = "off"  # every cycle compiles
    began = time.perf_counter()
    figures = {"calls": calls(options.calls), "cycles": cycles(options.cycles)}
    seconds = time.perf_counter() - began
    bounds = {"calls": CALLS_MB, "cycles": CYCLES_MB}
    growths = {name: seen[-1] - seen[0] for name, seen in figures.items()}
    if options.json:
        sys.stdout.write(json.dumps({"mb": figures, "growth_mb": growths, "seconds": seconds}, indent=2) + "\n")
    else:
        for name, growth in growths.items():
            verdict = "ok" if growth < bounds[name] else "TOO MUCH"
            sys.stdout.write(f"{name}: {growth:.1f} MB more (< {bounds[name]:g})  {verdict}\n")
    return 0 if all(growth < bounds[name] for name, growth in growths.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
