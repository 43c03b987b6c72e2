"""Arrays of other kinds, from a function to its timeline."""

from __future__ import annotations

import pytest
import torch

import workbench as wb


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("dataflow", ["weight_stationary", "output_stationary"])
def test_products_are_right_and_timed_on_arrays_of_every_kind(dataflow: str, depth: int) -> None:
    torch.manual_seed(0)
    machine = wb.machine(
        "edge-8x8", systolic_rows=4, systolic_arrays=2, dataflow=dataflow, systolic_preload_depth=depth
    )
    j = wb.trace(lambda x, y: torch.relu(x @ y), torch.randn(40, 70), torch.randn(70, 30), machine=machine)
    assert j.check().ok
    j.simulated.trace.invariants()
    tiles = {"*": {"tile": {"m": 20, "n": 30, "k": 35}}}
    one, two = (
        j.with_(machine=machine.with_(systolic_preload_depth=sets), mapping=tiles).simulated.cycles for sets in (1, 2)
    )
    assert one > two
