"""Formulas that would lose their digits: near zero, far out, and in data whose mean is large."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import workbench as wb

Function = Callable[..., torch.Tensor]

# The function, its arguments and the true result, from mpmath.
NUMBERS: dict[str, tuple[Function, tuple[float, ...], float]] = {
    "expm1": (torch.expm1, (1e-8,), 1.0000000050000000167e-8),
    "expm1 of a denormal": (torch.expm1, (-1e-40,), -1e-40),
    "log1p": (torch.log1p, (1e-10,), 9.9999999995e-11),
    "elu": (F.elu, (-1e-9,), -9.999999995e-10),
    "celu": (lambda x: F.celu(x, 0.5), (-1e-9,), -9.99999999e-10),
    "selu": (F.selu, (-1e-9,), -1.7580993399672991e-9),
    "softplus": (F.softplus, (-30.0,), 9.3576229688393e-14),
    "logsigmoid": (F.logsigmoid, (40.0,), -4.248354255291589e-18),
    "mish": (F.mish, (-30.0,), -2.80728689065179e-12),
    "logaddexp": (torch.logaddexp, (0.0, -30.0), 9.3576229688393e-14),
    "logaddexp2": (torch.logaddexp2, (0.0, -60.0), 2.0**-60 / math.log(2)),
    # 1 + 2^-12 times 1 - 2^-12 is 1 - 2^-24, which a product alone rounds to 1.
    "exp2": (torch.exp2, (-60.0,), 2.0**-60),
    "addcmul": (torch.addcmul, (-1.0, 1 + 2.0**-12, 1 - 2.0**-12), -(2.0**-24)),
}  # fmt: skip


def one_kernel(functions: list[Function], inputs: list[tuple[torch.Tensor, ...]]) -> list[torch.Tensor]:
    """Runs all calls in the kernels of one trace."""
    counts = [len(each) for each in inputs]

    def every(*tensors: torch.Tensor) -> list[torch.Tensor]:
        left = iter(tensors)
        return [fn(*(next(left) for _ in range(count))) for fn, count in zip(functions, counts, strict=True)]

    given = [tensor for each in inputs for tensor in each]
    journey = wb.trace(every, *given, machine="edge-8x8", on_missing="error")
    return journey.run(*given)


@pytest.mark.test_all
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_digits_of_small_and_far_results(dtype: torch.dtype):
    inputs = [tuple(torch.tensor([x], dtype=dtype) for x in given) for _, given, _ in NUMBERS.values()]
    made = one_kernel([fn for fn, _, _ in NUMBERS.values()], inputs)
    for name, result in zip(NUMBERS, made, strict=True):
        given, true = NUMBERS[name][1:]
        rounded = tuple(float(torch.tensor(x, dtype=dtype)) for x in given)
        close = 4e-7 if dtype == torch.float32 else 1e-12
        slope = max(
            abs(a - b) / max(abs(a), 1e-300) for a, b in zip(given, rounded, strict=True)
        )  # of the input's rounding
        assert math.isclose(float(result), true, rel_tol=close + 2 * slope, abs_tol=2e-45), (name, float(result), true)


LARGE = 1e6
SMALL = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
"""Seven numbers whose squares about their mean add up to 28."""


@pytest.mark.test_all
@pytest.mark.parametrize("repeats", [1, 300])
def test_spread_of_data_far_from_zero(repeats: int):
    x = (LARGE + torch.tensor(SMALL)).repeat(repeats)[None]
    count, squares = 7 * repeats, 28.0 * repeats
    corrections = (0, 1, 2)
    functions: list[Function] = [lambda x, c=c: torch.var(x, 1, correction=c) for c in corrections]
    functions += [lambda x, c=c: torch.std(x, 1, correction=c) for c in corrections]
    functions += [lambda x: torch.var_mean(x, 1)[0], lambda x: torch.std_mean(x, 1)[0], lambda x: torch.var(x)[None]]
    made = one_kernel(functions, [(x,)] * len(functions))
    spreads = [squares / (count - c) for c in corrections]
    true = [*spreads, *map(math.sqrt, spreads), spreads[1], math.sqrt(spreads[1]), spreads[1]]
    assert [float(each) for each in made] == pytest.approx(true, rel=1e-6)


def test_a_constant_row_has_no_spread():
    x = torch.full((1, 300), 0.1)
    made = one_kernel([lambda x: torch.var(x, 1), lambda x: torch.std(x, 1)], [(x,), (x,)])
    assert [float(each) for each in made] == [0.0, 0.0]


def test_quotients_of_f16_are_rounded_once():
    """f16 has no 1/3; rounded before it is taken from that, it would be gone."""
    third, one, three = (torch.tensor([x], dtype=torch.float16) for x in (-1 / 3, 1.0, 3.0))
    (made,) = one_kernel([torch.addcdiv], [(third, one, three)])
    assert float(made) == pytest.approx(1 / 3 - 0.333251953125, rel=1e-3)


def test_powers_of_zero_and_infinity():
    half = torch.tensor([-math.inf, 4.0], dtype=torch.float16)
    x = torch.tensor([0.0, -0.0, 1e30, 2.0])
    made = one_kernel([lambda x: x**0.5, lambda x: x**-3, lambda x: x**-2.0], [(half,), (x,), (x[2:],)])
    assert made[0].tolist() == [math.inf, 2.0]
    assert made[1].tolist() == [math.inf, -math.inf, 0.0, 0.125]
    assert made[2].tolist() == [0.0, 0.25]


@pytest.mark.test_all
def test_zeros_keep_the_sign_that_pytorch_gives_them():
    zero, below = torch.tensor([0.0]), torch.tensor([-0.0])
    made = one_kernel(
        [torch.expm1, F.elu, F.celu, lambda x, y: torch.lerp(x, y, torch.ones(1))],
        [(below,), (below,), (below,), (zero, below)],
    )
    assert [math.copysign(1.0, float(each)) for each in made] == [-1.0] * 4
