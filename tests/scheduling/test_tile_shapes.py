"""Which way a tile of a kernel without a product grows."""

from __future__ import annotations

import torch

import workbench as wb
from simulator import load_machine
from tests.simulator.build import elementwise
from workbench.scheduling.core_split import spread_of


def test_columns_that_are_summed_are_read_in_whole_requests():
    journey = wb.trace(lambda x: x.sum(0), torch.randn(2048, 64), machine="edge-8x8")
    by_hand = journey.with_(mapping={"*": {"tile": {"d0": 128, "d1": 64}}})
    assert journey.scheduled.kernels[0].mapping.tile["d1"] == 64
    assert journey.simulated.cycles <= 1.02 * by_hand.simulated.cycles


def test_a_row_that_does_not_fit_is_cut_after_the_lanes_are_full_of_rows():
    machine = wb.machine("edge-8x8", scratchpad_bytes_per_lane=2048)
    mapping = wb.trace(lambda x: x.sum(1), torch.randn(16, 6000), machine=machine).scheduled.kernels[0].mapping
    assert mapping.tile["d0"] == 16
    assert mapping.tile["d1"] < 6000
    assert "its reduction is split" in mapping.reason


def test_cores_are_spoken_of_where_there_are_several():
    program = elementwise()
    assert spread_of(program, load_machine("edge-8x8"), "the script") == ""
    two = load_machine("edge-8x8", cores=2)
    assert spread_of(program, two, "the script") == "on one core of 2, as the script has it"
