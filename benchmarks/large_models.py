"""Large models, compiled and run natively beside PyTorch: VGG-16 and ResNet-101, batches of ten images.

    python benchmarks/large_models.py [--only vgg16 resnet101] [--batch 10] [--no-check]

Plain torch.nn with random weights, images of 224 x 224, one thread, each model in a process of its own with an empty
folder for kernels. Each figure is seconds of the clock, and after the stroke those of the processor, which other
programs change less.

    eager     the faster of two calls in PyTorch
    trace     `wb.trace`: capture and lowering
    schedule  every kernel tiled and read off
    first     the first `j.run`, which makes the machine code
    run       the faster of two more
    check     `j.check`: the results beside PyTorch's in 64 bits
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[1]

NAMES = ("vgg16", "resnet101")

STEPS = ("eager", "trace", "schedule", "first", "run", "check")

_T = TypeVar("_T")


def made(name: str) -> Any:
    """The model of that name, in evaluation."""
    import torch

    from workbench.models.resnet import resnet101
    from workbench.models.shipped.vgg16 import vgg16

    torch.manual_seed(0)
    return {"vgg16": vgg16, "resnet101": resnet101}[name]().eval()


class Clock:
    """The times of steps: seconds of the clock and of this process; of a step done twice, the faster time."""

    def __init__(self) -> None:
        self.took: dict[str, tuple[float, float]] = {}

    def time(self, step: str, call: Callable[[], _T]) -> _T:
        began, worked = time.perf_counter(), time.process_time()
        result = call()
        now = time.perf_counter() - began, time.process_time() - worked
        self.took[step] = min(now, self.took.get(step, now))
        print(f"{step} {now[0]:.1f} / {now[1]:.1f}", file=sys.stderr, flush=True)
        return result


def measure(name: str, batch: int, check: bool) -> dict[str, Any]:
    """Seconds of each step, the model's kernels, and whether its results are right."""
    import torch

    import workbench as wb

    torch.set_num_threads(1)
    model, images, clock = made(name), torch.randn(batch, 3, 224, 224), Clock()
    with torch.no_grad():
        for _ in range(2):
            clock.time("eager", lambda: model(images))
        journey = clock.time("trace", lambda: wb.trace(model, images))
        kernels = clock.time("schedule", lambda: journey.scheduled.kernels)
        clock.time("first", lambda: journey.run(images))
        for _ in range(2):
            clock.time("run", lambda: journey.run(images))
        found = clock.time("check", journey.check) if check else None
    return {"took": clock.took, "kernels": len(kernels), "right": found.ok if found else None, "told": str(found)}


def in_a_process(name: str, batch: int, check: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "ATEN_WORKBENCH_KERNEL_CACHE": folder,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, __file__, "--measure", name, "--batch", str(batch)]
        command += [] if check else ["--no-check"]
        done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--no-check", action="store_true", help="leave out the check, which takes longest")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.batch, not given.no_check)))
        return 0
    steps = STEPS[:-1] if given.no_check else STEPS
    print(f"{'':12}{'kernels':>8}" + "".join(f"{step:>15}" for step in steps), flush=True)
    wrong: list[str] = []
    for name in given.only:
        found = in_a_process(name, given.batch, not given.no_check)
        times = "".join(f"{'{:.1f} / {:.1f}'.format(*found['took'][step]):>15}" for step in steps)
        print(f"{name:12}{found['kernels']:8}{times}", flush=True)
        if found["right"] is False:
            wrong.append(f"{name}: {found['told']}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
