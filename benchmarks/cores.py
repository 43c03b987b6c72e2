"""Measures a kernel on more cores: cycles, speed-up, and where the time goes on the critical path.

    python benchmarks/cores.py [--size 2048] [--cores 1 2 4] [--machine tpu-v3] [--memory simple|banked]
                               [--chiplets 1] [--placement interleaved|local] [--link 64] [--json]

A matrix product of `--size` cubed, spread by the mapping that the workbench chooses. All cores share the memory: where
the speed-up falls behind the number of cores, the last columns say why, as shares of cycles along the critical path.
`bus` is the share of all cycles in which the memory's bus is busy; at 100% no number of cores makes it faster. With
several chiplets (of which each has its part of the memory, with `--link` bytes a cycle between two of them each way)
`remote` is the share of bytes that lie on another chiplet than the core that asks.
"""

from __future__ import annotations

import argparse
import json
import sys

import torch

import workbench as wb

Row = dict[str, object]


def measured(size: int, cores: int, machine: str, **figures: int | str) -> Row:
    """One row: the product of two square matrices on so many cores."""
    target = wb.machine(machine, cores=cores, **figures)
    journey = wb.trace(torch.matmul, torch.zeros(size, size), torch.zeros(size, size), machine=target)
    simulated, (kernel,) = journey.simulated, journey.scheduled.kernels
    cycles = simulated.cycles
    path: dict[str, int] = {}
    for what, spent in simulated.waterfall.itertuples(index=False):
        path[str(what)] = int(spent)
    assert sum(path.values()) == cycles
    bus = simulated.stats["dram_request_bytes"] / float(target.dram_bytes_per_cycle)
    return {
        "cores": cores,
        "cycles": cycles,
        "split": kernel.mapping.cores,
        "tile": kernel.mapping.tile,
        "dram_bytes": simulated.stats["dram_request_bytes"],
        "bus_share": bus / cycles,
        "remote_share": simulated.stats["dram_remote_bytes"] / simulated.stats["dram_request_bytes"],
        "path": path,
        "why": kernel.mapping.reason,
    }


def table(rows: list[Row]) -> str:
    """The rows for people; speed-up is over the first."""
    labels = list(dict.fromkeys(str(label) for row in rows for label in paths(row)))
    head = f"{'cores':>5} {'cycles':>9} {'speed-up':>8} {'bus':>5} {'remote':>6} "
    lines = [head + " ".join(f"{label:>16}" for label in labels)]
    for row in rows:
        shares = " ".join(f"{paths(row).get(label, 0) / number(row):>16.1%}" for label in labels)
        speed = number(rows[0]) / number(row)
        told = f"{row['cores']:>5} {number(row):>9} {speed:>8.2f} {row['bus_share']:>5.0%} {row['remote_share']:>6.0%}"
        lines.append(f"{told} {shares}")
    lines += [f"{row['cores']:>5} tile {row['tile']}: {row['why']}" for row in rows]
    return "\n".join(lines)


def paths(row: Row) -> dict[str, int]:
    found = row["path"]
    assert isinstance(found, dict)
    return found


def number(row: Row) -> int:
    cycles = row["cycles"]
    assert isinstance(cycles, int)
    return cycles


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--machine", default="tpu-v3")
    parser.add_argument("--memory", choices=("simple", "banked"), default="simple")
    parser.add_argument("--chiplets", type=int, default=1)
    parser.add_argument("--placement", choices=("interleaved", "local"), default="interleaved")
    parser.add_argument("--link", type=int, default=64, metavar="BYTES")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: dict[str, int | str] = {
        "memory": options.memory,
        "chiplets": options.chiplets,
        "dram_placement": options.placement,
        "chiplet_link_bytes_per_cycle": options.link,
    }
    rows = [measured(options.size, cores, options.machine, **figures) for cores in options.cores]
    print(json.dumps({"rows": rows}) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
