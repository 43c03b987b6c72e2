"""How long a first look takes, as ratios of runs side by side on one machine. Each figure comes from a fresh process.

    python benchmarks/first_look.py [--json] [--repeat N]

1. `import workbench` against `import torch`: at most a fifth.
2. The first `wb.trace` of softmax 512x512 to cycles, against the first call of the same function under `torch.compile`
   (inductor, empty cache folder), both after `import torch`: at most a quarter. Our Numba cache is warm for this, since
   it is filled once per installation; the figure with a cold one is printed too.
3. `j.with_(mapping=...)` to cycles, against that first trace: at most a fifth.

Of N repeats the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

IMPORT = """
import time
began = time.perf_counter()
import {module}
print(time.perf_counter() - began)
"""

TRACE = """
import time
import torch

x = torch.randn(512, 512)
began = time.perf_counter()
import workbench as wb
journey = wb.trace(torch.softmax, x, 1)
journey.simulated.cycles
first = time.perf_counter() - began
began = time.perf_counter()
journey.with_(mapping={"*": {"tile": {"d0": 64}}}).simulated.cycles
print(first, time.perf_counter() - began)
"""

COMPILE = """
import time
import torch

x = torch.randn(512, 512)
began = time.perf_counter()
torch.compile(torch.softmax)(x, 1)
print(time.perf_counter() - began)
"""


def seconds(code: str, **environment: str) -> list[float]:
    """The numbers a fresh process prints."""
    # Kernels are made anew: what an earlier run left on disk would make every trace but the very first faster.
    given = {**os.environ, "PYTHONPATH": str(ROOT), "ATEN_WORKBENCH_KERNEL_CACHE": "off", **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=given, check=True)
    return [float(number) for number in done.stdout.split()]


def compile_once() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return seconds(COMPILE, TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=folder)[0]


def trace_cold() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return seconds(TRACE, ATEN_WORKBENCH_CACHE=folder)[0]


@dataclass(frozen=True)
class Ratio:
    """One claim: `ours` over `theirs` is at most `bound`."""

    name: str
    ours: float
    theirs: float
    bound: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def line(self) -> str:
        verdict = "ok" if self.ratio <= self.bound else "TOO SLOW"
        figures = f"{self.ours:7.3f} s / {self.theirs:7.3f} s = {self.ratio:6.3f}"
        return f"{self.name:<54} {figures}  (<= {self.bound})  {verdict}"


def measure(repeat: int) -> tuple[list[Ratio], float]:
    """The three ratios, and the seconds of a first trace with a cold Numba cache."""

    def median(values: list[float]) -> float:
        return statistics.median(values)

    seconds(TRACE)  # fills the Numba cache, and the disk's
    ours = median([seconds(IMPORT.format(module="workbench"))[0] for _ in range(repeat)])
    theirs = median([seconds(IMPORT.format(module="torch"))[0] for _ in range(repeat)])
    traces = [seconds(TRACE) for _ in range(repeat)]
    first, again = (median([trace[place] for trace in traces]) for place in (0, 1))
    compiled = median([compile_once() for _ in range(repeat)])
    ratios = [
        Ratio("import workbench / import torch", ours, theirs, 1 / 5),
        Ratio("first trace to cycles / first torch.compile call", first, compiled, 1 / 4),
        Ratio("another mapping to cycles / first trace to cycles", again, first, 1 / 5),
    ]
    return ratios, trace_cold()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeat", type=int, default=3, help="processes per figure (default: 3)")
    options = parser.parse_args()
    ratios, cold = measure(options.repeat)
    if options.json:
        rows = [{**vars(each), "ratio": each.ratio, "ok": each.ratio <= each.bound} for each in ratios]
        machine = {"machine": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
        sys.stdout.write(json.dumps({"ratios": rows, "first_trace_cold_seconds": cold, **machine}, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(each.line() for each in ratios) + "\n")
        sys.stdout.write(f"first trace to cycles with a cold Numba cache: {cold:.3f} s\n")
    return 0 if all(each.ratio <= each.bound for each in ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
