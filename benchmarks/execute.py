"""Measures `j.run` beside PyTorch's eager execution, on one thread.

    python benchmarks/execute.py [--only gemm_1024 softmax] [--repeats 3] [--seconds 3] [--before FOLDER] [--threads 2]

Every cell is measured in processes of its own, one after the other; stderr tells each as it ends. Such a process calls
eager PyTorch for some seconds, and then `j.run`; the fastest call of each counts, in seconds of the processor, so that
a busy machine shows less. `run` is `j.run` as it is, `no BLAS` the same with `ATEN_WORKBENCH_BLAS=off`, and `before`
that of another checkout, in the same run. A cell is the best of the repeats; a ratio is of two times of one process.
`--threads` adds a column told apart from these: `j.run` with as many threads, and beside `j.run` with one, both by the
clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]

NAMES = (
    "gemm_1024x1024x1024", "softmax_4096x1024", "bert_layer", "gpt2_12_layers", "resnet18", "resnet18_nchw",
    "bert_base", "inception",
)  # fmt: skip

HOWS: Mapping[str, Mapping[str, str]] = {"before": {}, "no BLAS": {"ATEN_WORKBENCH_BLAS": "off"}, "run": {}}
"""The ways to run, and what the environment says for each."""


def made(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function or module of that name, and its inputs."""
    import torch
    from workloads import workload

    from tests.blocks import inception
    from workbench.models.resnet import resnet18
    from workbench.models.shipped.gpt import GPT2

    torch.manual_seed(0)
    if name == "bert_layer":
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, activation="gelu")
        return layer.eval(), (torch.randn(1, 128, 768),)
    if name == "gpt2_12_layers":
        return GPT2().eval(), (torch.randint(50257, (1, 128)),)
    if name == "resnet18_nchw":
        return resnet18().eval(), (torch.randn(1, 3, 224, 224),)
    if name == "inception":
        return inception().eval(), (torch.randn(1, 3, 112, 112),)
    given = workload(name)
    return given.function, given.inputs


def measure(name: str, seconds: float) -> dict[str, float]:
    """The milliseconds of a call in eager and of one of `j.run`, taken in turns in this process."""
    import torch

    import workbench as wb

    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    function, inputs = made(name)
    best = {"eager": float("inf"), "run": float("inf")}
    with torch.no_grad():
        journey = wb.trace(function, *inputs)
        calls = {"eager": lambda: function(*inputs), "run": lambda: journey.run(*inputs)}
        for call in calls.values():
            call()
        for way, call in calls.items():
            end = time.process_time() + seconds
            while time.process_time() < end:
                began = time.process_time()
                call()
                best[way] = min(best[way], (time.process_time() - began) * 1e3)
    return best


def measure_threads(name: str, seconds: float, threads: int) -> dict[str, float]:
    """The milliseconds of the clock that `j.run` takes on one thread and on several, in turns. PyTorch's own ops have
    one in both: only kernels are side by side."""
    import torch

    import workbench as wb

    torch.set_num_threads(1)
    function, inputs = made(name)
    best = {"one": float("inf"), "several": float("inf")}
    with torch.no_grad():
        journey = wb.trace(function, *inputs)
        journey.run(*inputs)
        end = time.perf_counter() + 2 * seconds
        while time.perf_counter() < end:
            for way, count in (("one", 1), ("several", threads)):
                with mock.patch.object(torch, "get_num_threads", lambda count=count: count):
                    began = time.perf_counter()
                    journey.run(*inputs)
                    best[way] = min(best[way], (time.perf_counter() - began) * 1e3)
    return best


def in_a_process(name: str, how: str, seconds: float, before: Path | None, threads: int = 1) -> dict[str, float]:
    sources = before if how == "before" and before else ROOT
    environment = {**os.environ, **HOWS.get(how, {}), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(sources)}
    command = [sys.executable, __file__, "--measure", name, "--seconds", str(seconds), "--threads", str(threads)]
    done = subprocess.run(command, env=environment, cwd=sources, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}, {how}:", ", ".join(f"{way} {value:.2f} ms" for way, value in found.items()), file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", default=[""], help="rows whose names begin with one of these")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each cell")
    parser.add_argument("--seconds", type=float, default=3, help="for each of the two in a process")
    parser.add_argument("--before", type=Path, help="the folder of another checkout to measure as well")
    parser.add_argument("--threads", type=int, default=1, help="measure so many threads as well")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        several = options.threads > 1
        found = measure_threads(options.measure, options.seconds, options.threads) if several else None
        print(json.dumps(found or measure(options.measure, options.seconds)))
        return
    hows = [how for how in HOWS if how != "before" or options.before]
    head = f"{'':22}{'eager ms':>10}" + "".join(f"{how + ' ms':>11}{'/ eager':>9}" for how in hows)
    told = f"{options.threads} threads"
    print(head + (f"{told + ' ms':>14}{'/ one':>7}" if options.threads > 1 else ""), flush=True)
    for name in filter(lambda each: each.startswith(tuple(options.only)), NAMES):
        runs = {
            how: [in_a_process(name, how, options.seconds, options.before) for _ in range(options.repeats)]
            for how in hows
        }
        eager = min(each["eager"] for found in runs.values() for each in found)
        row = f"{name:22}{eager:10.2f}"
        for found in runs.values():
            best = min(found, key=lambda each: each["run"] / each["eager"])
            row += f"{best['run']:11.2f}{best['run'] / best['eager']:9.2f}"
        if options.threads > 1:
            tries = [in_a_process(name, told, options.seconds, None, options.threads) for _ in range(options.repeats)]
            best = min(tries, key=lambda each: each["several"] / each["one"])
            row += f"{best['several']:14.2f}{best['several'] / best['one']:7.2f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
