"""Sorting and selecting: shapes, both directions, ties, NaNs, element types, rows that do not fit."""

from __future__ import annotations

import math

import pytest
import torch

import workbench as wb
from tests.agreement import agrees, replays, together

SHAPES = [((), 0), ((1,), 0), ((37,), 0), ((33, 7), 0), ((3, 1, 17), -1), ((2, 3, 4, 5), 1), ((2, 2, 1, 3, 9), 4)]
RUNS = [*((*case, "edge-8x8") for case in SHAPES), ((40, 130), -1, "tpu-v3")]


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize(("shape", "dim", "machine"), RUNS, ids=str)
def test_shapes(shape: tuple[int, ...], dim: int, machine: str):
    k = (shape[dim] + 1) // 2 if shape else 1
    functions = [
        lambda x: tuple(x.sort(dim)),
        lambda x: tuple(torch.sort(x, dim=dim, descending=True, stable=True)),
        lambda x: x.argsort(dim, descending=True),
        lambda x: tuple(x.topk(k, dim)),
        lambda x: tuple(x.topk(k, dim, largest=False)),
        lambda x: tuple(x.kthvalue(k, dim, keepdim=True)),
        lambda x: tuple(x.median(dim)),
    ]
    agrees(together(functions), torch.randn(shape), machine=machine)


@pytest.mark.test_all
def test_of_everything_and_strided():
    x = torch.randn(9, 33)
    agrees(lambda x: (x.median(), torch.msort(x), tuple(x.t().sort(0)), tuple(x[1:, ::2].sort(0, descending=True))), x)


@pytest.mark.parametrize("descending", [False, True])
def test_equal_numbers_keep_their_order_and_nan_is_the_largest(descending: bool):
    nan, inf = math.nan, math.inf
    rows = [
        [1.0, 3, 3, 0, 3, 1],
        [2, nan, 9, nan, inf, 2],
        [-inf, nan, -inf, inf, nan, -inf],
        [0.0, -0.0, 0, -0.0, 1, 0],
    ]
    agrees(lambda x: tuple(torch.sort(x, dim=1, stable=True, descending=descending)), torch.tensor(rows))
    agrees(lambda x: tuple(torch.sort(x, dim=0, stable=True, descending=descending)), torch.tensor(rows))


def test_the_median_of_a_row_with_nan_is_nan():
    x = torch.tensor([[1.0, math.nan, 3, math.nan], [4, 2, 3, 1]])
    agrees(lambda x: tuple(x.median(1)), x)


@pytest.mark.test_all
@pytest.mark.parametrize(("length", "descending"), [(201, False), (128, True)])
def test_long_rows_are_sorted_in_blocks_and_blocks_merged(length: int, descending: bool):
    x = torch.randn(2, length)
    agrees(lambda x: tuple(x.sort(1, descending)), x, mapping={"*": {"tile": {"d0": 1, "d1": 32}}})


def test_the_best_of_a_long_row_are_found_in_passes():
    agrees(lambda x: tuple(x.topk(9, 1)), torch.randn(3, 101), mapping={"*": {"tile": {"d0": 2, "d1": 32}}})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int16])
def test_numbers_of_16_bits_are_widened_once_where_lanes_have_none_so_narrow(dtype: torch.dtype):
    numbers = torch.randint(-9, 9, (4, 300)).to(dtype)
    if dtype.is_floating_point:
        numbers[1, ::7], numbers[2, 5], numbers[3, 0] = math.nan, -0.0, -math.inf
    split = {"*": {"tile": {"d0": 2, "d1": 64}}}
    for narrow in (lambda x: tuple(torch.sort(x, dim=1, stable=True)), lambda x: x.topk(9, 1).values):
        agrees(narrow, numbers, machine="tpu-v3")
    agrees(
        lambda x: tuple(torch.sort(x, dim=1, stable=True, descending=True)), numbers, machine="tpu-v3", mapping=split
    )
    wide = numbers.float() if dtype.is_floating_point else numbers.int()
    ours, theirs = (wb.trace(lambda x: x.sort(1), each, machine="tpu-v3") for each in (numbers, wide))
    assert theirs.simulated.cycles / 2 < ours.simulated.cycles < theirs.simulated.cycles * 1.1


def test_a_long_row_is_searched_in_the_parts_that_take_the_fewest_cycles():
    x = torch.randn(1, 20000)
    j = wb.trace(lambda x: x.topk(20)[0], x, machine="edge-8x8")
    width = j.scheduled.mappings["k0_topk"]["tile"]["d1"]
    by_hand = (j.with_(mapping={"*": {"tile": {"d0": 1, "d1": each}}}).simulated.cycles for each in (128, 8192))
    assert 128 < width < 8192 and j.simulated.cycles < min(by_hand)
    agrees(lambda x: x.topk(20).values, x)


@pytest.mark.test_all
def test_in_the_order_of_the_trace():
    replays(lambda x: tuple(x.sort(1)), torch.randn(5, 33))
    replays(lambda x: tuple(x.topk(3, 0)), torch.randn(12, 5))
