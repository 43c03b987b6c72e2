"""More of anything makes nothing slower: a seeded sample of `benchmarks/monotonic.py`, and what was found with it."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

import workbench as wb
from benchmarks.monotonic import ALL, KNOBS, MOST, journey
from simulator.machine.machine_file import machine_names

SMALL = [name for name in ALL if name not in ("ffn_residual", "softmax_long_row", "matmul_512")]
SAMPLE = random.Random(0).sample([(p, m, k) for p in SMALL for m in machine_names() for k in KNOBS], 12)


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize(("program", "machine", "knob"), SAMPLE)
def test_twice_as_much_is_no_slower(program: str, machine: str, knob: str) -> None:
    given = wb.machine(machine)
    made = journey(ALL[program], given)
    assert made.with_(machine=KNOBS[knob](given)).simulated.cycles <= MOST * made.simulated.cycles


@pytest.mark.test_all
def test_lanes_that_a_convolution_leaves_empty_cost_nothing() -> None:
    made = [
        journey(ALL["conv_3x3"], wb.machine("tpu-v3", vector_lanes=lanes)).simulated.cycles for lanes in (32, 64, 256)
    ]
    assert made[1] <= MOST * made[0] and made[2] <= MOST * made[1]


def _product(n: int, **figures: int) -> int:
    machine = wb.machine("tpu-v3", **figures)
    return wb.trace(torch.matmul, torch.zeros(256, 256), torch.zeros(256, n), machine=machine).simulated.cycles


def test_two_cores_are_taken_only_where_they_are_faster() -> None:
    assert _product(256, cores=2) <= _product(256)


@pytest.mark.test_all
def test_a_core_that_gets_two_shares_waits_twice_for_the_memory() -> None:
    machine = wb.machine("tpu-v2", cores=2, core_figures="1: clock_ratio=3")
    layer = wb.trace(nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.randn(2, 8, 14, 14), machine=machine)
    assert layer.simulated.cycles <= MOST * layer.with_(mapping={"*": {"cores": {}}}).simulated.cycles


def test_one_column_more_is_about_one_tile_more() -> None:
    def cycles(n: int) -> int:
        a, b = torch.zeros(1024, 1024), torch.zeros(1024, n)
        return wb.trace(torch.matmul, a, b, machine="tpu-v3").simulated.cycles

    assert cycles(1025) <= 1.25 * cycles(1024)  # nine tiles of columns instead of eight, and lines that are not whole
