"""Kernels and nodes are called what the person who wrote the model calls them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.explaining.views.graphs.titles import Titles, kernel_titles, scheduled_titles, short_op
from workbench.models.resnet import BasicBlock


@pytest.mark.parametrize(
    ("op", "short"),
    [
        ("aten._native_batch_norm_legit_no_training.default", "batch_norm"),
        ("aten.native_layer_norm.default", "layer_norm"),
        ("aten.softmax.int", "softmax"),
        ("aten.max_pool2d_with_indices.default", "max_pool2d"),
        ("mine.twice.default", "twice"),
        ("workbench.matmul.default", "matmul"),
    ],
)
def test_ops_have_the_names_that_people_call(op: str, short: str):
    assert short_op(op) == short


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([BasicBlock(8, 8), BasicBlock(8, 16, 2)])
        self.head = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def net() -> wb.Journey:
    return wb.trace(Net().eval(), torch.randn(1, 8, 8, 8))


def test_kernels_are_called_by_their_modules_and_what_they_do(net: wb.Journey):
    titles = kernel_titles(net.lowered.record)
    assert set(titles) == {kernel.name for kernel in net.lowered.kernels}
    assert {
        "layers.0.conv1 + bn1 + relu",
        "layers.0.conv2 + bn2 + add + relu",
        "layers.1.down.0.conv2d + batch_norm",
        "mean",
        "head.0.linear + gelu",
        "head.2.linear",
    } <= set(titles.values())


def test_a_part_of_a_node_says_which(net: wb.Journey):
    """A batch norm's figures take two kernels if each kernel makes one result."""
    apart = net.with_(fusion={"off": ["several results"]}).lowered
    mine = [title for title in kernel_titles(apart.record).values() if title.startswith("layers.0.bn1")]
    assert mine == ["layers.0.bn1 (add + rsqrt + mul)", "layers.0.bn1 (mul + sub)"]


@pytest.mark.test_all
def test_kernels_that_share_a_program_are_counted(net: wb.Journey):
    titles = scheduled_titles(net.lowered.record, net.scheduled.record)
    launched = [launch.kernel for launch in net.scheduled.record.launches.launches]
    assert set(titles) == set(launched)
    alike = {kernel: launched.count(kernel) - 1 for kernel in titles}
    assert any(alike.values())
    for kernel, title in titles.items():
        assert title.endswith(f", and {alike[kernel]} alike") == bool(alike[kernel]), title


def test_a_second_call_of_the_same_name_is_counted_and_long_chains_are_cut():
    def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((x * y).tanh() * y).exp().relu()

    j = wb.trace(chain, torch.randn(4, 4), torch.randn(4, 4))
    titles = Titles(j.captured.record)
    assert [titles.node(node.name) for node in j.captured.record.nodes] == ["mul", "tanh", "mul_1", "exp", "relu"]
    assert list(kernel_titles(j.lowered.record).values()) == ["mul + tanh + mul + 2 more"]
