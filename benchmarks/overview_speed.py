"""Measures the seconds and the size of the overview of a simulated model: what stands at the end of a cell.

    python benchmarks/overview_speed.py

Seconds are those of the first `j.html()` after `j.simulated`, everything it needs included: on the wall, and of a
processor where others work on the machine as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch import nn

import workbench as wb
from workbench.models.resnet import resnet18, resnet50
from workbench.models.shipped.gpt import GPT2

MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "ResNet-18": (resnet18, lambda: torch.randn(1, 3, 224, 224)),
    "ResNet-50": (resnet50, lambda: torch.randn(1, 3, 224, 224)),
    "GPT-2, 12 layers": (GPT2, lambda: torch.randint(0, 50257, (1, 64))),
}


def main() -> None:
    print(f"{'model':<18} {'calls':>6} {'kernels':>8} {'spans':>7} {'wall':>7} {'CPU':>7} {'kB':>6}")
    for name, (model, given) in MODELS.items():
        torch.manual_seed(0)
        j = wb.trace(model().eval(), given())
        spans = len(j.simulated.record)
        began = time.perf_counter(), time.process_time()
        html = j.html()
        took = time.perf_counter() - began[0], time.process_time() - began[1]
        calls, kernels = len(j.captured.record.nodes), len(j.lowered.record.kernels)
        seconds = " ".join(f"{each:>5.2f} s" for each in took)
        print(f"{name:<18} {calls:>6} {kernels:>8} {spans:>7,} {seconds} {len(html.encode()) / 1e3:>6.0f}", flush=True)


if __name__ == "__main__":
    main()
