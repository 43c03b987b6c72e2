"""Measures compiling and running small kernels, with LLVM's optimization and without.

    python benchmarks/small_kernels.py

Both levels in one process, in turns, on one thread. `first` is the first run, which compiles; `run` the fastest of 50
more. A kernel with more elements, or with a reduction, is always optimized: its two pairs are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from unittest import mock

os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = "off"
os.environ["OMP_NUM_THREADS"] = "1"

import torch

import workbench as wb
from workbench.running import jit

CALLS: Mapping[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "matmul 52 x 52 x 52": (torch.matmul, (torch.randn(52, 52), torch.randn(52, 52))),
    "softmax 64 x 64": (lambda x: torch.softmax(x, -1), (torch.randn(64, 64),)),
    "conv 3 x 3, 8 to 16, 18 x 18": (
        lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
        (torch.randn(1, 8, 18, 18), torch.randn(16, 8, 3, 3)),
    ),
    "sort 64 x 64": (lambda x: torch.sort(x, -1)[0], (torch.randn(64, 64),)),
    "gelu 64 x 64": (torch.nn.functional.gelu, (torch.randn(64, 64),)),
    "gelu 128 x 128": (torch.nn.functional.gelu, (torch.randn(128, 128),)),
}


def milliseconds(journey: wb.Journey, inputs: tuple[torch.Tensor, ...], few: int) -> tuple[float, float]:
    """The first run, and the fastest of those that follow."""
    with mock.patch.object(jit, "_FEW_ELEMENTS", few):
        taken: list[float] = []
        for _ in range(51):
            began = time.perf_counter()
            journey.run(*inputs)
            taken.append(time.perf_counter() - began)
    return taken[0] * 1e3, min(taken[1:]) * 1e3


def main() -> None:
    print(f"few elements: {jit._FEW_ELEMENTS:,}")
    print(f"{'':30} {'optimized: first':>17} {'run':>7} {'not: first':>12} {'run':>7}   ms")
    for name, (call, inputs) in CALLS.items():
        wb.trace(call, *inputs).run(*inputs)  # what is imported and looked up once
        found = []
        for few in (0, jit._FEW_ELEMENTS):
            journey = wb.trace(call, *inputs)
            assert journey.scheduled
            found += [*milliseconds(journey, inputs, few)]
        print(f"{name:30} {found[0]:17.1f} {found[1]:7.3f} {found[2]:12.1f} {found[3]:7.3f}")


if __name__ == "__main__":
    main()
