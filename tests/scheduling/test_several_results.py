"""Kernels that store values on the way to their result: right, faster, and with a reason where they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from tests.flow import moved

APART = {"off": ["several results"]}
X = (48, 96)

JOINED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "a sum and its norm": (lambda x, r: (h := x + r, F.layer_norm(h, (96,))), [X, X]),
    "a chain": (lambda x: (h := x * 2, torch.relu(h + 1)), [X]),
    "three of a chain": (lambda x: (a := x * 2, b := torch.relu(a), b + 1), [X]),
    "a residual after a product": (
        lambda x, r, w: (h := F.linear(x, w) + r, F.layer_norm(h, (96,))), [X, X, (96, 96)],
    ),
    "of sequences": (lambda x, r, w: (h := F.linear(x, w) + r, F.layer_norm(h, (96,))), [(2, 24, 96)] * 2 + [(96, 96)]),
    "a batch of one": (lambda x: (h := x * 2, torch.softmax(h, -1)), [(1, 96)]),
    "exponentials": (lambda x: (e := torch.exp(x), e / e.sum(-1, keepdim=True)), [X]),
    "two types": (lambda x: (h := x * 2, (h > 0)), [X]),
    "one number": (lambda x: (h := x.sum() * 2, h + 1), [X]),
    "read by a later kernel": (lambda x, w: ((h := x + 1).sigmoid(), h @ w), [X, (96, 8)]),
}  # fmt: skip


def kernels(j: Any) -> list[str]:
    return [kernel.name for kernel in j.lowered.record.kernels]


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize("name", JOINED)
def test_a_kernel_of_several_results_is_right_and_faster(name: str, machine: str):
    torch.manual_seed(0)
    function, shapes = JOINED[name]
    inputs = [torch.randn(shape) for shape in shapes]
    j = wb.trace(function, *inputs, machine=machine)
    assert any(len(kernel.outputs) > 1 for kernel in j.lowered.record.kernels)
    assert j.check().ok
    assert j.check(stage="rendered").ok
    apart = j.with_(fusion=APART)
    assert len(kernels(apart)) > len(kernels(j))
    assert all(len(kernel.outputs) == 1 for kernel in apart.lowered.record.kernels)
    most = 1.0 if machine == "tpu-v3" else 1.01  # a launch costs nothing on edge-8x8, where products take the time
    assert j.simulated.trace.makespan < most * apart.simulated.trace.makespan


def test_every_result_is_stored_once_and_none_is_loaded_again():
    x, r = torch.randn(X), torch.randn(X)
    j = wb.trace(lambda x, r: (h := x + r, F.layer_norm(h, (96,))), x, r)
    (kernel,) = j.scheduled.record.kernels
    assert sorted(moved(kernel.program).values()) == [48 * 96 * 4] * 4


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("tile", [{"d0": 7}, {"d0": 10, "d1": 20}, {"d1": 1}])
def test_in_any_tiles(tile: dict[str, int]):
    x = torch.randn(30, 40)
    mapping = {"*": {"tile": tile}}
    assert wb.trace(lambda x: (h := x + 1, torch.softmax(h, -1)), x, mapping=mapping).check().ok


APART_ANYWAY: dict[str, tuple[Callable[..., Any], str]] = {
    "another op between them": (lambda x: (h := x + 1, x.cumsum(0), torch.relu(h)), "no other op between them"),
    "a copy": (lambda x: (h := (x + 1).t().clone(), h.sum(-1)), "with other strides"),
    "an operand of a product": (lambda x: (h := x + 1, torch.relu(h) @ x.t() + h.sum()), "on both sides of a product"),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", APART_ANYWAY)
def test_what_stays_apart_says_why(name: str):
    function, said = APART_ANYWAY[name]
    j = wb.trace(function, torch.randn(8, 8))
    reasons = [fusion.reason for fusion in j.lowered.record.fusions if not fusion.fused]
    assert any(said in reason for reason in reasons), reasons
    assert j.check().ok


def test_a_value_changed_in_place_and_read_through_a_view_is_right():
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y.add_(x)
        h = y * 2
        return h, h.t().contiguous() + 1, torch.relu(h) + y

    x, y = torch.randn(6, 6), torch.randn(6, 6)
    j = wb.trace(function, x, y)
    assert j.check().ok
    mine, theirs = y.clone(), y.clone()
    got, wanted = j.run(x, mine), function(x, theirs)
    for each, other in zip([*got, mine], [*wanted, theirs], strict=True):
        torch.testing.assert_close(each, other)


ENDS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "a value made twice beside one number": (
        lambda x, w: (x.tanh(), y := x.tanh(), z := y * 0.9, (y.asin() * w).sum() + (z.atanh() * w).sum()),
        [(4, 6), (4, 6)],
    ),
    "a product beside what is made of its other result": (
        lambda x, u, v, c: (x @ u + c, x @ v),
        [(8, 4), (4, 17), (4, 17), (8, 17)],
    ),
    "a value beside sums of a triangle, whose rows and columns have the same numbers": (
        lambda x: (x.tanh(), x.triu(1).sum(-1)),
        [(16, 16)],
    ),
    "the same the other way round": (lambda x, u, v, c: (x @ u, x @ v + c), [(8, 4), (4, 17), (4, 17), (8, 17)]),
}


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("name", ENDS)
def test_the_op_that_a_kernel_is_tiled_by_can_read_all_other_ends(name: str):
    function, shapes = ENDS[name]
    torch.manual_seed(0)
    j = wb.trace(function, *(torch.randn(shape) for shape in shapes))
    assert j.check().ok


def test_results_that_are_the_same_everywhere_are_made_in_loops_as_long():
    """MLIR folds what is at most itself to a constant, which reads nothing."""

    def function(x: torch.Tensor) -> Any:
        same = x.to(torch.int32)
        whole = (same <= x) | (same > 1)
        return whole, torch.isnan(same), whole.amax(0)

    j = wb.trace(function, torch.arange(7, dtype=torch.uint8), machine="edge-8x8")
    assert len(j.lowered.kernels) == 2
    assert j.check().ok


@pytest.mark.parametrize("machine", ["edge-8x8", "tpu-v3"])
def test_a_result_that_is_an_input_is_written_beside_a_reduction(machine: str):
    """Rounding whole numbers changes none, so that the kernel's result is its input, which it also reduces."""

    def rounded(x: torch.Tensor):
        whole = torch.round(x)
        return whole, whole.argmax(2)

    assert wb.trace(rounded, torch.randint(-9, 9, (8, 2, 4, 1)), machine=machine).check().ok
