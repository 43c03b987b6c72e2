"""Measures a first look, as ratios of runs side by side on one machine. Each figure comes from a fresh process.

    python benchmarks/first_look.py [--json] [--repeat N]

1. `import workbench` against `import torch`: at most a fifth.
2. The first `wb.trace` of softmax 512x512 to cycles, against the first call of the same function under `torch.compile`
   (inductor, empty cache folder), both after `import torch`: at most a quarter. Our Numba cache is warm for this, since
   it is filled once per installation; the figure with a cold one is printed too.
3. `j.with_(mapping=...)` to cycles, against that first trace: at most a fifth.

Of N repeats the median counts.

    python benchmarks/first_look.py --parts [--json]

What a person waits for between `make lab`, with everything installed, and the first timeline: seconds of wall and of
CPU by part, once with empty caches and once more. Then what the first two edits of a schedule take, after a minute in
which a person would have read it: the first one's worker has started meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
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


PARTS = """
import json
import resource
import time


def cpu():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def part(name, work):
    wall, used = time.perf_counter(), cpu()
    made = work()
    print(json.dumps([name, time.perf_counter() - wall, cpu() - used]))
    return made


part("import torch", lambda: __import__("torch"))
wb = part("import workbench", lambda: __import__("workbench"))
import torch

x = torch.randn(512, 512)
journey = part("trace softmax 512x512", lambda: wb.trace(torch.softmax, x, 1))
part("lower, render, schedule", lambda: journey.scheduled)
part("simulate", lambda: journey.simulated)
part("show the timeline", lambda: journey.simulated._repr_mimebundle_())
banked = journey.with_(machine=wb.machine("tpu-v3", memory="banked"))
banked.scheduled
part("simulate on banked memory", lambda: banked.simulated)
(kernel,) = journey.scheduled.kernels
script = kernel.schedule
time.sleep({reading})
for name in ("first", "second"):
    edited = {{kernel.name: script + f"// the {{name}} edit\\n"}}
    part(f"{{name}} edited schedule", lambda: journey.with_(schedule=edited).simulated)
"""

READING_SECONDS = 60


def parts(cache: str) -> list[tuple[str, float, float]]:
    """(what, seconds of wall, of CPU) of everything from `make lab` to the first timeline and the first edits."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ATEN_WORKBENCH_CACHE": cache}
    compiled = timed("compile the simulator", [sys.executable, "-m", "workbench.commands.cli", "compile"], env)
    served = serving(env)
    code = PARTS.format(reading=READING_SECONDS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    return [compiled, served, *(tuple(json.loads(line)) for line in done.stdout.splitlines())]


def timed(name: str, command: list[str], env: dict[str, str]) -> tuple[str, float, float]:
    wall, used = time.perf_counter(), cpu_of_children()
    subprocess.run(command, env=env, check=True, capture_output=True)
    return name, time.perf_counter() - wall, cpu_of_children() - used


def serving(env: dict[str, str]) -> tuple[str, float, float]:
    """JupyterLab, from its start until it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "workbench.commands.cli", "lab", "--port", str(port), "--ip", "127.0.0.1"]
    wall, used = time.perf_counter(), cpu_of_children()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(f"http://127.0.0.1:{port}/login"):
                break
            time.sleep(0.05)
        else:
            raise RuntimeError(f"JupyterLab ended with {process.returncode}")
        took = time.perf_counter() - wall
    finally:
        process.terminate()
        process.wait()
    return "JupyterLab answers", took, cpu_of_children() - used


def cpu_of_children() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def show_parts(*, as_json: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        told = {state: parts(folder) for state in ("cold", "warm")}
    if as_json:
        sys.stdout.write(json.dumps({**told, "machine": platform.platform(), "cpus": os.cpu_count()}, indent=2) + "\n")
        return
    sys.stdout.write(f"{'':<28}{'cold: wall':>12}{'CPU':>8}{'warm: wall':>12}{'CPU':>8}   seconds\n")
    for (name, *cold), (_, *warm) in zip(told["cold"], told["warm"], strict=True):
        sys.stdout.write(f"{name:<28}{cold[0]:>12.2f}{cold[1]:>8.2f}{warm[0]:>12.2f}{warm[1]:>8.2f}\n")


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
    parser.add_argument("--parts", action="store_true", help="from make lab to the first timeline, part by part")
    options = parser.parse_args()
    if options.parts:
        show_parts(as_json=options.json)
        return 0
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
