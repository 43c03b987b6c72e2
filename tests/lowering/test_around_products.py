"""Ops in one kernel with a product: right results, fewer cycles than apart, and the reason where it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from workbench.ground.errors import MappingError
from workbench.lowering.around_products import BOTH_SIDES, IN_GROUPS, LONGEST, OF_WINDOWS, ROWS_ONLY
from workbench.lowering.product_room import FULL

APART = {"off": ["product prologue", "rows of a product"]}

FUSED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "an activation before": lambda x, w: F.gelu(x) @ w,
    "a weight that is scaled": lambda x, w: x @ (w * 0.5),
    "both operands": lambda x, w: torch.relu(x + 1) @ torch.tanh(w),
    "a conversion": lambda x, w: (x.to(torch.bfloat16) @ w.to(torch.bfloat16)).float(),
    "an activation before and after": lambda x, w: F.gelu(torch.relu(x) @ w),
    "softmax": lambda x, w: torch.softmax(x @ w, -1),
    "log softmax of a scaled product": lambda x, w: torch.log_softmax((x @ w) * 0.5, -1),
    "layer norm": lambda x, w: F.layer_norm(x @ w, w.shape[-1:]),
    "maximum": lambda x, w: (x @ w).amax(-1),
    "sum of what follows": lambda x, w: torch.relu(x @ w).sum(-1, keepdim=True),
    "variance": lambda x, w: (x @ w).var(-1),
    "place of the maximum": lambda x, w: (x @ w).argmax(-1),
    "before and rows": lambda x, w: torch.softmax(F.silu(x) @ w, -1),
}
SHAPES = {
    "matrices": ((70, 90), (90, 130)),
    "one row": ((1, 90), (90, 130)),
    "one column": ((20, 90), (90, 1)),
    "a batch": ((3, 20, 30), (3, 30, 40)),
    "depth one": ((20, 1), (1, 40)),
}


def kernels(j: Any) -> list[str]:
    return [kernel.name for kernel in j.lowered.record.kernels]


def reasons(j: Any) -> list[str]:
    return [fusion.reason for fusion in j.lowered.record.fusions if not fusion.fused]


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(pairs=False)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", FUSED)
def test_one_kernel_is_right_and_faster(name: str, shapes: str, machine: str):
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in SHAPES[shapes]]
    j = wb.trace(FUSED[name], *inputs, machine=machine)
    assert len(kernels(j)) == 1, reasons(j)
    assert j.check().ok
    apart = j.with_(fusion=APART)
    assert len(kernels(apart)) > 1
    # a launch costs nothing on edge-8x8, and products of few rows take the time there, in tiles that may fit less well
    most = 1.12 if (machine, shapes) == ("edge-8x8", "one row") else 1.0
    assert j.simulated.trace.makespan < most * apart.simulated.trace.makespan
    moved, before = (each.simulated.trace.counters for each in (j, apart))
    assert moved["dram_write_bytes"] < before["dram_write_bytes"]


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("order", [["m", "n", "k"], ["n", "m", "k"]], ids=str)
@pytest.mark.parametrize("tile", [{"m": 16, "n": 32, "k": 48}, {"m": 70, "n": 7, "k": 90}, {"k": 1}, {"m": 1}])
def test_a_prologue_is_right_in_any_tiles(tile: dict[str, int], order: list[str]):
    x, w = torch.randn(70, 90), torch.randn(90, 130)
    mapping = {"k0_gelu_tanh_matmul": {"tile": tile, "order": order}}
    assert wb.trace(lambda x, w: F.gelu(x) @ torch.tanh(w), x, w, mapping=mapping).check().ok


@pytest.mark.test_all
@pytest.mark.parametrize("tile", [{"m": 16, "k": 48}, {"m": 1}, {"k": 1}])
def test_rows_are_right_in_any_tiles(tile: dict[str, int]):
    x, w = torch.randn(70, 90), torch.randn(90, 130)
    j = wb.trace(lambda x, w: torch.softmax(x @ w, -1), x, w, mapping={"k0_matmul_softmax": {"tile": tile}})
    assert j.check().ok


def test_a_tile_of_part_of_a_row_is_refused_by_name_and_widened_by_pattern():
    x, w = torch.randn(70, 90), torch.randn(90, 130)
    j = wb.trace(lambda x, w: torch.softmax(x @ w, -1), x, w)
    with pytest.raises(MappingError, match="reduced after the product, so a tile holds whole rows"):
        _ = j.with_(mapping={"k0_matmul_softmax": {"tile": {"n": 64}}}).scheduled.record
    (kernel,) = j.with_(mapping={"*": {"tile": {"n": 64}}}).scheduled.record.kernels
    assert kernel.mapping.tile["n"] == 130
    assert "widened from 64 to 130" in kernel.mapping.reason


REFUSED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str]] = {
    "a long other operand": (lambda x, w: F.relu(x) @ w, [(4, 8), (8, LONGEST + 1)], "more than 4,096"),
    "two tensors for one operand": (lambda x, y, w: (x + y) @ w, [(9, 8), (9, 8), (8, 1024)], "more than is saved"),
    "many operations": (
        lambda x, w: F.gelu(F.gelu(F.gelu(F.gelu(x)))) @ w, [(9, 8), (8, 300)], "longer than the product",
    ),
    "one value as both operands": (lambda x: (y := x.relu()) @ y, [(8, 8)], BOTH_SIDES),
    "read after it as well": (lambda x, w: (y := x.relu()) @ w + y, [(8, 8), (8, 8)], BOTH_SIDES),
    "a broadcast operand": (lambda x, w: F.relu(x).expand(6, 8) @ w, [(1, 8), (8, 8)], "strides"),
    "a reduction before": (lambda x, w: torch.softmax(x, -1) @ w, [(8, 8), (8, 8)], "only pointwise ops run on"),
    "a convolution in groups": (
        lambda x, w: F.conv2d(F.relu(x), w, groups=2), [(1, 4, 8, 8), (4, 2, 1, 1)], IN_GROUPS,
    ),
    "the weight of one channel": (
        lambda x, w: F.conv2d(x, w * 2), [(1, 1, 8, 8), (4, 1, 3, 3)], IN_GROUPS,
    ),
    "a padded convolution of points": (
        lambda x, w: F.conv2d(F.relu(x), w, padding=1), [(1, 4, 8, 8), (4, 4, 1, 1)], OF_WINDOWS,
    ),
    "a convolution of many channels": (
        lambda x, w: F.conv2d(F.relu(x), w), [(1, 4, 3, 3), (LONGEST + 1, 4, 1, 1)], "more than 4,096",
    ),
    "a convolution": (lambda x, w: F.conv2d(F.relu(x), w), [(1, 2, 8, 8), (4, 2, 3, 3)], OF_WINDOWS),
    "columns": (lambda x, w: torch.softmax(x @ w, 0), [(8, 8), (8, 8)], ROWS_ONLY),
    "all of it": (lambda x, w: (x @ w).sum(), [(8, 8), (8, 8)], ROWS_ONLY),
    "rows too long": (lambda x, w: torch.softmax(x @ w, -1), [(512, 768), (768, 20000)], FULL),
    "many short rows": (lambda x, w: (x @ w).amax(-1), [(4096, 8), (8, 16)], FULL),
    "rows of another tensor": (
        lambda x, w, c: x @ w + c.sum(-1, keepdim=True), [(8, 8), (8, 8), (8, 8)], "of another tensor",
    ),
}  # fmt: skip


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why_and_is_right(name: str):
    function, shapes, said = REFUSED[name]
    j = wb.trace(function, *(torch.randn(shape) for shape in shapes))
    assert len(kernels(j)) > 1
    assert any(said in reason for reason in reasons(j)), reasons(j)
    if max(map(max, shapes)) < 10000:
        assert j.check().ok


def test_a_part_of_what_follows_does_not_stay_with_the_product_when_the_rest_has_no_room():
    inputs = [torch.empty(512, 768), torch.empty(768, 3072)]
    j = wb.trace(lambda x, w: torch.softmax(x @ w, -1), *inputs)
    assert kernels(j) == ["k0_matmul", "k1_softmax"]


@pytest.mark.test_all
def test_a_machine_with_less_room_groups_anew_and_another_does_not():
    x, w = torch.randn(64, 256), torch.randn(256, 512)
    j = wb.trace(lambda x, w: torch.softmax(x @ w, -1), x, w)
    small = j.with_(machine="edge-8x8")
    assert (len(kernels(j)), len(kernels(small))) == (1, 2)
    assert len(kernels(small.with_(machine="tpu-v3"))) == 1
    assert small.check().ok
    plain = wb.trace(lambda x, w: torch.relu(x @ w), x, w)
    other = plain.with_(machine=plain.machine.with_(systolic_rows=64))
    assert other.lowered.record is plain.lowered.record


W = (24, 32)
X = (2, 16, 32)
BEHIND: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], int]] = {
    "an activation of sequences": (lambda x, w: F.linear(torch.relu(x), w), [X, W], 1),
    "a converted weight": (lambda x, w: F.linear(x, w.to(torch.float16).float()), [X, W], 1),
    "both in bf16": (lambda x, w: F.linear(x.bfloat16(), w.bfloat16()), [X, W], 1),
    "a turned operand": (lambda x, w: x @ torch.relu(w + 1).t(), [X[1:], W], 1),
    "a turned batch": (lambda x, w: torch.bmm(x, torch.tanh(w).transpose(1, 2)), [X, (2, 24, 32)], 1),
    "softmax of sequences": (lambda x, w: torch.softmax(F.linear(x, w), -1), [X, W], 1),
    "norm of a residual": (lambda x, w, r: F.layer_norm(F.linear(x, w) + r, (24,)), [X, W, (2, 16, 24)], 1),
    "root mean square": (
        lambda x, w: (y := F.linear(x, w)) * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5), [X, W], 1,
    ),
    "sum of sequences": (lambda x, w: F.linear(x, w).sum(-1), [X, W], 1),
    "scores of heads": (lambda q, k: torch.softmax(q @ k.mT * 0.2, -1), [(2, 3, 8, 16), (2, 3, 9, 16)], 1),
    "an activation that is returned": (lambda x, w: (y := torch.relu(x), F.linear(y, w)), [X, W], 2),
    "an activation that is returned, of the shape of the product": (
        lambda x, w: (y := torch.relu(x), y @ w + 1), [W[1:] * 2, W[1:] * 2], 2,
    ),
    "an activation that another op reads": (lambda x, w: F.linear(y := torch.relu(x), w).sum() + y.sum(), [X, W], 3),
    "a weight with a scale a row": (lambda x, w, s: F.linear(x, w * s), [X, W, (24, 1)], 1),
    "a weight with a scale a column": (lambda x, w, s: F.linear(x, w * s), [X, W, (1, 32)], 1),
    "a turned batch with a scale": (
        lambda x, w, s: torch.bmm(x, (w * s).permute(0, 2, 1)), [X, (2, 24, 32), (2, 24, 1)], 1,
    ),
    "a bias along the rows": (lambda x, w, b: F.linear(x + b, w), [X, W, (32,)], 2),
}  # fmt: skip


@pytest.mark.test_all
@pytest.mark.parametrize("name", BEHIND)
def test_views_are_no_border_for_what_can_be_moved(name: str):
    function, shapes, count = BEHIND[name]
    j = wb.trace(function, *(torch.randn(shape) for shape in shapes))
    assert len(kernels(j)) == count, reasons(j)
    assert j.check().ok
    assert j.check(stage="rendered").ok


def test_a_chain_is_weighed_as_a_whole():
    """Its last op reads two tensors, the chain one."""
    j = wb.trace(lambda x, w: F.gelu(x) @ w, torch.randn(16, 24), torch.randn(24, 1100))
    assert kernels(j) == ["k0_gelu_matmul"]
    assert j.check().ok


def test_rules_that_are_off_move_nothing():
    x, w = torch.randn(X), torch.randn(W)
    j = wb.trace(lambda x, w: torch.softmax(F.linear(torch.relu(x), w), -1), x, w, fusion=APART)
    assert kernels(j) == ["k0_relu", "k1_linear", "k2_softmax"]
    shapes = [j.lowered.record.types[kernel.outputs[0]].shape for kernel in j.lowered.record.kernels]
    assert shapes == [X, (32, 24), (2, 16, 24)]


def test_a_single_number_made_of_a_product_has_no_rows():
    x, w = torch.randn(1), torch.randn(3, 1)
    assert wb.trace(lambda x, w: F.linear(x, w).std(0), x.bfloat16(), w.bfloat16()).check().ok
