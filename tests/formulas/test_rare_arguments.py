"""Arguments that ops of classes and of arithmetic seldom get."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.agreement import agrees

aten = torch.ops.aten
NONE, MEAN, SUM = range(3)


@pytest.mark.test_all
@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
def test_the_weight_of_all_targets(reduction: int):
    """PyTorch leaves it zero where a batch keeps its losses, and there alone."""

    def program(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> object:
        batch = aten.nll_loss_forward(x, target, weight, reduction, 1)
        return batch, aten.nll_loss_forward(x[0], target[0], weight, reduction, 1)

    agrees(program, torch.randn(4, 3), torch.tensor([2, 1, 0, 2]), torch.rand(3) + 0.5)


@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
@pytest.mark.parametrize("ignored", [0, 2])
def test_several_targets_of_one_row(reduction: int, ignored: int):
    """PyTorch goes by the first of them."""

    def program(gradient: torch.Tensor, x: torch.Tensor, target: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        return aten.nll_loss_backward(gradient, x, target, None, reduction, ignored, total)

    agrees(program, torch.rand(1), torch.randn(3), torch.tensor([2, 1, 0]), torch.tensor(2.0))


def test_numbers_less_tensors():
    def program(x: torch.Tensor, y: torch.Tensor) -> object:
        return torch.rsub(x, y), torch.rsub(y, x, alpha=2), torch.rsub(torch.tensor(2), torch.tensor(1))

    agrees(program, torch.tensor(5), torch.arange(3))


def test_arithmetic_of_numbers_alone():
    agrees(lambda x: (x + aten.sub(3.5, 2.5), torch.sub(7, 2), torch.mul(2.5, 2)), torch.randn(3))


def test_products_of_three_with_dims_in_any_order():
    def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> object:
        return (
            aten._trilinear(x, y, z, [2, 1], [2, 0], [1, 0], []),
            aten._trilinear(x, y, z, [-1, 0], [1, 2], [0, -2], []),
        )

    agrees(program, torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3))


def test_windows_of_an_image_in_another_order():
    agrees(lambda x: F.unfold(x.permute(0, 3, 1, 2), 2), torch.randn(2, 4, 3, 2))
