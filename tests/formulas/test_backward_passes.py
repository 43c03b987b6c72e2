"""Gradients of families of operators: kernels beside autograd, which computes in 64 bits and with other roundings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from workbench.ir import HOST

Op = Callable[[torch.Tensor], torch.Tensor]
T = torch.Tensor


_LOTS = np.random.default_rng(0)
_SHAPES = [(2, 3, 3, 3), (3, 2, 1, 1), (3, 2, 3), (3, 2, 3, 2), (3, 2, 3, 3), (4, 1, 2, 3), (4, 6), (6,)]
_DRAWN = {shape: [torch.tensor(_LOTS.random(shape, np.float32) + more) for more in (0.5, 0.0)] for shape in _SHAPES}


def drawn(*shape: int) -> list[T]:
    """Two tensors of a shape, the same ones each time: the first has no number near zero."""
    return _DRAWN[shape]


ACTIVATIONS: list[Op] = [
    torch.relu,
    torch.sigmoid,
    torch.tanh,
    F.silu,
    F.gelu,
    lambda x: F.gelu(x, approximate="tanh"),
    F.elu,
    F.selu,
    F.celu,
    F.leaky_relu,
    F.hardswish,
    F.hardsigmoid,
    F.hardtanh,
    F.relu6,
    F.softplus,
    F.mish,
    F.logsigmoid,
    F.hardshrink,
    F.softshrink,
    F.softsign,
    lambda x: F.glu(x, 0),
    lambda x: F.threshold(x, 0.1, 5.0),
    lambda x: torch.softmax(x, 0),
    lambda x: torch.log_softmax(x, -1),
]
NORMS: list[Op] = [
    lambda x: F.layer_norm(x, (6,), *drawn(6)),
    lambda x: F.layer_norm(x, (6,)),
    lambda x: F.rms_norm(x, (6,), drawn(6)[0]),
    lambda x: F.batch_norm(x.t()[None], None, None, *drawn(6), training=True),
    lambda x: F.batch_norm(x, torch.zeros(6), torch.ones(6), *drawn(6), training=False),
    lambda x: F.group_norm(x.t()[None], 3, *drawn(6)),
    lambda x: F.instance_norm(x.t()[None]),
]
WINDOWS: list[Op] = [
    lambda x: F.conv2d(x, drawn(3, 2, 3, 3)[0], stride=2, padding=1),
    lambda x: F.conv2d(x, drawn(4, 1, 2, 3)[0], groups=2),
    lambda x: F.conv2d(x, drawn(3, 2, 3, 2)[0], dilation=2),
    lambda x: F.conv_transpose2d(x, drawn(2, 3, 3, 3)[0], stride=2, padding=1, output_padding=1),
    lambda x: (
        F.conv1d(x[0], drawn(3, 2, 3)[0], padding=1) if x.dim() < 4 else F.conv1d(x.flatten(2), drawn(3, 2, 3)[0])
    ),
    lambda x: F.max_pool2d(x, 2),
    lambda x: F.max_pool2d(x, 3, 2, 1),
    lambda x: F.avg_pool2d(x, 3, 2, 1),
    lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    lambda x: F.interpolate(x, scale_factor=2),
    lambda x: F.interpolate(x, size=(5, 9), mode="bilinear"),
    lambda x: F.pad(x, (1, 1, 2, 1), mode="reflect"),
]
MOVES: list[Op] = [
    lambda x: x[1:3],
    lambda x: x[::2, 1],
    lambda x: x[:, -1],
    lambda x: x[torch.tensor([0, 2, 0])],
    lambda x: x.gather(1, torch.tensor([[0, 5], [2, 2]])),
    lambda x: x.index_select(0, torch.tensor([3, 3, 1])),
    lambda x: torch.cat([x, x[:2] * 2]),
    lambda x: torch.stack([x, x.sin()]),
    lambda x: x.t() @ x,
    lambda x: x.expand(2, 4, 6),
    lambda x: x.repeat(2, 1),
    lambda x: x.roll(1, 0),
    lambda x: x.flip(1),
    lambda x: x.unfold(0, 2, 1),
    lambda x: x.tril(),
    lambda x: x.diagonal(),
    lambda x: x.scatter(0, torch.tensor([[1, 0, 2, 3, 1, 0]]), 1.0),
    lambda x: F.embedding(torch.tensor([[1, 3], [1, 0]]), x),
    lambda x: F.embedding(torch.tensor([1, 0]), x, padding_idx=0),
    lambda x: torch.einsum("ij,kj->ik", x, x),
    lambda x: x.chunk(2, 1)[1],
    lambda x: x.sort(1).values,
    lambda x: x.topk(2).values,
]
LOSSES: list[Op] = [
    lambda x: F.mse_loss(x, x.flip(0).detach()),
    lambda x: F.l1_loss(x, x.flip(0).detach(), reduction="sum"),
    lambda x: F.smooth_l1_loss(x, x.flip(0).detach(), beta=0.5),
    lambda x: F.huber_loss(x, x.flip(0).detach(), delta=0.7),
    lambda x: F.binary_cross_entropy(x.sigmoid(), x.flip(0).detach().sigmoid()),
    lambda x: F.binary_cross_entropy_with_logits(x, x.flip(0).detach().sigmoid(), pos_weight=drawn(6)[0].abs()),
    lambda x: F.kl_div(x.log_softmax(1), x.flip(0).detach().softmax(1), reduction="batchmean"),
    lambda x: F.nll_loss(x.log_softmax(1), torch.tensor([0, 5, 2, 2]), drawn(6)[0].abs()),
    lambda x: F.cross_entropy(x, torch.tensor([0, -100, 2, 2]), label_smoothing=0.1),
    lambda x: F.cross_entropy(x[None].transpose(1, 2), torch.tensor([[0, 5, 2, 2]]), reduction="sum"),
    lambda x: F.soft_margin_loss(x, x.flip(0).detach().sign()),
    lambda x: F.hinge_embedding_loss(x, x.flip(0).detach().sign()),
    lambda x: F.poisson_nll_loss(x, x.flip(0).detach().abs()),
    lambda x: F.margin_ranking_loss(x, x.flip(0), x.detach().sign()),
]
ATTENTION: list[Op] = [
    lambda x: F.scaled_dot_product_attention(x, x * 2, x.sin()),
    lambda x: F.scaled_dot_product_attention(x, x * 2, x.sin(), is_causal=True),
    lambda x: F.scaled_dot_product_attention(x, x * 2, x.sin(), attn_mask=torch.ones(4, 4, dtype=torch.bool).tril()),
]


FAMILIES: dict[str, tuple[list[Op], tuple[int, ...]]] = {
    "activations": (ACTIVATIONS, (4, 6)),
    "norms": (NORMS, (4, 6)),
    "windows": (WINDOWS, (2, 2, 7, 6)),
    "moves": (MOVES, (4, 6)),
    "losses": (LOSSES, (4, 6)),
    "attention": (ATTENTION, (1, 2, 4, 6)),
}


def gradients_of(ops: list[Op], x: T) -> Callable[[], T]:
    """A step in which each op has a factor of its own and each element of its result another one.

    So no gradient is just ones, and none can make up for another. Results of one shape are added before they are
    summed up, which takes fewer kernels.
    """

    def step() -> T:
        sums: dict[torch.Size, T] = {}
        for number, op in enumerate(ops):
            made = op(x)
            weights = torch.arange(made.numel()).remainder(7) * 0.25 + 0.5 + number / 16
            weighed = made * weights.reshape(made.shape)
            sums[made.shape] = sums[made.shape] + weighed if made.shape in sums else weighed
        total = sum((each.sum() for each in sums.values()), torch.zeros(()))
        total.backward()
        return total.detach()

    return step


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_autograd(family: str, whole_sweep: bool) -> None:
    """All operators of a family in a sweep, else every third."""
    torch.manual_seed(0)
    ops, shape = FAMILIES[family]
    ops = ops if whole_sweep else ops[::3]
    journey = wb.trace(gradients_of(ops, torch.randn(*shape).requires_grad_(True)), train=True)
    hosted = [kernel.name for kernel in journey.lowered.record.kernels if kernel.kind == HOST]
    check = journey.check()
    assert check.ok, check.text()
    assert not hosted
