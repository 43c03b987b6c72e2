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


@pytest.mark.parametrize("slow", [{"clock_ratio": 0.5}, {"systolic_rows": 4, "vector_lanes": 4}])
def test_a_slower_core_has_less_of_the_work(slow: dict[str, int | float]) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(96, 64), torch.randn(64, 48)
    alike = wb.machine("edge-8x8", cores=2)
    j = wb.trace(lambda x, y: torch.relu(x @ y), x, y, machine=wb.machine("edge-8x8", cores=[{}, slow]))
    assert j.check().ok
    j.simulated.trace.invariants()
    program = j.scheduled.kernels[0].program
    products = [program.extent[(program.opcode == 5) & (program.core == core)].prod(1).sum() for core in (0, 1)]
    assert products == [2 * 96 * 64 * 48 // 3, 96 * 64 * 48 // 3]
    assert "over 3 shares; they go to cores 0, 0, 1 in turn" in j.scheduled.kernels[0].mapping.spread
    one, two = (j.with_(machine=each).simulated.cycles for each in (alike.with_(cores=1), alike))
    assert two < j.simulated.cycles < one
