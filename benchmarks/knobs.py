"""How long it takes from a knob to the new cycles, and what takes the time.

    python benchmarks/knobs.py

Each tile of each program's first kernel is turned to values that nobody has tried; the other kernels are read from
what is kept on disk. Seconds are those on the wall, and those of a processor where others work on the machine as well;
`schedule` and `simulate` are medians of the wall's.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ["ATEN_WORKBENCH_CACHE"] = tempfile.mkdtemp()

import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from tests.models import GPT2, resnet18

FFN = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
PROGRAMS: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
    "softmax": (lambda x: torch.softmax(x, 1), (torch.randn(512, 512),)),
    "FFN": (FFN, (torch.randn(128, 256),)),
    "attention": (F.scaled_dot_product_attention, tuple(torch.randn(1, 4, 128, 64) for _ in range(3))),
    "GPT-2, 1 layer": (GPT2(layers=1).eval(), (torch.randint(0, 50257, (1, 64)),)),
    "ResNet-18": (resnet18().eval(), (torch.randn(1, 3, 224, 224),)),
}


def main() -> None:
    print(f"{'program':<16} kernels   spans  turns    median     worst       CPU  schedule  simulate")
    for name, (function, inputs) in PROGRAMS.items():
        j = wb.trace(function, *inputs)
        _ = j.simulated
        knobs = j.knobs(j.scheduled.kernels[0].name)
        took, busy, parts, spans = list[float](), list[float](), list[dict[str, float]](), list[int]()
        for knob in knobs.knobs:
            if knob.kind != "tile":
                continue
            for value in range(int(knob.value) - 3, int(knob.value)):
                if value < max(1, int(knob.value) // 2):
                    continue
                began, worked = time.perf_counter(), time.process_time()
                made = knobs.turned(knob.name, value)
                _ = made.simulated.cycles
                took.append(time.perf_counter() - began)
                busy.append(time.process_time() - worked)
                parts.append(made.seconds)
                spans.append(len(made.simulated.record))
        middle = {stage: statistics.median(each[stage] for each in parts) for stage in ("schedule", "simulate")}
        told = " ".join(
            f"{1e3 * each:>6.0f} ms" for each in (statistics.median(took), max(took), statistics.median(busy))
        )
        stages = " ".join(f"{1e3 * each:>6.0f} ms" for each in middle.values())
        count = len(j.scheduled.kernels)
        print(f"{name:<16} {count:>7} {max(spans):>7,} {len(took):>6} {told} {stages}", flush=True)


if __name__ == "__main__":
    main()
