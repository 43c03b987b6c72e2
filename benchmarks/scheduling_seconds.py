"""Measures the scheduling of the slowest kernels, on the machine with the smallest scratchpad.

    python benchmarks/scheduling_seconds.py [--nets 500] [--seed 0] [--machine edge-8x8]

The kernels of the spine's programs, of all example models and of random convolutional nets, half of them with images
whose sides are four times as long, half as a whole training step. Nothing is kept from one program to the next. The
exit status is 1 when a kernel takes more than ten seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
MOST_SECONDS = 10.0


def programs(nets: int, seed: int) -> Iterator[tuple[str, Callable[[], tuple[Any, ...]]]]:
    """A name and what makes the function, its inputs and the options of the trace."""
    import torch

    import workbench as wb
    from tests.fuzz.conv_nets import conv_net
    from tests.programs import PROGRAMS

    for name, program in PROGRAMS.items():
        yield f"spine {name}", lambda each=program: (each.build(), each.inputs(), {"kwargs": each.kwargs()})
    for name in wb.models.names():
        yield f"model {name}", lambda each=name: _of_model(wb.models.get(each))
    for number in range(seed, seed + nets):
        drawn = conv_net(number)
        if number % 2:
            yield f"step {number}", lambda each=drawn: (each.function(), (), {"train": True})
        else:

            def large(each: Any = drawn) -> tuple[Any, ...]:
                images = each.images()
                sides = [4 * side for side in images.shape[2:]]
                return each.net().eval()[:-2], (torch.randn(*images.shape[:2], *sides),), {}

            yield f"net {number}", large


def _of_model(example: Any) -> tuple[Any, ...]:
    return example.module, example.inputs, {"kwargs": example.kwargs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--machine", default="edge-8x8")
    given = parser.parse_args()
    os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = "off"
    return _measured(given.nets, given.seed, given.machine)


def _measured(nets: int, seed: int, machine: str) -> int:
    import workbench as wb
    from workbench.scheduling import schedule_kernel

    warnings.simplefilter("ignore")
    taken: list[tuple[float, str, str]] = []
    scheduled, now = schedule_kernel.schedule_kernel, ""

    def timed(rendered: Any, *rest: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            return scheduled(rendered, *rest, **named)
        finally:
            taken.append((time.perf_counter() - begin, now, rendered.kernel))

    schedule_kernel.schedule_kernel = timed
    refused = list[str]()
    for name, make in programs(nets, seed):
        now = name
        try:
            function, inputs, options = make()
            _ = wb.trace(function, *inputs, machine=machine, **options).scheduled
        except Exception as error:  # what cannot be traced is not what is measured
            refused.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
    slowest = sorted(taken, reverse=True)[:10]
    print(f"{len(taken):,} kernels on {machine}; {len(refused)} programs were refused")
    for each in refused:
        print(f"  {each}")
    for seconds, program, kernel in slowest:
        print(f"{seconds:8.2f} s  {program}, {kernel}")
    return int(slowest[0][0] > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
