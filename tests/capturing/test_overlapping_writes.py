"""Changes in place of elements that lie on each other: refused where PyTorch refuses them, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import workbench as wb
from workbench.ground.errors import SharedElements

Function = Callable[[torch.Tensor], torch.Tensor]


def _rows_moved(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[1:] = y[:-1]
    return y


def _rows_added(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[1:].add_(y[:-1])
    return y


def _turned(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    return y.copy_(y.t())


def _into_rows_before(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    torch.add(y[1:], 1, out=y[:-1])
    return y


def _one_row_several_times(x: torch.Tensor) -> torch.Tensor:
    return x[0].clone().expand(3, 3).add_(1)


def _columns_moved(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:] = y[:, :-1].clone()
    return y


def _onto_itself(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    return y.mul_(y)


def _rows_beside(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:1] = y[1:2]
    return y


def _filled(x: torch.Tensor) -> torch.Tensor:
    return x[0].clone().expand(3, 3).fill_(1)


@pytest.mark.parametrize("function", [_rows_moved, _rows_added, _turned, _into_rows_before, _one_row_several_times])
def test_what_pytorch_refuses_is_refused(function: Function):
    x = torch.randn(3, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        function(x)
    with pytest.raises(SharedElements, match=r"the same memory|it also reads at other places"):
        wb.trace(function, x)


def _columns_onto_each_other(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:].copy_(y[:, :-1])
    return y


def _windows_added(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.as_strided((2, 3), (2, 1)).add_(1)
    return y


def _every_second_added(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, :2].add_(y.view(-1)[::2][:4].view(2, 2).sum(0))  # a sum is memory of its own
    y[:2, :2].add_(y.view(-1)[::2][:4].view(2, 2))
    return y


@pytest.mark.parametrize("function", [_columns_onto_each_other, _windows_added, _every_second_added])
def test_what_follows_from_pytorchs_order_of_work_is_refused(function: Function):
    with pytest.raises(SharedElements, match=r"the same memory|it also reads at other places"):
        wb.trace(function, torch.arange(9.0).view(3, 3))


def _halves_added(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, :1] += y[:, 2:]
    y[:, ::2].mul_(y[:, 1:2])
    y.view(-1)[::2].add_(y.view(-1)[1::2].sum())
    y.t()[0].copy_(y[:, 1])
    return y


def _alternate_columns(x: torch.Tensor) -> torch.Tensor:
    y = x.repeat(1, 2)
    y[:, ::2].sub_(y[:, 1::2])
    y[1:, 0].add_(y[:2, 5])
    return y


def test_a_fill_of_one_row_several_times():
    """PyTorch takes it, and makes other numbers of it in a graph."""
    with pytest.raises(SharedElements, match=r"fill_.*several elements are the same memory"):
        wb.trace(_filled, torch.randn(3, 3))


@pytest.mark.parametrize("function", [_columns_moved, _onto_itself, _rows_beside, _halves_added, _alternate_columns])
def test_what_pytorch_takes_is_taken(function: Function):
    x = torch.randn(3, 3)
    torch.testing.assert_close(wb.trace(function, x, machine="edge-8x8").run(x), function(x))


def test_a_training_step_that_moves_rows_onto_each_other():
    leaf = torch.randn(3, 3, requires_grad=True)

    def step() -> torch.Tensor:
        leaf.grad = None
        loss = _rows_moved(leaf * 2).sum()
        loss.backward()
        return loss.detach()

    with pytest.raises(SharedElements, match="it also reads at other places"):
        wb.trace(step, train=True)


@pytest.mark.test_all
@pytest.mark.parametrize("places", [1, -1, (1, 0)])
def test_a_vmap_with_its_batch_anywhere(places: int | tuple[int, int]):
    def function(x: torch.Tensor, weight: torch.Tensor) -> object:
        def one(row: torch.Tensor) -> object:
            made = (row @ weight).softmax(-1)
            return (made, row.sum(0)) if isinstance(places, tuple) else made

        return torch.vmap(one, in_dims=1, out_dims=places)(x)

    assert wb.trace(function, torch.randn(4, 3, 5), torch.randn(5, 6), machine="edge-8x8").check().ok
