"""Numbers that no float of a tensor's type equals, beside tensors: rounded where PyTorch rounds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import workbench as wb
from workbench.checking.widening import widened

HERE = [0.4, 0.1, -0.4, -0.1, 0.3, -0.3, 0.7, 1.3, 0.0, 3.0, 6.0, torch.nan, torch.inf, 65504.0]
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "eq": lambda x: x == 0.4, "ne": lambda x: x != 1.3, "le": lambda x: x <= 0.1, "gt": lambda x: x > 0.1,
    "ge": lambda x: x >= 0.4, "lt": lambda x: x < 0.4, "more than f16 has": lambda x: x < 1e6,
    "where": lambda x: torch.where(x == 0.4, x, -x), "clamped": lambda x: x.clamp_min(0.4) == 0.4,
    "filled": lambda x: x.masked_fill(x < 0, 0.7).eq(0.7), "as f64": lambda x: x.double() == 0.4,
    "a tensor without dims": lambda x: x == torch.tensor(0.4, dtype=torch.float64),
    "one of f32": lambda x: x > torch.tensor(0.1),
    "whole numbers": lambda x: torch.arange(16777215, 16777219) == 16777216.0,
    "hardshrink": lambda x: F.hardshrink(x, 0.4), "softshrink": lambda x: F.softshrink(x, 0.4),
    "threshold": lambda x: F.threshold(x, 0.4, 0.7), "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.4),
    "floor": lambda x: x // 0.1, "truncated": lambda x: torch.div(x, 0.1, rounding_mode="trunc"),
    "a number divided": lambda x: 0.4 // x, "a number's remainder": lambda x: 0.4 % x,
    "remainder": lambda x: x % 0.1, "fmod": lambda x: torch.fmod(x, 0.1),
}  # fmt: skip


def assert_same(mine: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.test_all
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_element_is_pytorchs(dtype: torch.dtype):
    x = torch.tensor(HERE, dtype=dtype)
    j = wb.trace(lambda x: tuple(each(x) for each in FUNCTIONS.values()), x)
    found: Any = j.run(x)
    for (name, function), mine in zip(FUNCTIONS.items(), found, strict=True):
        assert torch.equal(mine.double().nan_to_num(7), function(x).double().nan_to_num(7)), name
    assert j.check().ok


BOUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "clamp": lambda x: x.clamp(-0.3, 0.4), "clamp_max": lambda x: x.clamp_max(0.1),
    "hardshrink": lambda x: F.hardshrink(x, 0.4), "softshrink": lambda x: F.softshrink(x, 0.4),
    "threshold": lambda x: F.threshold(x, 0.4, 0.7), "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.4),
    "where": lambda x: torch.where(x == 0.4, x * 2, -x), "relu6": F.relu6,
}  # fmt: skip


@pytest.mark.test_all
@pytest.mark.parametrize("dtype", FLOATS[:3])
def test_gradients_at_the_bounds_are_pytorchs(dtype: torch.dtype):
    mine, theirs = (torch.nn.Parameter(torch.tensor(HERE[:11], dtype=dtype)) for _ in range(2))

    def of(x: Tensor) -> Tensor:
        weighed = (function(x).float().sum() * 4.0**place for place, function in enumerate(BOUNDED.values()))
        return sum(weighed, torch.zeros(()))

    def step() -> Tensor:
        loss = of(mine)
        loss.backward()
        return loss.detach()

    j = wb.trace(step, train=True)
    assert j.check().ok
    j.run()
    of(theirs).backward()
    assert mine.grad is not None and theirs.grad is not None
    assert_same(mine.grad, theirs.grad)


def test_the_reference_compares_as_the_function_is_written():
    x = torch.tensor([0.4, 0.1])
    with widened([x], torch.float64):
        assert x.dtype == torch.float32 and (x == 0.4).tolist() == [True, False]
        assert (x.double() + 0.0 >= 0.4).tolist() == [True, False]


@pytest.mark.parametrize("dtype", FLOATS[1:3])
def test_a_base_is_a_number_of_the_exponents_type(dtype: torch.dtype):
    x = torch.linspace(-4, 4, 33).to(dtype)
    assert_same(wb.trace(lambda x: 257**x, x).run(x), 257**x)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [-1.5, -0.5, 0.5, 2])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_a_threshold_of_whole_numbers_loses_its_fraction(limit: float, dtype: torch.dtype):
    x = torch.tensor([-3, -1, 0, 1, 2, 3, 100], dtype=dtype)
    j = wb.trace(lambda x: F.threshold(x, limit, 7), x)
    assert torch.equal(j.run(x), F.threshold(x, limit, 7)) and j.check().ok


@pytest.mark.parametrize("function", [torch.fmin, torch.fmax])
@pytest.mark.parametrize(
    "other", [torch.tensor(200), torch.tensor(3, dtype=torch.int32), torch.tensor(-1, dtype=torch.int8)]
)
def test_bytes_beside_a_tensor_without_dims_have_no_sign(function: Any, other: torch.Tensor):
    x = torch.tensor([0, 1, 5, 200, 250], dtype=torch.uint8)
    j = wb.trace(function, x, other)
    assert torch.equal(j.run(x, other), function(x, other)) and j.check().ok
