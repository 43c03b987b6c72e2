"""Whole numbers are compared with a number in their own type, and with what PyTorch makes of a number beyond it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.flow import flow

COMPARED: tuple[Callable[[Any, Any], Tensor], ...] = (
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip


def here(dtype: torch.dtype) -> Tensor:
    info = torch.iinfo(dtype)
    around = {number + step for number in (0, 44, info.max // 2 + 1) for step in (-1, 0, 1)}
    inside = {each for each in around if info.min <= each <= info.max}
    return torch.tensor(sorted(inside | {info.min, info.min + 1, info.max - 1, info.max, 100}), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_a_comparison_with_a_number_is_no_operation_on_64_bits(dtype: torch.dtype):
    made = flow(lambda x: (x > 3, torch.sign(x)), [torch.arange(64).to(dtype)])
    assert all("i64" not in line for module in made.rendered for line in module.mlir.splitlines() if "cmpi" in line)
    for kernel in made.scheduled.kernels:
        assert not any(sum(op.wide_counts) for op in kernel.program.ops)


def test_bytes_are_compared_in_as_many_cycles_as_with_a_tensor_of_bytes():
    x = torch.randint(-100, 100, (256, 1024), dtype=torch.int8)
    number = wb.trace(lambda x: x > 3, x).simulated.cycles
    tensor = wb.trace(lambda x: x > torch.tensor(3, dtype=torch.int8), x).simulated.cycles
    assert number <= tensor


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_every_comparison_is_pytorchs_also_with_numbers_beyond_the_type(dtype: torch.dtype):
    info, x = torch.iinfo(dtype), here(dtype)
    numbers = (0, -1, info.min, info.max, info.max // 2 + 1, info.max + 1, info.min - 1, 300, -300)
    for number in numbers:
        flow(lambda x, n=number: tuple(each(x, n) for each in COMPARED), [x]).assert_matches_eager(x)


def test_truth_values_are_compared_as_0_and_1():
    x = torch.tensor([True, False])
    flow(lambda x: tuple(each(x, n) for n in (0, 1, 2, -1) for each in COMPARED), [x]).assert_matches_eager(x)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("number", [300, 70000, 2**32 + 44])
def test_a_tensor_without_dims_takes_the_type_of_the_other(dtype: torch.dtype, number: int):
    """PyTorch compares with the number that is left of it in this type."""
    x, beside = here(dtype), torch.tensor(number)
    made = flow(lambda x, y: tuple(each(x, y) for each in COMPARED), [x, beside])
    made.assert_matches_eager(x, beside)
