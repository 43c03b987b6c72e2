"""`aten::relu` by its template: the numbers, against PyTorch's, and the bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from aten_relu import register

import workbench as wb

SHAPES = [(1, 1), (47, 10), (128, 128)]


def relu(x):
    return torch.ops.aten.relu.default(x)


def inputs(shape: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape) for _ in range(1)]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with wb.ops.scope():
        register()
        yield


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_numbers_are_those_of_pytorch(shape: tuple[int, ...], machine: str):
    journey = wb.trace(relu, *inputs(shape), machine=machine, on_missing="error")
    assert "template" in set(journey.lowered.table.route)
    check = journey.check(*inputs(shape))
    assert check.ok, check.outputs.to_string()
    journey.simulated.trace.invariants()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_number_is_moved_once(shape: tuple[int, ...]):
    given = inputs(shape)
    counters = wb.trace(relu, *given).simulated.trace.counters
    result = relu(*given)
    assert counters["dram_read_bytes"] == sum(each.nbytes for each in given)
    assert counters["dram_write_bytes"] == result.nbytes
