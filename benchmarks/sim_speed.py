"""Measures the speed of the simulator, beside SCALE-Sim v3 in the same run, and how its cost grows.

    python benchmarks/sim_speed.py [--json] [--repeat N] [--scalesim FOLDER] [--plot FILE] [--only NAME ...]

1. `gemm`: 1024x1024x1024 on tpu-v3 with banked memory, against SCALE-Sim's gemm 1024 (a 128x128 weight-stationary
   array, its own bandwidth mode, no trace files): at least 200 times faster.
2. `resnet18`: 224x224, batch 1, on tpu-v3 with banked memory, against that same gemm: at least 8 times faster.
3. `requests`: to the banked memory, from 10,000 to 10,000,000: the cost of one stays what it is; `--plot`
   draws it.
4. `million`: a program of 1,000,000 instructions: simulated in less than 1 GB, with simple and with banked memory.

Every figure is of a process of its own and counts the simulation alone: imports, compiling the model, and loading our
compiled engine (by a first, small program) are start-up. The whole process is timed too. Times are wall seconds, ours
the least of `--repeat` runs; CPU seconds stand beside them, as they tell more on a busy machine. SCALE-Sim lives in a
virtual environment of its own, made on first use in FOLDER (`python -m venv FOLDER; FOLDER/bin/pip install "numpy<2"
"scalesim>=3"`). The exit status is 1 when a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
GIVEN = HERE / "scalesim"
TIMES = {"gemm": 200.0, "resnet18": 8.0}
"""The factor by which each must be faster than SCALE-Sim's gemm."""
WORKLOADS = {"gemm": "gemm_1024x1024x1024", "resnet18": "resnet18"}
MOST_MB = 1000.0
MOST_SLOPE = 1.1
"""Power of the number of requests with which the time may grow: 1 is a constant cost."""

SCALESIM = """
import sys, time
from scalesim.scale_sim import scalesim
folder, out = sys.argv[1:]
wall, cpu = time.perf_counter(), time.process_time()
made = scalesim(save_disk_space=True, verbose=False, config=folder + "/tpu128.cfg",
                topology=folder + "/gemm_1024.csv", layout=folder + "/layout.csv", input_type_gemm=True)
made.run_scale(out)
print("@", time.perf_counter() - wall, time.process_time() - cpu)
"""

OURS = """
import sys, time
import torch
import workbench as wb
from workloads import workload
from simulator import simulate
from workbench.simulating.launched_programs import launched
machine = wb.machine("tpu-v3", memory="banked")
_ = wb.trace(torch.relu, torch.randn(8), machine=machine).simulated
given = workload(sys.argv[1])
made = wb.trace(given.function, *given.inputs, machine=machine)
launches = launched(made.lowered.record, made.scheduled.record)
wall, cpu = time.perf_counter(), time.process_time()
trace = simulate(launches, machine)
print("@", time.perf_counter() - wall, time.process_time() - cpu)
print(trace)
"""

REQUESTS = """
import json, pathlib, sys
from dram_speed import MOST, plot, slope, streams
found = streams(MOST)
if sys.argv[1]:
    plot(found, pathlib.Path(sys.argv[1]))
print("@", json.dumps({name: {"slope": slope(seconds), "seconds": seconds} for name, seconds in found.items()}))
"""

MILLION = """
import resource, sys, time
from million import program
from simulator import Launched, load_machine, simulate
machine = load_machine("tpu-v3", memory=sys.argv[1])
simulate([Launched("small", program(10), (0, 1 << 20))], machine)
given = [Launched("long", program(1_000_000), (0, 1 << 20))]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
wall, cpu = time.perf_counter(), time.process_time()
trace = simulate(given, machine)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
print("@", time.perf_counter() - wall, time.process_time() - cpu, after)
print(len(trace), "instructions;", f"{before:.0f} MB before the simulation")
"""


@dataclass(frozen=True)
class Timed:
    """The figures that a process printed of itself, and its seconds as a whole."""

    figures: list[float]
    process: float
    rest: str


def child(python: str, script: str, *arguments: str) -> tuple[str, str, float]:
    """Runs a process of its own: its measurement, its other output, and its seconds from start to end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)]), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    done = subprocess.run([python, "-c", script, *arguments], env=environment, stdout=subprocess.PIPE, text=True)
    process = time.perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"a process ended with {done.returncode}:\n{script}")
    lines = done.stdout.splitlines()
    (measured,) = [line[2:] for line in lines if line.startswith("@ ")]
    return measured, "; ".join(line for line in lines if not line.startswith("@ ")), process


def timed(python: str, script: str, *arguments: str, repeat: int = 1) -> Timed:
    """The quickest of some runs."""
    runs: list[Timed] = []
    for _ in range(repeat):
        measured, rest, process = child(python, script, *arguments)
        runs.append(Timed([float(each) for each in measured.split()], process, rest))
    return min(runs, key=lambda run: run.figures[0])


def scalesim_python(folder: Path) -> str:
    """The interpreter of SCALE-Sim's environment, made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing SCALE-Sim into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if subprocess.run([str(python), "-c", "import scalesim"], capture_output=True).returncode != 0:
        wanted = ["--quiet", "--disable-pip-version-check", "numpy<2", "scalesim>=3"]
        subprocess.run([str(python), "-m", "pip", "install", *wanted], check=True, stdout=sys.stderr)
    return str(python)


def against_scalesim(names: list[str], folder: Path, repeat: int) -> list[dict[str, object]]:
    print("SCALE-Sim, gemm 1024", file=sys.stderr)
    with tempfile.TemporaryDirectory() as out:
        theirs = timed(scalesim_python(folder), SCALESIM, str(GIVEN), out)
    rows: list[dict[str, object]] = [_row("SCALE-Sim gemm 1024", theirs)]
    for name in names:
        print(name, file=sys.stderr)
        ours = timed(sys.executable, OURS, WORKLOADS[name], repeat=repeat)
        wall, cpu = (theirs.figures[at] / ours.figures[at] for at in (0, 1))
        rows.append(
            {**_row(name, ours), "times_faster": wall, "times_less_cpu": cpu, "wanted": TIMES[name]}
            | {"kept": wall >= TIMES[name]}
        )
    return rows


def _row(name: str, run: Timed) -> dict[str, object]:
    told = {"name": name, "seconds": run.figures[0], "cpu_seconds": run.figures[1], "process_seconds": run.process}
    return {**told, "of": run.rest} if run.rest and not name.startswith("SCALE") else told


def requests(picture: Path | None) -> list[dict[str, object]]:
    measured, _, _ = child(sys.executable, REQUESTS, str(picture.resolve()) if picture else "")
    found = json.loads(measured)
    return [
        {"name": f"requests, {name}", **each, "wanted": MOST_SLOPE, "kept": each["slope"] <= MOST_SLOPE}
        for name, each in found.items()
    ]


def million() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for memory in ("simple", "banked"):
        print(f"1,000,000 instructions, {memory}", file=sys.stderr)
        run = timed(sys.executable, MILLION, memory)
        most = run.figures[2]
        row = {**_row(f"1,000,000 instructions, {memory}", run), "mb": most}
        rows.append({**row, "wanted": MOST_MB, "kept": most < MOST_MB})
    return rows


def text(row: dict[str, object]) -> list[str]:
    """A row for reading; a plot of the cost of a request, where it is one of requests."""
    line = str(row["name"])
    for key, form in (
        ("seconds", "{:.3f} s"),
        ("cpu_seconds", "{:.3f} s CPU"),
        ("process_seconds", "the process {:.1f} s"),
        ("times_faster", "{:.0f} times faster"),
        ("times_less_cpu", "{:.0f} times by CPU"),
        ("mb", "{:.0f} MB at most"),
        ("slope", "time grows with the power {:.3f}"),
        ("wanted", "wanted {:g}"),
    ):
        if isinstance(value := row.get(key), int | float):
            line += ", " + form.format(value)
    lines = [line + ("" if row.get("kept", True) else "  NOT KEPT")]
    if isinstance(of := row.get("of"), str):
        lines.append(f"    {of}")
    if isinstance(seconds := row.get("seconds"), dict):
        each = {int(count): 1e9 * took / int(count) for count, took in seconds.items()}
        most = max(each.values())
        lines += [f"    {count:>12,}  {cost:6.0f} ns  {'#' * round(40 * cost / most)}" for count, cost in each.items()]
    return lines


def main() -> int:
    known = ("gemm", "resnet18", "requests", "million")
    parser = argparse.ArgumentParser(
        description="How fast the simulator is, and how its cost grows.", allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=3, metavar="N")
    parser.add_argument("--scalesim", type=Path, default=HERE.parent / "build" / "scalesim", metavar="FOLDER")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="+", choices=known, default=known)
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    if named := [name for name in WORKLOADS if name in given.only]:
        rows += against_scalesim(named, given.scalesim, given.repeat)
    if "requests" in given.only:
        rows += requests(given.plot)
    if "million" in given.only:
        rows += million()
    if given.json:
        print(json.dumps({"rows": rows}, indent=1))
    else:
        print("\n".join(line for row in rows for line in text(row)))
    return 0 if all(row.get("kept", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
