"""A seeded sample of the sweep of gradients is right; the page lists every call; the sweep sees a wrong gradient."""

from __future__ import annotations

import random

import pytest

from tests.gradients import FAMILIES
from tests.gradients.gradient_case import DTYPES, of
from tests.gradients.gradient_page import PATH, known
from tests.gradients.measured_gradient import measured
from tests.gradients.on_the_host import REASONS, REFUSED

ONCE_WRONG = ("multilabel_margin_loss", "adaptive_max_pool2d", "max_pool1d", "embedding_bag, max")
"""Calls that were wrong, or left to the host."""
CASES = {name: case for cases in FAMILIES.values() for name, case in cases.items()}


def _assert_right(name: str, dtype: str) -> None:
    found = measured(CASES[name], name, dtype)
    assert found is None or found.ok, found.problem
    assert found is None or all(op in REASONS for op in found.hosted), found.hosted


@pytest.mark.test_all
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_eager_and_of_differences(family: str, whole_sweep: bool):
    """A call of a family in f64, and of every third family one in another type; in a sweep all, in each type."""
    names = list(FAMILIES[family])
    if whole_sweep:
        for name in names:
            for dtype in DTYPES:
                _assert_right(name, dtype)
        return
    drawn = random.Random(family).sample(names, 2)
    _assert_right(drawn[0], "f64")
    if list(FAMILIES).index(family) % 3 == 0:
        _assert_right(drawn[1], "bf16" if CASES[drawn[1]].half else "f32")


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", ONCE_WRONG)
def test_what_once_was_wrong(name: str):
    _assert_right(name, "f64")


def test_the_page_lists_every_call_and_nothing_wrong():
    assert sum(map(len, FAMILIES.values())) == len(CASES)
    assert {family: list(rows) for family, rows in known().items()} == {
        family: list(cases) for family, cases in FAMILIES.items()
    }
    text = PATH.read_text()
    assert "| **" not in text
    assert {name for rows in known().values() for name, row in rows.items() if "refused" in row} == {*REFUSED}


def test_a_gradient_that_is_not_that_of_the_loss_is_seen():
    """PyTorch takes the detached factor for a constant; differences do not."""
    case = of(lambda x: x * x.detach(), (2, 3))
    found = measured(case, "held for constant", "f64")
    assert found is not None and "from differences" in found.problem and found.differences is not None
    assert found.differences > 0.1 and found.eager == 0.0
