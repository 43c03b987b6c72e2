"""Compares ways to move the same bytes: a copy, broadcasts, a transpose and a gather, each of 1 MiB of f32 each.

    python benchmarks/moved_alike.py [--machines edge-8x8,tpu-v3]

Prints a row of a Markdown table for each, in cycles, with the requested bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch

import workbench as wb

SIDE = 512


def moves() -> dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]]:
    """Of each name the function and its inputs."""
    whole, rows = torch.randn(SIDE, SIDE), torch.arange(SIDE).flip(0)
    return {
        "copy, `x.clone()`": (torch.clone, (whole,)),
        "one row to all, `x.repeat(512, 1)`": (lambda x: x.repeat(SIDE, 1), (whole[:1].clone(),)),
        "one column to all, `x.expand(512, 512).contiguous()`": (
            lambda x: x.expand(SIDE, SIDE).contiguous(),
            (whole[:, :1].clone(),),
        ),
        "transpose, `x.t().contiguous()`": (lambda x: x.t().contiguous(), (whole,)),
        "gather of rows, `x[i]`": (lambda x, i: x[i], (whole, rows)),
        "gather of elements, `x.gather(1, i)`": (
            lambda x, i: x.gather(1, i),
            (whole, rows.expand(SIDE, SIDE).contiguous()),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", default="edge-8x8,tpu-v3")
    machines = parser.parse_args().machines.split(",")
    print("| | " + " | ".join(f"{each}, cycles | bytes moved" for each in machines) + " |")
    print("|---|" + "---:|" * 2 * len(machines))
    for name, (function, inputs) in moves().items():
        cells = [name]
        for machine in machines:
            run = wb.trace(function, *inputs, machine=machine).simulated
            cells += [f"{run.cycles:,}", f"{run.record.counters['dram_request_bytes']:,}"]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
