"""Copies that transpose go through a pass, and a result with two layouts is stored twice, tile by tile."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import workbench as wb


def opcodes(journey: wb.Journey) -> set[str]:
    return {*journey.simulated.events["kind"]}


@pytest.mark.parametrize("machine", ["edge-8x8", "tpu-v3"])
def test_a_transpose_is_a_pass_between_two_tiles_and_takes_longer_than_a_copy(machine: str) -> None:
    x = torch.randn(512, 512)
    copied = wb.trace(lambda x: x.clone(), x, machine=machine)
    transposed = wb.trace(lambda x: x.t().contiguous(), x, machine=machine)
    assert opcodes(copied) == {"LOAD", "STORE"}
    assert opcodes(transposed) == {"LOAD", "VECTOR", "STORE"}
    assert transposed.simulated.cycles > copied.simulated.cycles
    assert transposed.check().ok


@pytest.mark.test_all
@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.bool, torch.float64])
def test_every_type_is_transposed(dtype: torch.dtype) -> None:
    x = (torch.randn(33, 18) * 4).to(dtype)
    journey = wb.trace(lambda x: x.t().contiguous(), x, machine="edge-8x8")
    assert torch.equal(journey.run(x), x.t())


@pytest.mark.parametrize("shape", [(64, 1), (1, 64)])
def test_a_broadcast_is_loaded_as_a_copy_of_its_result_is(shape: tuple[int, int]) -> None:
    copied = wb.trace(lambda x: x.clone(), torch.randn(64, 64), machine="edge-8x8")
    repeated = wb.trace(lambda x: x.expand(64, 64).contiguous(), torch.randn(shape), machine="edge-8x8")
    assert opcodes(repeated) == {"LOAD", "STORE"}
    assert repeated.simulated.cycles == copied.simulated.cycles


class Twice(nn.Module):
    """A sum that the next layer reads in one layout and the caller gets in another."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Conv2d(3, 64, 3, 4, 1)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 256)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.image(x).flatten(2).transpose(1, 2)
        h = h + self.first(h)
        return self.second(h), h


@pytest.mark.parametrize("cores", [1, pytest.param(2, marks=pytest.mark.test_all)])
@pytest.mark.parametrize("batch", [1, 6])
def test_a_result_in_two_layouts_never_lies_whole_in_the_scratchpad(batch: int, cores: int) -> None:
    x = torch.randn(batch, 3, 64, 64)
    journey = wb.trace(Twice().eval(), x, machine=wb.machine("edge-8x8", cores=cores))
    kernel = next(each for each in journey.scheduled.kernels if each.name.endswith("add_linear"))
    whole = batch * 256 * 64 * 4
    assert all(buffer.bytes < whole for buffer in kernel.program.buffers)
    assert journey.check().ok
