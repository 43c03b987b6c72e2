"""Measures compiling, from capture to tile program, beside inductor: seconds and ratios, side by side in one run.

    python benchmarks/compile.py [--only NAME ...] [--machine tpu-v3] [--repeats 3] [--json]
                                 [--before FOLDER] [--processor]

Each figure is the median of the repeats; each repeat is a fresh process of one thread, timed after `import torch` and
after the model was made. The processes of one repeat follow each other, so that a busy machine is busy for all.

    dynamo      importing PyTorch's Dynamo, which both compilers need
    ours        `wb.trace` to the tile program: nothing kept on disk but the compiled simulator, as after installing
    kept        the same once more in another process, with the kernels that the first one kept
    inductor    the first call of `torch.compile`, with an empty cache folder

`--before` measures `ours` and `kept` of another checkout too, in between. `--processor` tells seconds of the processor,
which on a shared machine say more than those of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MODELS = ("softmax", "bert_layer", "resnet18", "gpt2")


def made(name: str) -> tuple[Callable[..., object], tuple[object, ...]]:
    """A model and its inputs."""
    import torch
    from workloads import bert

    from workbench.models.resnet import resnet18
    from workbench.models.shipped.gpt import GPT2

    if name == "softmax":
        return (lambda x: torch.softmax(x, 1)), (torch.randn(512, 512),)
    if name == "bert_layer":
        layer = bert(768, 12)
        return layer.function, layer.inputs
    if name == "resnet18":
        return resnet18().eval(), (torch.randn(1, 3, 224, 224),)
    return GPT2().eval(), (torch.randint(0, 50257, (1, 128)),)


def measure(name: str, how: str, machine: str, clock: str) -> float:
    """Seconds, in a process of its own."""
    import time

    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, inputs = made(name)
    now = processor_seconds if clock == "processor" else time.perf_counter
    began = now()
    if how == "dynamo":
        import torch._dynamo
    elif how == "inductor":
        with torch.no_grad():
            torch.compile(model)(*inputs)
    else:
        import workbench as wb

        _ = wb.trace(model, *inputs, machine=machine).scheduled.kernels
    return now() - began


def processor_seconds() -> float:
    """Seconds of the processor so far, with those of children that ended: inductor calls a C++ compiler."""
    return sum(os.times()[:4])


def in_a_process(name: str, how: str, machine: str, folder: str, clock: str, root: Path = ROOT) -> float:
    return printed([__file__, "--measure", name, how, clock, "--machine", machine], folder, root)


def printed(command: Sequence[str], folder: str, root: Path = ROOT) -> float:
    """The number that a script prints last, in a process of one thread whose caches are in the folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "ATEN_WORKBENCH_KERNEL_CACHE": f"{folder}/kernels",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "",  # or every process compiles the sources again, about a second
    }
    command = [sys.executable, *command]
    done = subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Row:
    """Seconds of one model."""

    name: str
    dynamo: float
    ours: float
    kept: float
    inductor: float
    before: float | None = None
    """`ours` and, next, `kept` of the other checkout."""
    before_kept: float | None = None

    @property
    def beside_inductor(self) -> float:
        return self.ours / self.inductor

    @property
    def kept_beside_ours(self) -> float:
        """Beyond what importing Dynamo takes."""
        return (self.kept - self.dynamo) / (self.ours - self.dynamo)


def row(name: str, machine: str, repeats: int, clock: str, before: Path | None) -> Row:
    found: dict[str, list[float]] = {}
    others = [("before", "ours", before), ("before_kept", "ours", before)] if before else []
    figures = [("dynamo", "dynamo", ROOT), *others, ("ours", "ours", ROOT), ("kept", "ours", ROOT)]
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for figure, how, root in (*figures, ("inductor", "inductor", ROOT)):
                seconds = in_a_process(name, how, machine, f"{folder}/{root.name}", clock, root)
                found.setdefault(figure, []).append(seconds)
    return Row(name, **{figure: statistics.median(seconds) for figure, seconds in found.items()})


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS, metavar="NAME")
    parser.add_argument("--machine", default="tpu-v3")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--before", type=Path, metavar="FOLDER")
    parser.add_argument("--processor", action="store_const", const="processor", default="wall")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.measure:
        name, how, clock = given.measure
        print(measure(name, how, given.machine, clock))
        return 0
    before = given.before.resolve() if given.before else None
    rows = [row(name, given.machine, given.repeats, given.processor, before) for name in given.only]
    if given.json:
        told = {each.name: {**vars(each), "ours / inductor": each.beside_inductor} for each in rows}
        print(json.dumps(told, indent=1))
        return 0
    print(f"{'':<12}{'dynamo':>9}{'ours':>9}{'kept':>9}{'inductor':>10}{'ours/inductor':>15}{'kept/ours*':>12}")
    for each in rows:
        seconds = f"{each.dynamo:>9.2f}{each.ours:>9.2f}{each.kept:>9.2f}{each.inductor:>10.2f}"
        print(f"{each.name:<12}{seconds}{each.beside_inductor:>15.2f}{each.kept_beside_ours:>12.2f}")
        if each.before is not None and each.before_kept is not None:
            ratio = (each.before_kept - each.dynamo) / (each.before - each.dynamo)
            print(f"{'  before':<12}{'':>9}{each.before:>9.2f}{each.before_kept:>9.2f}{'':>25}{ratio:>12.2f}")
    print("* beyond what importing Dynamo takes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
