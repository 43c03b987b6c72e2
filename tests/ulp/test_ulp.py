"""A seeded sample of the sweep keeps the bound; the page lists every operator; the measure sees what it should."""

from __future__ import annotations

import math
import random
import re

import pytest
import torch

from tests.ulp.exceptions import EXCEPTIONS
from tests.ulp.measure import Exact, error, unit
from tests.ulp.overload_calls import OF_WHOLE, calls, overloads
from tests.ulp.page import PATH
from tests.ulp.ulp_sweep import DTYPES, sweep

ALWAYS = ("aten.expm1.default", "aten.log1p.default", "aten.elu.default", "aten.var.correction", "aten.lerp.Tensor")
"""Operators that once were beyond the bound."""


def drawn(count: int) -> list[tuple[str, str]]:
    """Overloads and a type each."""
    order = random.Random(0)
    names = order.sample(sorted(overloads() - OF_WHOLE - {*ALWAYS}), count)
    return [(name, order.choice(("f32", "f64", "f16"))) for name in names]


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize(("overload", "dtype"), [*((name, "f32") for name in ALWAYS), *drawn(16)])
def test_errors_are_within_the_bound(overload: str, dtype: str):
    (call,) = calls([overload])
    found = sweep(call, dtype, 4_000, seed=1)
    assert found is None or found.ok, f"{found.ours} units, PyTorch {found.native}: {found.worst}"


def test_every_operator_of_floats_is_swept_and_on_the_page():
    listed = set(re.findall(r"^\| `([\w.]+)`", PATH.read_text(), re.MULTILINE))
    assert listed == overloads() - OF_WHOLE
    assert set(EXCEPTIONS) <= listed


def test_the_unit_is_the_distance_of_neighbours():
    for dtype in DTYPES.values():
        limits = torch.finfo(dtype)
        at = torch.tensor([1.0, 1.5, 2.0, limits.smallest_normal, 0.0, limits.max], dtype=dtype)
        apart = torch.nextafter(at, torch.zeros_like(at)) - at
        assert unit(dtype, at)[:2].tolist() == [limits.eps] * 2
        assert unit(dtype, at)[3:5].tolist() == [limits.smallest_normal * limits.eps] * 2
        assert float(unit(dtype, at)[5]) == float(apart[5].abs())


def test_one_wrong_bit_zero_or_infinity_is_seen():
    true = torch.tensor([1.0, 3.0, 0.0, math.inf, -0.0])
    units = unit(torch.float32, true)
    assert error(true, true, Exact(true.double()), units).worst == 0
    for place, wrong, worst, kinds in (
        (1, float(torch.nextafter(true[1], true[3])), 1.0, 0),
        (2, -0.0, 0.0, 1),
        (4, 0.0, 0.0, 1),
        (0, math.nan, 0.0, 1),
    ):
        made = true.clone()
        made[place] = wrong
        found = error(made, true, Exact(true.double()), units)
        assert (found.worst, found.classes) == (worst, kinds)
