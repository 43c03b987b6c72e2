"""Activations, arithmetic, choices, bits and divisions: corner values, shapes, element types, on two machines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from tests.agreement import agrees, replays, together

Function = Callable[..., torch.Tensor]

CORNERS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    6.0,
    1e-30,
    -3e5,
    88.0,
    -90.0,
)

ONE: dict[str, Function] = {
    "relu6": F.relu6, "celu": lambda x: F.celu(x, 0.7), "selu": F.selu, "mish": F.mish, "logsigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.1, 20.0), "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "rrelu": F.rrelu,
    "logit": lambda x: torch.logit(x, 0.1), "sinc": torch.sinc, "logit_swapped": lambda x: torch.logit(x, 0.7),
    "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
    "isposinf": torch.isposinf, "isneginf": torch.isneginf, "nan_to_num": lambda x: torch.nan_to_num(x, 7.0, 8.0),
    "square": torch.square, "deg2rad": torch.deg2rad, "rad2deg": torch.rad2deg, "sgn": torch.sgn,
    "round_decimals": lambda x: torch.round(x, decimals=2), "lerp": lambda x: torch.lerp(x, x * 2, 0.7),
    "clip": lambda x: x.clip(-1, 1.5), "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan,
    "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
    "log10": torch.log10, "trunc": torch.trunc, "round": torch.round, "frac": torch.frac,
    "masked_fill": lambda x: x.masked_fill(x > 0.3, -7.0), "where_number": lambda x: torch.where(x > 0, x, 2.0),
    "number_where": lambda x: torch.where(x > 0, 3.0, x), "numbers": lambda x: torch.where(x > 0, 1.0, -1.0),
    "remainder_number": lambda x: x % 0.7, "fmod_number": lambda x: torch.fmod(x, -0.7),
    "floor_number": lambda x: x // 0.7, "trunc_number": lambda x: torch.div(x, 0.7, rounding_mode="trunc"),
}  # fmt: skip
TWO: dict[str, Function] = {
    "fmax": torch.fmax, "fmin": torch.fmin, "atan2": torch.atan2, "remainder": torch.remainder, "fmod": torch.fmod,
    "floor_divide": torch.floor_divide, "truncated": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "true_divide": torch.true_divide, "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2,
    "xlogy": torch.xlogy, "heaviside": torch.heaviside, "clamp_tensor": lambda x, y: torch.clamp(x, y, y + 1),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5), "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=2),
    "lerp_tensor": lambda x, y: torch.lerp(x, y, torch.sigmoid(x)), "logical_xor": torch.logical_xor,
}  # fmt: skip
WHOLE: dict[str, Function] = {
    "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "number": lambda x, y: (x & 5) | 2,
    "remainder": torch.remainder, "fmod": torch.fmod, "floor": torch.floor_divide, "fmax": torch.fmax,
    "truncated": lambda x, y: torch.div(x, y, rounding_mode="trunc"), "by_number": lambda x, y: (x % 3) + x // 3,
    "masked_fill": lambda x, y: x.masked_fill(y > 3, 9), "logical_xor": torch.logical_xor,
    "isinf": lambda x, y: x.isinf(), "true_divide": lambda x, y: torch.div(x, y, rounding_mode=None),
    "tan": lambda x, y: torch.tan(x),
}  # fmt: skip


def corners(count: int) -> tuple[torch.Tensor, ...]:
    """Every combination of corner values, as a matrix that no tile divides."""
    values = torch.tensor(CORNERS)
    if count == 1:
        return (values.reshape(1, -1),)
    return values[:, None].expand(17, 17).contiguous(), values[None, :].expand(17, 17).contiguous()


@pytest.mark.test_all
@pytest.mark.parametrize(("functions", "count"), [(ONE, 1), (TWO, 2)], ids=["one", "two"])
def test_corner_values(functions: dict[str, Function], count: int):
    agrees(lambda *inputs: {name: function(*inputs) for name, function in functions.items()}, *corners(count))


SHAPES = [(1,), (33,), (7, 1), (3, 5, 17), (2, 3, 4, 33)]
RUNS = [*((shape, "edge-8x8") for shape in SHAPES), (SHAPES[-1], "tpu-v3")]


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize(("functions", "count"), [(ONE, 1), (TWO, 2)], ids=["one", "two"])
@pytest.mark.parametrize(("shape", "machine"), RUNS, ids=str)
def test_shapes(shape: tuple[int, ...], machine: str, functions: dict[str, Function], count: int):
    def everything(*inputs: torch.Tensor) -> torch.Tensor:
        made = [function(*inputs) for function in functions.values()]
        return sum(made[1:], made[0])

    agrees(everything, *torch.rand(2, *shape)[:count].unbind(), machine=machine)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8], ids=str)
def test_whole_numbers(dtype: torch.dtype):
    low = 0 if dtype == torch.uint8 else -100
    x = torch.randint(low, 127, (5, 33), dtype=dtype)
    y = torch.randint(1, 9, (5, 33), dtype=dtype) * torch.randint(1 if low == 0 else -1, 2, (5, 33)).sign().to(dtype)
    y[y == 0] = 3
    agrees(lambda x, y: {name: function(x, y) for name, function in WHOLE.items()}, x, y)


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8], ids=str)
def test_shifts(dtype: torch.dtype):
    x, by = torch.randint(0, 127, (5, 33), dtype=dtype), torch.randint(0, 12, (5, 33), dtype=dtype)
    if dtype != torch.uint8:
        x[0] *= -1
    agrees(together([torch.bitwise_left_shift, torch.bitwise_right_shift, lambda x, y: (x << 2) + (x >> 1)]), x, by)


@pytest.mark.test_all
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_other_floats(dtype: torch.dtype):
    x, y = torch.randn(5, 33).to(dtype), torch.randn(5, 33).to(dtype)
    names = ("celu", "mish", "logsigmoid", "masked_fill", "remainder_number", "lerp")
    pairs = ("fmax", "logaddexp", "atan2", "clamp_tensor")
    agrees(lambda x, y: ([ONE[name](x) for name in names], [TWO[name](x, y) for name in pairs]), x, y)


def test_truth():
    a, b = torch.rand(4, 33) > 0.5, torch.rand(33) > 0.5
    agrees(
        together([lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, torch.logical_xor, lambda a, b: ~a]), a, b
    )


@pytest.mark.test_all
def test_channels_and_halves():
    x = torch.randn(2, 6, 5)
    agrees(together([lambda x, w: F.prelu(x, w), lambda x, w: F.glu(x, 1)]), x, torch.rand(6))
    agrees(lambda x, w: F.prelu(x, w), torch.randn(7), torch.rand(1))


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("name", ["remainder", "floor_divide", "logaddexp", "xlogy"])
def test_in_the_order_of_the_trace(name: str):
    replays(TWO[name], torch.randn(5, 33), torch.randn(5, 33))


def test_dividing_whole_numbers_by_nothing_ends_no_process():
    """PyTorch refuses; a kernel cannot, and must not trap."""
    x, y = torch.tensor([5, -(2**63), 7]), torch.tensor([2, 3, 4])
    journey: Any = wb.trace(lambda x, y: (x // y, x % y), x, y)
    quotient, left = journey.run(x, torch.tensor([2, -1, 0]))
    assert quotient[:2].tolist() == [2, -(2**63)]
    assert left[:2].tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_bounds_of_logit_are_rounded_to_the_type_of_its_operand(dtype: torch.dtype):
    x = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0], dtype=dtype)
    (got,) = wb.trace(lambda x: torch.logit(x, 1e-3), x).run(x).unsqueeze(0)
    assert torch.equal(got, torch.logit(x, 1e-3))
