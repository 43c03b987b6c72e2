"""Tensors with known contents: made where they are read, and right when they are read from memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.flow import flow, moved
from tests.moving_programs import MACHINES, assert_same, tensor

MADE: dict[str, Callable[[torch.Tensor], object]] = {
    "one number": lambda x: (
        torch.zeros(3, 5), torch.ones(1, 7, dtype=torch.bool), torch.full((2, 3, 4, 5), -2.5), torch.full((), 3),
        torch.full((70, 9), float("-inf"), dtype=torch.float16), torch.full((9,), 200, dtype=torch.uint8), x + 1,
    ),
    "like another": lambda x: (
        torch.zeros_like(x), torch.ones_like(x.t()), torch.full_like(x, 2, dtype=torch.int32), x.new_zeros(3),
        x.new_ones(2, 2, dtype=torch.int64), x.new_full((1, 4), 7.0), torch.empty_like(x).fill_(4.0),
        x.new_empty(2).zero_(),  # undefined memory may be NaN, which no product with 0 takes away
    ),
    "counted": lambda x: (
        torch.arange(5), torch.arange(2, 9, 3, dtype=torch.float16), torch.arange(9, 0, -2, dtype=torch.int8),
        torch.arange(1), torch.arange(-4, 3.0), torch.arange(0.5, 4.5, dtype=torch.int32), x + 1,
    ),
    "in steps": lambda x: (torch.linspace(-3, 7, 1001), torch.linspace(0, 1, 2), torch.linspace(3, 4, 1), x + 1),
    "unit matrices": lambda x: (torch.eye(5), torch.eye(3, 7, dtype=torch.int64), torch.eye(4, 1), x @ torch.eye(6)),
    "numbers": lambda x: x + torch.tensor(2.0) + torch.scalar_tensor(3.0) + torch.tensor([1.0, 2, 3, 4, 5, 6]),
    "triangles": lambda x: (
        x.tril(-1), x.triu(1), (x > 0).tril(), x.exp().tril(2).sum(-1), x.double().long().triu(-3), x[:, :1].tril(),
        x.view(2, 2, 3, 2).triu(), x.tril(9),
    ),
    "diagonals": lambda x: (torch.diag(x[0]), torch.diag(x, 1), torch.diag_embed(x, 1), torch.diag_embed(x, -1, 0, 1)),
    "a causal mask": lambda x: torch.triu(torch.full((6, 6), float("-inf")), 1) + x[0],
    "positions compared": lambda x: x * (torch.arange(6)[None, :] < torch.arange(4)[:, None]),
    "grids": lambda x: [g + x for g in torch.meshgrid(torch.arange(4), torch.arange(6), indexing="ij")],
    "written over": lambda x: _written_over(x.clone(), x.exp()),
}  # fmt: skip


def _written_over(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[1:3, ::2] = y[1:3, ::2]
    x[0] = 5.0
    x[:, 1] += 1
    x[2:, 3:].zero_()
    return x


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", MADE)
def test_makes_what_eager_makes(name: str, machine: str):
    assert_same(MADE[name], [tensor((4, 6))], machines=(machine,), tolerance=1e-6)


@pytest.mark.test_all
def test_one_hot():
    given = [tensor(shape, torch.int64) % 7 for shape in ((1,), (9,), (3, 1), (2, 3, 5))]
    assert_same(lambda *named: [F.one_hot(x, 7) for x in named], given)


def test_a_mask_of_positions_is_no_bytes_at_all():
    made = flow(lambda x: x * (torch.arange(64)[None, :] <= torch.arange(48)[:, None]), [torch.randn(48, 64)])
    (kernel,) = made.scheduled.kernels
    assert moved(kernel.program) == {"arg0": 48 * 64 * 4, "arg1!": 48 * 64 * 4}


def test_each_reader_has_its_own():
    def twice(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        place = torch.arange(64, dtype=torch.float32)
        return x + place, y.sum(0) * place

    made = flow(twice, [torch.randn(48, 64), torch.randn(48, 64)])
    assert [kernel.nodes for kernel in made.lowered.kernels] == [
        ("add.arange", "add"),
        ("sum", "mul.arange", "mul"),
    ]
    made.assert_matches_eager(torch.randn(48, 64), torch.randn(48, 64))


def test_a_product_reads_it_from_memory_and_a_result_stays():
    def kept(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ones = torch.ones(64, 8)
        return x @ ones, ones

    made = flow(kept, [torch.randn(48, 64)])
    assert len(made.lowered.kernels) == 2
    refused = [item for item in made.lowered.fusions if item.producer == "ones"]
    assert [(item.fused, item.rule) for item in refused] == [(False, "creation read from memory")]
    made.assert_matches_eager(torch.randn(48, 64))
