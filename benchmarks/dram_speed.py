"""Measures the time that the simulator takes for a request to banked memory: the same from 10^4 requests to 10^7.

    python benchmarks/dram_speed.py [--json] [--most N] [--plot FILE]

1. Streams of 10^4, 10^5, 10^6 and 10^7 requests into one channel of HBM2, by pattern: nanoseconds of CPU a request, in
   the fastest of three runs, since what else runs on a machine only ever adds.
   The slope is the power of the number of requests with which the time grows, between the two longest streams: 1 says
   that a request costs the same.
2. ResNet-18, batch 1, on the shipped TPU v3, compiled once: seconds of CPU to simulate it with simple and with banked
   memory, and what a request costs there.

What is compiled is compiled before anything is measured. `--plot` draws the streams: all of the time on logarithmic
axes, where a constant cost is a line of slope 1, and the cost of one request.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path

from patterns import pattern
from request_stream import run_stream
from workloads import workload

import workbench as wb
from simulator import simulate
from simulator.machine.dram_file import load_memory
from workbench.simulating.launched_programs import launched

MEMORY, SPAN = "HBM2_2000Mbps", 1 << 30
PATTERNS = ("seq_read", "copy_1r1w", "random_read")
MOST = 10_000_000
RUNS = 3


def stream_seconds(name: str, requests: int) -> float:
    """CPU seconds of one stream, its addresses made before."""
    memory = load_memory(MEMORY)
    addresses, writes = pattern(name, requests, memory.request_bytes, SPAN)
    began = time.process_time()
    run_stream(memory, addresses, writes)
    return time.process_time() - began


def streams(most: int) -> dict[str, dict[int, float]]:
    """CPU seconds by pattern and number of requests."""
    stream_seconds(PATTERNS[0], 100)
    found: dict[str, dict[int, float]] = {}
    for name in PATTERNS:
        found[name] = {}
        for power in range(4, round(math.log10(most)) + 1):
            found[name][10**power] = min(stream_seconds(name, 10**power) for _ in range(RUNS))
            print(f"{name}: {10**power:,} requests, {found[name][10**power]:.2f} s", file=sys.stderr)
    return found


def slope(seconds: dict[int, float]) -> float:
    """The power of the number of requests with which the time grows, between the two longest streams."""
    (few, short), (many, long) = sorted(seconds.items())[-2:]
    return math.log(long / short) / math.log(many / few)


def network() -> dict[str, dict[str, float]]:
    """ResNet-18 with each memory: cycles, requests, CPU seconds."""
    given = workload("resnet18")
    journey = wb.trace(given.function, *given.inputs, machine="tpu-v3")
    launches = launched(journey.lowered.record, journey.scheduled.record)
    found: dict[str, dict[str, float]] = {}
    for memory in ("simple", "banked"):
        machine = wb.machine("tpu-v3", memory=memory)
        simulate(launches[:1], machine)
        began = time.process_time()
        trace = simulate(launches, machine)
        seconds = time.process_time() - began
        requests = trace.counters["dram_request_bytes"] // machine.dram.request_bytes
        found[memory] = {"cycles": trace.makespan, "requests": requests, "seconds": seconds}
    return found


def plot(found: dict[str, dict[int, float]], path: Path) -> None:
    """Time over the number of requests, both in powers, and the cost of one request, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    total, each = figure.subplots(1, 2)
    for name, seconds in found.items():
        counts, took = list(seconds), list(seconds.values())
        total.plot(counts, took, marker="o", label=f"{name}: power {slope(seconds):.3f}")
        each.plot(counts, [1e9 * time / count for time, count in zip(took, counts, strict=True)], marker="o")
    first = next(iter(found.values()))
    least, most = min(first), max(first)
    total.plot([least, most], [first[most] * least / most, first[most]], "--", color="grey", label="in proportion")
    total.set(xscale="log", yscale="log", xlabel="requests", ylabel="CPU seconds", title="All requests")
    each.set(xscale="log", xlabel="requests", ylabel="CPU ns", ylim=(0, None), title="One request")
    total.legend()
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="What a request to banked memory costs the simulator.", allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--most", type=int, default=MOST, help=f"requests of the longest stream (default: {MOST})")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.most < 100_000:
        parser.error("--most: a slope needs at least 100000 requests")
    found = streams(given.most)
    if given.plot is not None:
        plot(found, given.plot)
    resnet = network()
    if given.json:
        slopes = {name: slope(seconds) for name, seconds in found.items()}
        print(json.dumps({"seconds": found, "slope": slopes, "resnet18": resnet}, indent=1))
        return 0
    for name, seconds in found.items():
        costs = ", ".join(f"{count:,}: {1e9 * each / count:.0f} ns" for count, each in seconds.items())
        print(f"{name}: {costs}; slope {slope(seconds):.3f}")
    for memory, told in resnet.items():
        print(f"resnet18, {memory}: {told['cycles']:,} cycles, {told['requests']:,} requests, {told['seconds']:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
