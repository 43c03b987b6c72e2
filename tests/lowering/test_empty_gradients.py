"""Backward passes that read tensors without elements, in a compiled model and in a traced step, beside eager ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import workbench as wb

pytestmark = [
    pytest.mark.usefixtures("fresh_dynamo"),
    pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute"),  # the forward pass of empty bags
]

Made = tuple[nn.Module, torch.Tensor]


def agrees(make: Callable[[], Made], *, trains: bool) -> None:
    """Checks that all gradients of a module equal those of eager PyTorch, in shape too."""
    torch.manual_seed(0)
    model, x = make()
    model(x).sum().backward()
    expected = [each.grad for each in model.parameters()]
    model.zero_grad()
    if trains:

        def step(x: torch.Tensor) -> torch.Tensor:
            loss = model(x).sum()
            loss.backward()
            return loss.detach()

        j = wb.trace(step, x, train=True)
        j.run(x)
        assert j.check()
    else:
        torch.compile(model, backend="npu")(x).sum().backward()
    torch.testing.assert_close([each.grad for each in model.parameters()], expected, equal_nan=True)


class Called(nn.Module):
    def __init__(self, part: nn.Module, function: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.part, self.function = part, function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.part, x)


def no_indices(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int64)


def in_bags(part: nn.Module, indices: torch.Tensor) -> torch.Tensor:
    return part(indices, torch.zeros(3, dtype=torch.int64))


BY_NO_INDEX: dict[str, Callable[[], Made]] = {
    "embedding": lambda: (Called(nn.Embedding(5, 3), lambda part, x: part(x).sum(1)), no_indices(2, 0)),
    "padded": lambda: (nn.Embedding(5, 3, padding_idx=1, scale_grad_by_freq=True), no_indices(2, 0)),
    "bags": lambda: (Called(nn.EmbeddingBag(5, 3, mode="sum"), in_bags), no_indices(0)),
    "means of bags": lambda: (Called(nn.EmbeddingBag(5, 3, mode="mean"), in_bags), no_indices(0)),
    "take": lambda: (Called(nn.Embedding(5, 3), lambda part, x: part.weight.take(x)), no_indices(0)),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", BY_NO_INDEX)
def test_rows_that_no_index_names_have_gradients_of_zero(name: str, *, trains: bool):
    agrees(BY_NO_INDEX[name], trains=trains)


class Holding(nn.Module):
    """A module with a parameter without elements."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.empty, self.full = nn.Parameter(torch.zeros(0, 3)), nn.Parameter(torch.ones(3))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.empty) + (self.full * x).sum()


OF_NOTHING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": torch.sum,
    "scaled": lambda p: (p * 2).sum(),
    "mean": torch.mean,
    "sum of each column": lambda p: p.exp().sum(0).sum(),
    "joined": lambda p: torch.cat([p, torch.ones(1, 3)]).sum(),
}


@pytest.mark.test_all
@pytest.mark.parametrize("name", OF_NOTHING)
def test_a_parameter_without_elements_has_a_gradient_without_elements(name: str):
    agrees(lambda: (Holding(OF_NOTHING[name]), torch.ones(2, 3)), trains=True)


WITHOUT_IMAGES: dict[str, Callable[[], Made]] = {
    "one dim": lambda: (nn.Conv1d(2, 3, 3), torch.zeros(0, 2, 6)),
    "two dims": lambda: (nn.Conv2d(2, 3, 3, padding=1), torch.zeros(0, 2, 4, 4)),
    "transposed": lambda: (nn.ConvTranspose2d(2, 3, 3), torch.zeros(0, 2, 4, 4)),
    "groups": lambda: (nn.Conv2d(4, 6, 3, groups=2), torch.zeros(0, 4, 4, 4)),
    "pooled": lambda: (nn.Sequential(nn.Conv2d(2, 3, 1), nn.MaxPool2d(2)), torch.zeros(0, 2, 4, 4)),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", WITHOUT_IMAGES)
def test_weights_of_a_convolution_of_no_images_have_gradients_of_zero(name: str, *, trains: bool):
    agrees(WITHOUT_IMAGES[name], trains=trains)
