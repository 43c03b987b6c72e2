"""Measures scheduling and simulating on small and odd machines, kernel by kernel of twenty-odd programs.

    python benchmarks/small_machines.py [--only NAME] [--json]

Machines: a 4x4 array with 4 lanes of 16 KB, a 256x256 array, and a scratchpad of 512 bytes, four vectors. What the last
one cannot hold is an error, and the table says how soon it comes. Nothing is taken from the kernel store. Seconds are
of this process; the time limit of the whole is two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = "off"

import torch
import torch.nn.functional as F

import workbench as wb

Program = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]

MACHINES = {
    "4x4, 4 x 16 KB": wb.machine(
        "edge-8x8", systolic_rows=4, systolic_columns=4, vector_lanes=4, scratchpad_bytes_per_lane=16_384
    ),
    "256x256": wb.machine("tpu-v3", systolic_rows=256, systolic_columns=256),
    "512 bytes": wb.machine("edge-8x8", vector_lanes=4, scratchpad_bytes_per_lane=128),
}


def programs() -> dict[str, Program]:
    r, nn = torch.randn, torch.nn
    places = torch.randint(0, 200, (40,))
    return {
        "add": (lambda x, y: x + y, (r(100, 300), r(100, 300))),
        "add broadcast": (lambda x, y: x + y, (r(100, 300), r(300))),
        "gelu": (F.gelu, (r(100, 300),)),
        "transpose": (lambda x: x.t() + 1, (r(200, 200),)),
        "sum of columns": (lambda x: x.sum(0), (r(200, 100),)),
        "softmax": (lambda x: torch.softmax(x, -1), (r(16, 300),)),
        "layer norm": (nn.LayerNorm(300), (r(16, 300),)),
        "argmax": (lambda x: x.argmax(-1), (r(16, 300),)),
        "cumsum": (lambda x: x.cumsum(-1), (r(8, 200),)),
        "sort": (lambda x: torch.sort(x), (r(5, 200),)),
        "topk": (lambda x: torch.topk(x, 5), (r(5, 300),)),
        "matmul": (lambda x, y: x @ y, (r(64, 96), r(96, 80))),
        "bmm": (torch.bmm, (r(4, 32, 48), r(4, 48, 40))),
        "linear": (nn.Linear(300, 200), (r(8, 300),)),
        "mlp": (nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)), (r(8, 64),)),
        "attention": (F.scaled_dot_product_attention, (r(1, 2, 32, 16), r(1, 2, 32, 16), r(1, 2, 32, 16))),
        "conv2d": (nn.Conv2d(3, 8, 3, padding=1), (r(1, 3, 24, 24),)),
        "conv2d 3x3x32": (nn.Conv2d(32, 32, 3), (r(1, 32, 10, 10),)),
        "max pool": (nn.MaxPool2d(2), (r(1, 8, 24, 24),)),
        "embedding": (nn.Embedding(200, 32), (places,)),
        "scatter": (lambda x, i, y: x.index_add(0, i, y), (r(200, 16), places, r(40, 16))),
        "lstm": (nn.LSTM(16, 16), (r(3, 2, 16),)),
    }


def measured(name: str, where: str, program: Program) -> dict[str, Any]:
    function, inputs = program
    row: dict[str, Any] = {"program": name, "machine": where}
    began = time.perf_counter()
    try:
        journey = wb.trace(function, *inputs, machine=MACHINES[where])
        _ = journey.rendered
        began = time.perf_counter()
        kernels = journey.scheduled.kernels
        row["schedule"] = time.perf_counter() - began
        launched = [launch.kernel for launch in journey.scheduled.record.launches.launches]
        length = {kernel.name: len(kernel.program) for kernel in kernels}
        row["instructions"] = sum(length.get(kernel, 0) for kernel in launched)
        began = time.perf_counter()
        row["cycles"] = journey.simulated.cycles
        row["simulate"] = time.perf_counter() - began
    except wb.errors.WorkbenchError as error:
        row |= {"schedule": time.perf_counter() - began, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return row


def shown(row: dict[str, Any]) -> str:
    left = f"{row['program']:<16} {row['machine']:<15}"
    if "error" in row:
        return f"{left} {'':>12} {row['schedule']:>9.2f} {'':>9}  {row['error']}"
    return f"{left} {row['instructions']:>12,} {row['schedule']:>9.2f} {row['simulate']:>9.2f} {row['cycles']:>13,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--only", help="the one program to measure")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    torch.manual_seed(0)
    chosen = {name: each for name, each in programs().items() if options.only in (None, name)}
    measured("warm up", "256x256", (lambda x: x + 1, (torch.ones(8, 8),)))
    began, rows = time.perf_counter(), list[dict[str, Any]]()
    out = sys.stderr if options.json else sys.stdout
    print(
        f"{'program':<16} {'machine':<15} {'instructions':>12} {'schedule':>9} {'simulate':>9} {'cycles':>13}", file=out
    )
    for name, program in chosen.items():
        for where in MACHINES:
            rows.append(measured(name, where, program))
            print(shown(rows[-1]), file=out, flush=True)
    seconds = time.perf_counter() - began
    print(f"{seconds:.0f} s in all", file=out)
    if options.json:
        print(json.dumps({"rows": rows, "seconds": seconds}))


if __name__ == "__main__":
    main()
