"""Measures scheduling and reading off the tile programs of twelve identical layers: alone, shared, and kept.

    python benchmarks/kernel_cache.py [--machine edge-8x8] [--repeats 3]

Three figures, each the best of the repeats, each repeat a fresh process after its imports:

    alone    every launch's kernel scheduled by itself, as if no two were the same
    cold     identical kernels scheduled once, with an empty cache folder, which is then filled
    warm     the same again in a new process, from that folder
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def measure(how: str, machine: str) -> dict[str, float]:
    """Runs in a process of its own."""
    import time

    import torch

    from simulator.machine.machine_file import load_machine
    from tests.layers import Attentive, stack
    from workbench.capturing.capture import capture
    from workbench.lowering.lower import lower
    from workbench.rendering.render import render
    from workbench.scheduling.kernel_store import default_store
    from workbench.scheduling.schedule import schedule
    from workbench.scheduling.schedule_kernel import schedule_kernel

    model = stack(Attentive, layers=12, width=256, hidden=1024)
    lowered = lower(capture(model, [torch.randn(128, 256)]).graph)
    rendered, target = render(lowered), load_machine(machine)
    began = time.perf_counter()
    if how == "alone":
        kernels = [schedule_kernel(module, target, None) for module in rendered]
    else:
        kernels = schedule(lowered, rendered, target, store=default_store()).kernels
    seconds = time.perf_counter() - began
    instructions = sum(len(kernel.program) for kernel in kernels)
    return {"seconds": seconds, "kernels": len(kernels), "launches": len(rendered), "instructions": instructions}


def in_a_process(how: str, machine: str, folder: str) -> dict[str, float]:
    environment = {**os.environ, "ATEN_WORKBENCH_CACHE": folder, "ATEN_WORKBENCH_KERNEL_CACHE": "on"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, __file__, "--measure", how, "--machine", machine]
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--machine", default="edge-8x8")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", choices=("alone", "shared"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.machine)))
        return
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            for name, how in (("alone", "alone"), ("cold", "shared"), ("warm", "shared")):
                made = in_a_process(how, options.machine, folder)
                if name not in best or made["seconds"] < best[name]["seconds"]:
                    best[name] = made
    for name, row in best.items():
        print(
            f"{name:6}{row['seconds'] * 1e3:9.1f} ms   {row['kernels']:.0f} kernels "
            f"for {row['launches']:.0f} launches, {row['instructions']:,.0f} instructions"
        )
    alone, cold, warm = (best[name]["seconds"] for name in ("alone", "cold", "warm"))
    print(f"alone / cold  {alone / cold:5.1f}\ncold / warm   {cold / warm:5.1f}\nalone / warm  {alone / warm:5.1f}")


if __name__ == "__main__":
    main()
