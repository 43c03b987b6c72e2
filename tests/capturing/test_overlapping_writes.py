"""Changes in place of elements that lie on each other: refused where PyTorch refuses them, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import workbench as wb
from workbench.ground.errors import SharedElements

Function = Callable[[torch.Tensor], torch.Tensor]


def on_a_copy(change: Callable[[torch.Tensor], object]) -> Function:
    """A function that changes a copy of its input and returns the copy."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        change(y)
        return y

    return function


def _rows_moved(y: torch.Tensor) -> None:
    y[1:] = y[:-1]


REFUSED: dict[str, Function] = {
    "rows moved": on_a_copy(_rows_moved),
    "rows added": on_a_copy(lambda y: y[1:].add_(y[:-1])),
    "turned": on_a_copy(lambda y: y.copy_(y.t())),
    "into the rows before": on_a_copy(lambda y: torch.add(y[1:], 1, out=y[:-1])),
    "one row several times": lambda x: x[0].clone().expand(3, 3).add_(1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str):
    x = torch.randn(3, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        REFUSED[name](x)
    with pytest.raises(SharedElements, match=r"the same memory|it also reads at other places"):
        wb.trace(REFUSED[name], x)


def _every_second_added(y: torch.Tensor) -> None:
    y[:, :2].add_(y.view(-1)[::2][:4].view(2, 2).sum(0))  # a sum is memory of its own
    y[:2, :2].add_(y.view(-1)[::2][:4].view(2, 2))


IN_PYTORCHS_ORDER: dict[str, Function] = {
    "columns onto each other": on_a_copy(lambda y: y[:, 1:].copy_(y[:, :-1])),
    "windows added": on_a_copy(lambda y: y.as_strided((2, 3), (2, 1)).add_(1)),
    "every second added": on_a_copy(_every_second_added),
}


@pytest.mark.parametrize("name", IN_PYTORCHS_ORDER)
def test_what_follows_from_pytorchs_order_of_work_is_refused(name: str):
    with pytest.raises(SharedElements, match=r"the same memory|it also reads at other places"):
        wb.trace(IN_PYTORCHS_ORDER[name], torch.arange(9.0).view(3, 3))


def test_a_fill_of_one_row_several_times():
    """PyTorch takes it, and makes other numbers of it in a graph."""
    with pytest.raises(SharedElements, match=r"fill_.*several elements are the same memory"):
        wb.trace(lambda x: x[0].clone().expand(3, 3).fill_(1), torch.randn(3, 3))


def _columns_moved(y: torch.Tensor) -> None:
    y[:, 1:] = y[:, :-1].clone()


def _rows_beside(y: torch.Tensor) -> None:
    y[:1] = y[1:2]


def _halves_added(y: torch.Tensor) -> None:
    y[:, :1] += y[:, 2:]
    y[:, ::2].mul_(y[:, 1:2])
    y.view(-1)[::2].add_(y.view(-1)[1::2].sum())
    y.t()[0].copy_(y[:, 1])


def _alternate_columns(x: torch.Tensor) -> torch.Tensor:
    y = x.repeat(1, 2)
    y[:, ::2].sub_(y[:, 1::2])
    y[1:, 0].add_(y[:2, 5])
    return y


TAKEN: dict[str, Function] = {
    "columns moved": on_a_copy(_columns_moved),
    "onto itself": on_a_copy(lambda y: y.mul_(y)),
    "rows beside": on_a_copy(_rows_beside),
    "halves added": on_a_copy(_halves_added),
    "alternate columns": _alternate_columns,
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_pytorch_takes_is_taken(name: str):
    x = torch.randn(3, 3)
    torch.testing.assert_close(wb.trace(TAKEN[name], x, machine="edge-8x8").run(x), TAKEN[name](x))


def test_a_training_step_that_moves_rows_onto_each_other():
    leaf = torch.randn(3, 3, requires_grad=True)

    def step() -> torch.Tensor:
        leaf.grad = None
        loss = REFUSED["rows moved"](leaf * 2).sum()
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
