"""Programs and machines as hypothesis makes them, and what must hold of every one.

python -m tests.simulator.random_programs N [--seed SEED]     or     make invariants N=10000
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import sys
import time
from collections.abc import Sequence
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from simulator import Deadlock, Launched, Machine, Placed, Resident, Trace, load_machine, simulate, verify
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.slack import slack_of
from simulator.engine import engine, event_loop
from simulator.records.spans import Grid
from simulator.tileprogram.program import Access, Carried, DependenceKind, Opcode, Operand, TileProgram
from tests.simulator.build import Made, elements

SECONDS = 600
"""A simulation that takes longer hangs: they take milliseconds, once the simulator is compiled."""


def _square(draw: st.DrawFn, made: Made, access: Access = Access.READ) -> Operand:
    """8 x 8 elements somewhere in a 16 x 16 slot."""
    row, column = draw(st.sampled_from([0, 4, 8])), draw(st.sampled_from([0, 8]))
    slot = made.pad("t", (8, 8), draw(st.integers(0, 2)), access, row * 16 + column)
    return dataclasses.replace(slot, strides=(16, 1))


def _row(draw: st.DrawFn, made: Made) -> Operand:
    """Up to 16 elements of a row, a column or one place, in a tensor or a slot."""
    place = made.dram(draw(st.sampled_from("xy")), (1,)) if draw(st.booleans()) else _square(draw, made)
    stride, count = draw(st.sampled_from([0, 1, 2, 15])), draw(st.integers(1, 8))
    access = draw(st.sampled_from([Access.READ, Access.WRITE]))
    return elements(place, access, stride=stride, count=count)


def _carried(draw: st.DrawFn, counts: tuple[int, int, int, int]) -> tuple[Carried, ...]:
    """No chain between iterations, or some, each of at most what its iterations have of operations."""
    chains = list[Carried]()
    for iterations in draw(st.sets(st.integers(1, 20), max_size=2)):
        chains.append(Carried(iterations, tuple(draw(st.integers(0, iterations * count)) for count in counts)))
    return tuple(chains)


@st.composite
def programs(draw: st.DrawFn, most: int = 24, least: int = 1, *, direct: bool = True) -> TileProgram:
    """Loads, stores, copies, vector passes, matmuls and, if `direct`, loops of single accesses on often overlapping
    squares and rows of three slots and two tensors.
    """
    made = Made()
    made.argument("x", (16, 16), written=True)
    made.argument("y", (16, 16), written=True)
    made.buffer("t", 256, 3)
    kinds = st.sampled_from(
        ["load", "store", "copy", "vector", "vector", "matmul", "matmul", "chain", *["direct"] * 2 * direct]
    )
    accumulator = _square(draw, made)
    for kind in draw(st.lists(kinds, min_size=least, max_size=most)):
        outside = made.dram(draw(st.sampled_from("xy")), (8, 8), draw(st.sampled_from([0, 8, 64, 128])))
        here, there = _square(draw, made), _square(draw, made)
        if kind == "load":
            made.load(outside, here)
        elif kind == "store":
            made.store(here, outside)
        elif kind == "copy":
            made.move(Opcode.COPY, here, there)
        elif kind == "vector":
            made.vector([here], there, (1, draw(st.integers(0, 1)), 0, 0))
        elif kind == "direct":
            accesses = [_row(draw, made) for _ in range(draw(st.integers(1, 3)))]
            counts = (draw(st.integers(0, 2)), draw(st.integers(0, 1)), 0, 0)
            made.direct(*accesses, points=16, counts=counts, carried=_carried(draw, counts))
        else:
            target = accumulator if kind == "chain" else _square(draw, made)
            made.matmul(here, there, target, accumulates=kind == "chain" or draw(st.booleans()))
    return made.build()


def _small(least: int, most: int) -> st.SearchStrategy[int]:
    """The least there is half of the time: queues of one entry, one port, a window of one instruction."""
    return st.one_of(st.just(least), st.integers(least, most))


_FIGURES: dict[str, st.SearchStrategy[int | float | str]] = {
    "dma_queues": _small(1, 4),
    "queue_depth": _small(1, 4),
    "issue_window": _small(1, 12),
    "issue_interval_cycles": _small(1, 5),
    "systolic_arrays": _small(1, 3),
    "systolic_rows": st.sampled_from([1, 3, 8, 128]),
    "systolic_columns": st.sampled_from([1, 5, 8]),
    "systolic_selection": st.just("in_turn"),
    "systolic_preload_depth": st.just(1),
    "dataflow": st.just("output_stationary"),
    "vector_lanes": st.sampled_from([8, 9, 128]),
    "launch_overhead_cycles": _small(0, 500),
    "interconnect_latency_cycles": _small(0, 300),
    "dram_bytes_per_second": st.sampled_from([10**9, 7_300_000_001, 10**12]),
    "dma_bytes_per_cycle": st.sampled_from([1, 32, 33]),
    "scalar_outstanding": _small(1, 8),
    "accumulator_residence": st.sampled_from(["array", "scratchpad"]),
    "matmul_precision": st.sampled_from(["bf16", "f32", "bf16_6x"]),
    "dram_channels": st.sampled_from([1, 2, 8]),
    "dram_refresh_rate": st.sampled_from([1, 2, 3]),
    "dram_tile": st.sampled_from(["8x128", "4x8", "3x5", "1x1"]),
    "core_figures": st.sampled_from(["0: clock_ratio=0.3 systolic_rows=2", "0: vector_alus=1 clock_ratio=1.7"]),
    "interconnect": st.sampled_from(["crossbar", "mesh"]),
    "interconnect_link_bytes_per_cycle": st.sampled_from([1, 24, 64]),
    "interconnect_packet_bytes": st.sampled_from([1, 100, 4096]),
    "mesh_hop_cycles": _small(0, 20),
}
_CHIPLETS: dict[str, st.SearchStrategy[int | float | str]] = {
    "interconnect": st.sampled_from(["simple", "crossbar"]),
    "dram_channels": st.sampled_from([4, 8]),
    "chiplet_link_latency_cycles": _small(0, 100),
    "chiplet_link_bytes_per_cycle": st.sampled_from([1, 24, 512]),
    "dram_placement": st.sampled_from(["interleaved", "local"]),
    "page_bytes": st.sampled_from([64, 256, 4096]),
}
_LINKS = {2: ["", "0-1"], 4: ["", "0-1 1-2 2-3", "2-3 3-0 0-1 1-2", "1-0 1-2 1-3"]}
_SIMPLE: dict[str, st.SearchStrategy[int | float | str]] = {
    "dram_latency_ns": st.sampled_from([0, 0.5, 100, 1000]),
    "dram_request_bytes": st.sampled_from([1, 48, 64]),
}


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A shipped machine with some other figures, down to the least that is legal."""
    memory = draw(st.sampled_from(["simple", "banked"]))
    known = _FIGURES | (_SIMPLE if memory == "simple" else {})
    figures = {name: draw(known[name]) for name in sorted(draw(st.sets(st.sampled_from(sorted(known)))))}
    if figures.get("dram_bytes_per_second", 10**12) != 10**12:
        figures["dram_refresh"] = "all"  # banks one by one want a faster clock
    if figures.get("dram_bytes_per_second") == 10**9:
        figures.pop("dram_refresh_rate", None)  # so do refreshes in quick succession
    chiplets = draw(st.sampled_from([1, 1, 2, 4]))
    if chiplets > 1:
        figures |= {name: draw(known) for name, known in _CHIPLETS.items()}
        figures |= {"chiplets": chiplets, "chiplet_links": draw(st.sampled_from(_LINKS[chiplets]))}
    return load_machine(draw(st.sampled_from(["edge-8x8", "tpu-v2", "tpu-v3"])), memory=memory, **figures)


def _grids(draw: st.DrawFn) -> tuple[Grid | None, ...]:
    """Rows and columns of both tensors, those of their squares or any others; on machines with blocks they count."""
    grid = st.one_of(st.none(), st.just(Grid(16, 16)), st.builds(Grid, st.integers(1, 20), st.integers(1, 40)))
    return draw(st.one_of(st.just(()), st.tuples(grid, grid)))


@st.composite
def launches(draw: st.DrawFn) -> list[Launched]:
    """Some launches of one or two programs, their tensors anywhere."""
    several = draw(st.lists(programs(least=5), min_size=1, max_size=2))
    return [
        Launched(
            "k",
            draw(st.sampled_from(several)),
            (draw(st.integers(0, 300)), 4096 + draw(st.integers(0, 300))),
            grids=_grids(draw),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[Launched], list[Resident], list[Placed]]:
    """Launches that share two tensors, which of these stay in the common memory from when to when, and where in DRAM
    which of them lie on several chiplets.
    """
    program, count = draw(programs(least=5, direct=False)), draw(st.integers(1, 4))
    places = draw(st.integers(0, 300)), 4096 + draw(st.integers(0, 300))
    kept, lie = list[Resident](), list[Placed]()
    for name, place in zip("xy", places, strict=True):
        first, last = sorted(draw(st.integers(0, count - 1)) for _ in range(2))
        if draw(st.booleans()):
            kept.append(Resident(name, place, 16 * 16 * 4, first, last, alone=draw(st.booleans())))
        if draw(st.booleans()):
            where = draw(st.sampled_from([None, 0, "local", "interleaved"]))
            lie.append(Placed(name, place, 16 * 16 * 4, first, last, where))
    return [Launched("k", program, places, grids=_grids(draw))] * count, kept, lie


def with_common_memory(machine: Machine, rate: int, latency: int) -> Machine:
    return machine.with_(
        common_memory_bytes=2048, common_memory_bytes_per_second=rate, common_memory_latency_ns=latency
    )


def check(
    given_launches: list[Launched],
    machine: Machine,
    stretch: int,
    residents: Sequence[Resident] = (),
    placed: Sequence[Placed] = (),
) -> Trace:
    """Simulates launches every way there is, and holds what came out against all invariants."""
    for launched in given_launches:
        verify(launched.program)
    trace = simulate(given_launches, machine, seconds=SECONDS, residents=residents, placed=placed)
    trace.invariants()
    assert slack_of(trace).min(initial=0) >= 0
    assert sum(cycles for _, cycles in waterfall_of(trace)) == trace.makespan
    with mock.patch.object(event_loop, "EVENTS", stretch):
        each = simulate(given_launches, machine, repeats=False, seconds=SECONDS, residents=residents, placed=placed)
    assert each.digest() == trace.digest(), "stretches and repeats change the trace"
    assert Trace.load(io.BytesIO(trace.to_bytes())).digest() == trace.digest()
    for launched in given_launches:
        assert TileProgram.load(io.BytesIO(launched.program.to_bytes())) == launched.program
    return trace


def waits_for_another(program: TileProgram, row: int, awaited: int) -> TileProgram:
    """The program with one more dependence, in whatever direction."""
    at = int(program.dependence_start[row])
    starts = program.dependence_start.copy()
    starts[row + 1 :] += 1
    return dataclasses.replace(
        program,
        dependence_start=starts,
        dependence=np.insert(program.dependence, at, awaited),
        dependence_kind=np.insert(program.dependence_kind, at, DependenceKind.READ_AFTER_WRITE),
    )


def check_circle(program: TileProgram, machine: Machine, row: int, awaited: int) -> bool:
    """Lets an instruction wait for any other, unverified: it ends, or says in which circle it does not."""
    broken = waits_for_another(program, row % len(program), awaited % len(program))
    with mock.patch.object(engine, "_check_program"):
        try:
            trace = simulate([Launched("k", broken, (0, 4096))], machine, seconds=SECONDS)
        except Deadlock as told:
            members = told.circle.split(" waits for ")
            assert len(members) > 1 and members[0] == members[-1], told
            return True
    assert (trace.done >= 0).all()
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulates random programs on random machines.", allow_abbrev=False)
    parser.add_argument("count", type=int, nargs="?", default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    done, circles, instructions, began = 0, 0, 0, time.monotonic()

    @seed(asked.seed)
    @settings(
        max_examples=asked.count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(launches(), plans(), machines(), st.integers(1, 40), st.integers(0, 100), st.integers(0, 100))
    def every(
        several: list[Launched],
        plan: tuple[list[Launched], list[Resident], list[Placed]],
        machine: Machine,
        stretch: int,
        row: int,
        awaited: int,
    ) -> None:
        nonlocal done, circles, instructions
        instructions += len(check(several, machine, stretch))
        shared, kept, lie = plan
        instructions += len(check(shared, with_common_memory(machine, 10**9 + 7 * row, awaited), stretch, kept, lie))
        circles += check_circle(several[0].program, machine, row, awaited)
        done += 1
        if done % 100 == 0:
            print(f"\r{done:,} of {asked.count:,}  {time.monotonic() - began:.0f} s", end="", file=sys.stderr)

    every()
    print(file=sys.stderr)
    print(f"{done:,} cases with {instructions:,} instructions keep all invariants; {circles:,} deadlocks were told")
    return 0


if __name__ == "__main__":
    sys.exit(main())
