"""Prints as JSON the results of runs with and without each kind of optional hardware."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

import simulator
from simulator import Launched, Machine, Trace, load_machine, simulate
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.energy import energy_of
from simulator.analysis.slack import slack_of
from simulator.analysis.stalls import links_of, stalls_of
from simulator.optional.feature_table import FEATURES
from tests.simulator.build import matmul_chain

PROGRAM = matmul_chain(16, 16, 16, 8)
PLACES = (0, 1 << 16, 2 << 16)


def told(trace: Trace) -> list[object]:
    trace.invariants()
    parts = waterfall_of(trace), stalls_of(trace), links_of(trace), slack_of(trace).tolist()
    return [trace.makespan, *parts, [[each.unit, each.kind, each.count] for each in energy_of(trace)]]


def run(machine: Machine, **asked: object) -> list[object]:
    return told(simulate([Launched("k", PROGRAM, PLACES)] * 2, machine, **asked))  # pyright: ignore[reportArgumentType]


def common_memory() -> list[object]:
    from simulator import Resident

    machine = load_machine("edge-8x8", common_memory_bytes=1 << 16, common_memory_bytes_per_second=10**11)
    return run(machine, residents=[Resident("b", PLACES[1], 1024, 0, 1, alone=False)])


def zero_tiles() -> list[object]:
    zeros = {0: np.zeros(256, np.bool_)}
    machine = load_machine("edge-8x8", skips_zero_tiles=True)
    return told(simulate([Launched("k", PROGRAM, PLACES, filled=zeros)], machine))


def uneven_cores() -> list[object]:
    return run(load_machine("edge-8x8", cores=[{"clock_ratio": 0.5}]))


def chiplets() -> list[object]:
    return run(load_machine("edge-8x8", chiplets=2, dram_channels=4, page_bytes=256))


def tried(asked: Callable[[], list[object]]) -> list[object]:
    try:
        return asked()
    except Exception as error:
        return [repr(error)]


def main() -> None:
    found = {each.__name__: tried(each) for each in (common_memory, zero_tiles, uneven_cores, chiplets)}
    plain = {memory: run(load_machine("edge-8x8", memory=memory)) for memory in ("simple", "banked")}
    mesh = run(load_machine("tpu-v3", interconnect="mesh"))
    features = [each.name for each in FEATURES]
    print(json.dumps({**found, **plain, "mesh": mesh, "file": simulator.__file__, "features": features}, default=int))


if __name__ == "__main__":
    main()
