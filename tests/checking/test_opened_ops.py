"""Operators of the user's in a check: their checks of types and values pass as they did, and roundings are drawn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import workbench as wb
from tests.right_custom_ops import FAMILIES, run
from workbench.checking.drawn_roundings import Rounded, roundings_drawn
from workbench.checking.widening import widened


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("seed", [0, 3, 7, 11, 15, 19, 23, 27, 31, 35])
def test_right_operators_pass_and_wrong_ones_fail(seed: int):
    """A wrong one of each family, and as many right ones."""
    assert len(FAMILIES) == 9
    for wrong in (False, True):
        made = run(seed, wrong=wrong)
        assert not made.failed, made


@torch.library.custom_op("openedops::mixed", mutates_args=())
def mixed(x: Tensor, weight: Tensor) -> Tensor:
    y = x.float() * weight
    assert (x.dtype, weight.dtype, y.dtype, x.t().dtype) == (torch.bfloat16, torch.float32, torch.float32, x.dtype)
    return y.to(x.dtype)


@torch.library.custom_op("openedops::in_numpy", mutates_args=())
def in_numpy(x: Tensor) -> Tensor:
    array = x.numpy()
    if array.dtype != "float32":
        raise RuntimeError("only 32 bits")
    return torch.from_numpy(array * 3)


for _op in (mixed, in_numpy):
    _op.register_fake(lambda x, *_: torch.empty_like(x))


def test_an_operator_sees_the_types_it_is_written_in_and_is_computed_wide():
    x, weight = torch.randn(8, 8).bfloat16(), torch.randn(8)
    with widened([x, weight], torch.float64):
        made = mixed(x, weight)
        assert made.untyped_storage().nbytes() == 64 * 8
    assert made.dtype == torch.float64


def test_a_product_within_an_operator_is_the_one_outside_of_it():
    @torch.library.custom_op("openedops::product", mutates_args=())
    def product(x: Tensor, y: Tensor) -> Tensor:
        assert x.dtype == y.dtype == torch.float32
        return F.linear(x, y).relu()

    x, y = torch.randn(32, 512), torch.randn(32, 512)
    right = torch.relu(x.double() @ y.double().t())

    def spread(function: Any) -> float:
        draws = []
        for seed in range(8):
            with roundings_drawn(seed):
                draws.append((function(x, y).double() - right).square().mean())
        return float(torch.stack(draws).mean().sqrt())

    inside, outside = spread(product), spread(lambda x, y: F.linear(x, y).relu())
    assert 0.8 < inside / outside < 1.25


def test_an_operator_that_takes_32_bits_only_is_told_beside_the_reference():
    with pytest.warns(match="no route"):
        journey = wb.trace(lambda x: in_numpy(x) + 1, torch.randn(4, 4))
    check = journey.check()
    assert check.ok
    assert check.results[0].reference == "float64, openedops.in_numpy.default in float32"
    assert "reference in float64, openedops.in_numpy.default in float32" in check.text()


def test_an_operator_without_a_visible_inside_counts_as_a_librarys_function():
    x = torch.rand(1000) + 1
    with torch.no_grad(), Rounded(0):
        made = in_numpy(x)
    units = (made.double() - 3 * x.double()).abs() / (3 * x.double()) / torch.finfo(torch.float32).eps
    assert 0.5 < float(units.max()) < 5


def test_a_function_that_raises_with_other_roundings_is_compared_without_these_draws():
    def function(x: Tensor) -> Tensor:
        total = torch.softmax(x, -1)
        return total * (x @ x)

    calls: list[int] = []

    @torch.library.custom_op("openedops::asserting", mutates_args=())
    def asserting(x: Tensor) -> Tensor:
        calls.append(1)
        made = function(x)
        if not torch.equal(made, native):  # as by assert, which pytest would write out
            raise AssertionError("another answer")
        return made

    asserting.register_fake(lambda x: torch.empty_like(x))
    x = torch.randn(16, 16)
    native = function(x)
    with wb.ops.scope():

        @wb.ops.conversion("openedops.asserting.default")
        def other(info: Any) -> Any:
            (given,) = info.operands
            soft = info.call("aten._softmax.default", given, -1, False)
            larger = info.call("aten.mul.Scalar", info.call("aten.mm.default", given, given), 1.5)
            return info.call("aten.mul.Tensor", soft, larger)

        check = wb.trace(asserting, x).check()
    assert not check.ok  # wrong by half, and told so: not a raw AssertionError
    assert check.results[0].reference == "float32"
    assert len(calls) >= 4
