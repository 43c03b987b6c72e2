"""The line that says what binds a run, and the finding that comes first: of programs whose cause is known by how they
are made. The remedy of that finding, done by hand, saves what was promised or measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import workbench as wb
from simulator.analysis.binding import ARRAYS, CORES, HOST, LAUNCHES, MEMORY, VECTOR, binding_of
from workbench.ir import archive
from workbench.journey import Journey


@dataclass(frozen=True)
class Made:
    """A program that one part of the machine binds, and what to change by hand."""

    part: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    machine: str | Any
    by_hand: Callable[[Journey], Journey]
    options: dict[str, Any]

    def journey(self) -> Journey:
        torch.manual_seed(0)
        return wb.trace(self.function, *map(torch.randn, self.shapes), machine=self.machine, **self.options)


def _add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def _in_half_the_bytes(j: Journey) -> Journey:
    return wb.trace(_add, *(torch.randn(kind.shape).bfloat16() for kind in _inputs(j)), machine=j.machine)


def _inputs(j: Journey) -> list[Any]:
    graph = j.captured.record
    return [graph.types[each.value] for each in graph.inputs if each.kind == "user"]


def _waves(x: torch.Tensor) -> torch.Tensor:
    for _ in range(24):
        x = torch.tanh(x)
    return x


def _small_steps(x: torch.Tensor) -> torch.Tensor:
    for _ in range(9):
        x = torch.relu(x) + 1
    return x


def _on_the_host(x: torch.Tensor) -> torch.Tensor:
    return torch.i0(torch.relu(x))


def _figures(**figures: Any) -> Callable[[Journey], Journey]:
    def by_hand(j: Journey) -> Journey:
        mine = {name: change(j.machine.figures()[name]) for name, change in figures.items()}
        return j.with_(machine=j.machine.with_(**mine))

    return by_hand


def _with_two_arrays(j: Journey) -> Journey:
    return j.with_(machine=j.machine.with_(systolic_arrays=2))


def _double(value: int) -> int:
    return 2 * value


def _half(value: int) -> int:
    return value // 2


SLOW_FUNCTIONS = wb.machine("edge-8x8", special_interval_cycles=4)
SLOW_TO_LAUNCH = wb.machine("tpu-v3", launch_overhead_cycles=5000)
FOUR = wb.machine("edge-8x8", cores=4, special_interval_cycles=8)
PROGRAMS = [
    *(Made(MEMORY, _add, ((n, n), (n, n)), "edge-8x8", _in_half_the_bytes, {}) for n in (256, 1024)),
    *(Made(ARRAYS, torch.matmul, ((n, n), (n, n)), "edge-8x8", _with_two_arrays, {}) for n in (128, 384)),
    *(Made(VECTOR, _waves, ((n, n),), SLOW_FUNCTIONS, _figures(special_interval_cycles=_half), {}) for n in (128, 512)),
    *(
        Made(
            LAUNCHES,
            _small_steps,
            ((n, n),),
            SLOW_TO_LAUNCH,
            _figures(launch_overhead_cycles=_half),
            {"fusion": "none"},
        )
        for n in (8, 64)
    ),
    *(
        Made(HOST, _on_the_host, ((n, n),), "edge-8x8", _figures(host_link_bytes_per_second=_double), {})
        for n in (256, 1024)
    ),
    *(
        Made(
            CORES, _waves, ((n, 256),), FOUR, lambda j: j.with_(mapping=None), {"mapping": {"*": {"cores": {"d0": 1}}}}
        )
        for n in (64, 512)
    ),
]


@pytest.mark.parametrize("made", PROGRAMS, ids=lambda made: f"{made.part}-{made.shapes[0]}")
def test_the_part_that_binds_comes_first_and_its_remedy_keeps_its_promise(made: Made) -> None:
    j = made.journey()
    assert binding_of(j.simulated.record).by == made.part
    found = j.findings
    assert found.binding.startswith(f"bound by {made.part}")
    assert found.records[0].about == made.part, found.records[0]
    advises = next((at for at, each in enumerate(found.records) if each.remedy and each.about == made.part), 0)
    first, row = found.records[advises], found.tried().table.iloc[advises]
    promised = next(int(each) for each in (row["predicted"], row["gain"], row["cycles"]) if not pd.isna(each))
    saved = j.simulated.cycles - made.by_hand(j).simulated.cycles
    assert saved == pytest.approx(promised, rel=0.2), (first.rule, first.remedy)
    assert row["cycles"] >= 0.8 * saved, "at stake is no less than what a remedy saves"


PLACES = torch.randint(0, 128, (128, 128), generator=torch.Generator().manual_seed(0))
BOUND_BY_MEMORY = {
    "a gather": (lambda x: x.gather(1, PLACES), wb.machine("edge-8x8")),
    "a transposed sum on a banked memory": (lambda x: x.t() + x, wb.machine("edge-8x8", memory="banked", cores=4)),
    "a banked memory": (torch.relu, wb.machine("edge-8x8", memory="banked")),
}


@pytest.mark.parametrize("name", BOUND_BY_MEMORY)
def test_whatever_waits_for_the_memory_has_it_at_stake(name: str) -> None:
    function, machine = BOUND_BY_MEMORY[name]
    j = wb.trace(function, torch.randn(128, 128), machine=machine)
    binding, first = binding_of(j.simulated.record), j.findings.records[0]
    assert binding.by == first.about == MEMORY and sum(binding.shares.values()) == pytest.approx(1)
    assert first.cycles > 0.5 * j.simulated.cycles


def test_a_file_with_other_costs_promises_what_the_same_program_saves_here(tmp_path: Path) -> None:
    """A release whose launches cost more may write such a file: a remedy does not save those cycles."""
    path = tmp_path / "dear.journey"
    j = wb.trace(lambda x: x @ x, torch.randn(64, 64), machine="tpu-v3")
    dear = wb.simulate(j.lowered, j.scheduled, machine=wb.machine("tpu-v3", launch_overhead_cycles=2_000))
    j.save(path)
    kept = archive.load(path)
    archive.save(path, replace(kept, trace=replace(dear.record, machine=kept.machine)), made_by="another release")
    old = wb.load(path)
    assert old.simulated.cycles > j.simulated.cycles + 1_000
    (here,), (there,) = (each[each.rule == "latency in the open"].predicted for each in (j.findings, old.findings))
    assert 0 < here == there


def test_a_roof_and_a_peak_rate_have_words_of_their_own() -> None:
    """Streams get 84% of the peak rate of this DRAM: that is the roof, in the first line as in the roofline."""
    j = wb.trace(torch.nn.Linear(1024, 2048), torch.randn(4, 1024), machine="tpu-v3")
    simulated, found = j.simulated, j.findings
    roof = simulated.roofline.table.set_index("kernel").loc["whole", "share"]
    assert f"; of their roofs: memory {roof:.0%}" in found.binding and "peak" not in found.binding
    assert (
        "of what long streams reach (84% of its peak rate)" in found[found.rule == "memory at its peak"].reason.iloc[0]
    )
    at_peak = simulated.cycles * float(j.machine.dram_bytes_per_cycle)
    needed, moved = (simulated.transfers[each].sum() / at_peak for each in ("bytes", "moved"))
    assert simulated.stats["dram_share_of_peak"] == pytest.approx(needed) and needed < moved == pytest.approx(
        0.84 * roof
    )
    one_rate = wb.trace(_add, torch.randn(256, 256), torch.randn(256, 256), machine="edge-8x8").findings
    assert "% of its peak rate. " in one_rate.reason[0]
