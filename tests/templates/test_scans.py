"""Scans: shapes, directions, element types, NaNs, rows that do not fit, and the order of the trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.agreement import agrees, replays, together

SCANS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: x.cumprod(dim),
    "logcumsumexp": lambda x, dim: x.logcumsumexp(dim),
    "cummax": lambda x, dim: tuple(x.cummax(dim)),
    "cummin": lambda x, dim: tuple(x.cummin(dim)),
}
SHAPES = [((), 0), ((1,), 0), ((37,), 0), ((33, 7), 0), ((3, 1, 17), 1), ((2, 3, 4, 5), -2), ((2, 2, 1, 3, 9), 4)]
RUNS = [*((*case, "edge-8x8") for case in SHAPES), ((40, 130), -1, "tpu-v3")]


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize(("shape", "dim", "machine"), RUNS, ids=str)
def test_shapes(shape: tuple[int, ...], dim: int, machine: str):
    agrees(lambda x: {name: scan(x, dim) for name, scan in SCANS.items()}, torch.randn(shape), machine=machine)


def test_strided_operands():
    agrees(lambda x: (x.t().cumsum(1), x[1:, ::2].cumsum(0), x.cumsum(1)[:, 3]), torch.randn(9, 33))


@pytest.mark.test_all
@pytest.mark.parametrize("name", ["cumsum", "cummax"])
def test_a_long_row_is_scanned_in_parts(name: str):
    """Each part goes on where the one before ended; the last one is shorter."""
    agrees(lambda x: SCANS[name](x, 1), torch.randn(2, 70_001) / 100, machine="edge-8x8")


@pytest.mark.test_all
def test_rows_of_rows_that_do_not_fit_start_afresh():
    agrees(lambda x: x.cumsum(1), torch.randn(3, 50, 300), mapping={"*": {"tile": {"d0": 2, "d1": 7, "d2": 128}}})


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8], ids=str)
def test_element_types(dtype: torch.dtype):
    x = torch.randint(0 if dtype == torch.uint8 else -3, 4, (6, 33)).to(dtype)
    functions = [SCANS["cumsum"], SCANS["cummax"], SCANS["cummin"]]
    agrees(lambda x: [scan(x, 1) for scan in functions], x)


@pytest.mark.test_all
def test_of_bools_and_to_another_type():
    x = torch.rand(5, 33) > 0.5
    agrees(together([lambda x: x.cumsum(1), lambda x: x.cumsum(0, dtype=torch.float32)]), x)
    agrees(lambda x: x.cumsum(0, dtype=torch.int32), torch.randint(-9, 9, (5, 33)))


def test_nan_infinities_and_the_last_of_equals():
    nan, inf = math.nan, math.inf
    rows = [
        [1.0, 3, 3, 0, 3, 1],
        [2, nan, 9, nan, 1, 2],
        [-inf] * 6,
        [inf, -inf, 1, inf, 1, 1],
        [-inf, 0, 1, inf, 2, 0],
    ]
    x = torch.tensor(rows)
    agrees(lambda x: [SCANS[name](x, 1) for name in ("cumsum", "logcumsumexp", "cummax", "cummin")], x)


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("name", ["cumsum", "cummax", "logcumsumexp"])
def test_in_the_order_of_the_trace(name: str):
    replays(lambda x: SCANS[name](x, 1), torch.randn(9, 33))


@pytest.mark.test_all
def test_products_of_stretches_too_small_or_too_large_for_the_type():
    """Which stretches of the factors are multiplied first is nobody's promise: `prod` and scans in pairs differ."""
    far = torch.tensor([[1e20, 1e-30, 1e-30, 1e20], [1e-30, 1e20, 1e20, 1e-30], [1e30, 1e30, 1e-30, 0]])
    agrees(lambda x: (x.cumprod(1), x.prod(1), x.prod(0), x.cumprod(0), x.prod(), x[0, 0].cumprod(0)), far)
    agrees(lambda x: (x.prod(1), x.cumprod(0)), torch.ones(3, 0))
