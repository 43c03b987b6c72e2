"""Recurrent cells and layers, and sums of products by letters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.agreement import agrees, together


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(cell: Callable[..., nn.Module]):
    torch.manual_seed(0)
    module, x, state = cell(7, 12), torch.randn(3, 7), torch.randn(2, 3, 12)
    given = (state[0], state[1]) if cell is nn.LSTMCell else state[0]
    agrees(module, x, given)
    agrees(module, x)
    agrees(cell(7, 5, bias=False), x, machine="tpu-v3")


@pytest.mark.test_all
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True), (2, 3, 6)),
        (nn.GRU(6, 8), (4, 2, 6)),
        (nn.RNN(6, 8, nonlinearity="relu"), (4, 6)),
    ],
    ids=["lstm", "gru", "rnn"],
)
def test_layers(layer: nn.Module, shape: tuple[int, ...]):
    agrees(layer.eval(), torch.randn(shape))


@pytest.mark.test_all
def test_einsum_and_its_kin():
    a, b, c = torch.randn(3, 4, 5), torch.randn(3, 5, 6), torch.randn(6, 7)
    equations = ("bij,bjk,kl->bil", "bij,bjk->ik", "bij,bjk->", "bij,bjk,kl->lb")
    agrees(lambda a, b, c: [torch.einsum(e, *(a, b, c)[: e.count(",") + 1]) for e in equations], a, b, c)
    v, w, m = torch.randn(5), torch.randn(7), torch.randn(5, 7)
    agrees(together([lambda v, w, m: torch.outer(v, w), lambda v, w, m: torch.addmv(v, m, w, alpha=0.5)]), v, w, m)
    agrees(together([lambda v, w, m: torch.addr(m, v, w, beta=2), lambda v, w, m: torch.inner(m, w)]), v, w, m)
    agrees(lambda m: torch.einsum("ij->ji", m) + torch.einsum("ij->i", m), torch.randn(5, 5))
