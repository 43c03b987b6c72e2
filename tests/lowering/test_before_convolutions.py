"""Ops computed on the tiles that a convolution reads, of images where its window is one point: right and faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import workbench as wb

APART: Any = {"off": ["product prologue"]}

norm = torch.nn.BatchNorm2d(16).eval()
with torch.no_grad():
    for each in (norm.weight, norm.bias, norm.running_mean):
        each.copy_(torch.randn(16))

X, W = (2, 16, 7, 9), (24, 16, 1, 1)
BEFORE: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], tuple[int, ...], tuple[int, ...], int]] = {
    "an activation": (lambda x, w: F.conv2d(F.silu(x), w), X, W, 1),
    "a norm and an activation": (lambda x, w: F.conv2d(torch.relu(norm(x)), w), X, W, 2),
    "a weight that is scaled": (lambda x, w: F.conv2d(x, w * 0.5), X, W, 1),
    "both operands": (lambda x, w: F.conv2d(x + 1, torch.tanh(w)), X, W, 1),
    "before and after": (lambda x, w: F.gelu(F.conv2d(F.gelu(x), w)), X, W, 1),
    "one image": (lambda x, w: F.conv2d(torch.relu(x), w), (1, *X[1:]), W, 1),
    "one channel": (lambda x, w: F.conv2d(F.silu(x), w), X, (1, 16, 1, 1), 1),
    "an image of one point": (lambda x, w: F.conv2d(F.silu(x), w), (3, 16, 1, 1), W, 1),
    "sequences": (lambda x, w: F.conv1d(F.gelu(x), w), (3, 16, 30), W[:3], 1),
    "volumes": (lambda x, w: F.conv3d(F.gelu(x), w), (2, 16, 3, 4, 5), (*W, 1), 1),
    "the weight of windows": (lambda x, w: F.conv2d(x, torch.tanh(w), padding=1), X, (24, 16, 3, 3), 1),
    "the weight of windows with steps": (
        lambda x, w: F.relu(F.conv2d(x, w * 0.5, stride=2, padding=2, dilation=2)), X, (24, 16, 3, 2), 1,
    ),
    "the converted weight of sequences": (
        lambda x, w: F.conv1d(x, w.half().float(), padding=2), (3, 16, 30), (24, 16, 5), 1,
    ),
    "channels last": (
        lambda x, w: F.conv2d(F.silu(x).contiguous(memory_format=torch.channels_last), w), X, W, 1,
    ),
    "bf16": (lambda x, w: F.conv2d(torch.relu(x).bfloat16(), w.bfloat16()), X, W, 1),
}  # fmt: skip


def names(j: Any) -> list[str]:
    return [kernel.name for kernel in j.lowered.record.kernels]


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", BEFORE)
def test_it_runs_in_the_kernel_of_the_convolution(name: str, machine: str):
    torch.manual_seed(0)
    function, x, w, count = BEFORE[name]
    j = wb.trace(function, torch.randn(x), torch.randn(w), machine=machine)
    assert len(names(j)) == count, j.lowered.fusions.to_string()
    assert j.check().ok
    apart = j.with_(fusion=APART)
    assert len(names(apart)) > count
    assert j.simulated.cycles < apart.simulated.cycles
    moved, before = (each.simulated.trace.counters for each in (j, apart))
    assert moved["dram_write_bytes"] < before["dram_write_bytes"]


@pytest.mark.test_all
@pytest.mark.parametrize("tile", [{"m0": 1, "m1": 3, "m2": 5, "n": 7, "k": 9}, {"k": 1}, {"n": 5}, {"m1": 1}])
def test_it_is_right_in_any_tiles(tile: dict[str, int]):
    x, w = torch.randn(2, 16, 5, 9), torch.randn(W)
    for order in (["m0", "m1", "m2", "n", "k"], ["n", "m0", "m1", "m2", "k"]):
        mapping = {"*": {"tile": tile, "order": order}}
        j = wb.trace(lambda x, w: F.conv2d(F.silu(x), w * 2), x, w, mapping=mapping)
        assert len(names(j)) == 1 and j.check().ok


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("tile", [{"oh": 2, "ow": 5}, {"oc": 5, "ic": 7}, {"kh": 1, "ic": 3}, {"b": 1, "kw": 2}])
def test_a_weight_of_windows_is_right_in_any_tiles(tile: dict[str, int]):
    x, w, mapping = torch.randn(2, 16, 5, 9), torch.randn(12, 16, 3, 3), {"*": {"tile": tile}}
    j = wb.trace(lambda x, w: F.conv2d(x, torch.tanh(w), padding=1), x, w, mapping=mapping)
    assert len(names(j)) == 1 and j.check().ok


def test_an_activation_that_others_read_is_stored():
    x, w = torch.randn(X), torch.randn(W)
    j = wb.trace(lambda x, w: (y := torch.relu(x), F.conv2d(y, w)), x, w)
    assert names(j) == ["k0_relu", "k1_conv2d"] and j.check().ok
    assert any("also an output" in each.reason for each in j.lowered.record.fusions)
