"""argmax and its kin, any, all, prod, norms and reductions with several results: shapes, ties, NaNs, element types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.agreement import agrees, replays, together

Function = Callable[..., Any]

ALONG: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "argmax": lambda x, dim: x.argmax(dim), "argmin": lambda x, dim: x.argmin(dim, keepdim=True),
    "max": lambda x, dim: tuple(x.max(dim)), "min": lambda x, dim: tuple(x.min(dim, keepdim=True)),
    "aminmax": lambda x, dim: tuple(x.aminmax(dim=dim)), "prod": lambda x, dim: x.prod(dim),
    "any": lambda x, dim: (x > 1).any(dim), "all": lambda x, dim: (x > -1).all(dim, keepdim=True),
    "count_nonzero": lambda x, dim: (x > 0).count_nonzero(dim), "logsumexp": lambda x, dim: x.logsumexp(dim),
    "nansum": lambda x, dim: x.nansum(dim), "var_mean": lambda x, dim: torch.var_mean(x, dim, keepdim=True),
    "norm": lambda x, dim: x.norm(dim=dim), "norm1": lambda x, dim: x.norm(1, dim),
    "norm3": lambda x, dim: x.norm(3, dim),
}  # fmt: skip
WHOLE: dict[str, Callable[[torch.Tensor], Any]] = {
    "argmax": torch.argmax, "argmin": torch.argmin, "prod": torch.prod, "any": lambda x: (x > 2).any(),
    "all": lambda x: (x > -9).all(), "aminmax": lambda x: tuple(x.aminmax()), "norm": torch.norm,
    "count_nonzero": torch.count_nonzero, "std_mean": torch.std_mean,
}  # fmt: skip
SHAPES = [((5,), 0), ((1,), 0), ((7, 33), 1), ((33, 7), 0), ((3, 1, 17), 1), ((2, 3, 4, 33), -2)]
RUNS = [*((*case, "edge-8x8") for case in SHAPES), ((40, 130), -1, "tpu-v3"), ((2, 3, 4, 33), 1, "tpu-v3")]


THIRDS = {third: [*ALONG][number::3] for number, third in enumerate(("first", "second", "third"))}


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize(("shape", "dim", "machine"), RUNS, ids=str)
def test_along_a_dim(shape: tuple[int, ...], dim: int, machine: str, third: str):
    tested = {name: ALONG[name] for name in THIRDS[third] if name != "var_mean" or shape[dim] > 1}
    x = torch.randn(shape)
    agrees(lambda x: {name: function(x, dim) for name, function in tested.items()}, x, machine=machine)


@pytest.mark.test_all
@pytest.mark.parametrize("shape", [(7,), (5, 33), (2, 3, 4, 5)], ids=str)
def test_of_everything(shape: tuple[int, ...]):
    agrees(lambda x: {name: function(x) for name, function in WHOLE.items()}, torch.randn(shape))


@pytest.mark.test_all
def test_several_dims():
    x = torch.randn(3, 4, 5, 6)
    orders = (0, 1, 2, math.inf, -math.inf)
    norms = [lambda x, o=o: torch.linalg.vector_norm(x, o, dim=(1, 3)) for o in orders]
    agrees(together([*norms, lambda x: (x > 0).any((0, 2)), lambda x: (x > -2).all((1, 2), keepdim=True)]), x)


def test_the_first_of_equals_and_nan_before_all_numbers():
    nan, inf = math.nan, math.inf
    x = torch.tensor(
        [[1.0, 3, 3, 0, 0], [nan, 9, nan, 1, 2], [-inf] * 5, [inf, inf, nan, 1, 1], [0.0, -0.0, 0, -0.0, 0]]
    )
    agrees(
        together([lambda x: x.argmax(1), lambda x: x.argmin(1), lambda x: x.argmax(0), torch.argmax, torch.argmin]), x
    )


def test_logsumexp_of_infinities_and_nothing_known():
    x = torch.tensor([[math.inf, 1.0], [-math.inf, -math.inf], [math.nan, 0.0], [1e4, 1e4]])
    agrees(lambda x: x.logsumexp(1), x)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.int8], ids=str)
def test_element_types(dtype: torch.dtype):
    x = torch.randint(0 if dtype == torch.uint8 else -120, 120, (6, 33)).to(dtype)
    functions = [lambda x: x.argmax(1), lambda x: x.argmin(0), lambda x: x.any(0), lambda x: x.all(1)]
    agrees(together([*functions, lambda x: (x % 3).prod(1)]), x)


@pytest.mark.test_all
def test_a_long_row_is_folded_in_parts():
    """On the small machine it does not fit; the place is that in the whole row."""
    x = torch.randn(2, 150_001)
    x[0, 140_000] = x[1, 77] = 99
    agrees(together([lambda x: x.argmax(1), lambda x: (x > 98).any(1)]), x)


def test_neighbours_share_the_kernel_of_a_place():
    made = agrees(lambda x: torch.exp(x * 2).argmax(1), torch.randn(7, 33))
    assert [kernel.kind for kernel in made.lowered.record.kernels] == ["reduction"]


@pytest.mark.parametrize("name", ["argmax", "max", "prod", "any"])
def test_in_the_order_of_the_trace(name: str):
    replays(lambda x: ALONG[name](x, 1), torch.randn(9, 33))
