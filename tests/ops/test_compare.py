"""The comparison behind `j.check()`: tolerances, odd values, and what counts as a failure of its own."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.check import Check
from workbench.ops.compare import Pair, compare
from workbench.ops.literals import to_type


def check(got: torch.Tensor, expected: torch.Tensor, **tolerances: float) -> Check:
    return Check("scheduled", compare([Pair("y", got, expected, to_type(expected))], **tolerances))


def test_equal_tensors_agree_exactly():
    answer = check(torch.tensor([1.0, -2.0]), torch.tensor([1.0, -2.0]))
    assert answer.ok and answer
    assert (answer.max_abs, answer.max_rel, answer.mismatches, answer.first_bad) == (0.0, 0.0, 0, None)


@pytest.mark.parametrize(
    ("got", "agrees"),
    [(100.0 + 0.0100, True), (100.0 + 0.0102, False)],
    ids=["within atol + rtol * |expected|", "beyond it"],
)
def test_the_tolerance_adds_the_absolute_and_the_relative_part(got: float, agrees: bool):
    one, hundred = (torch.tensor([value], dtype=torch.float64) for value in (got, 100.0))
    assert check(one, hundred, rtol=1e-4, atol=1e-4).ok is agrees


def test_the_relative_part_is_of_the_expected_value_not_of_the_given_one():
    big, small = torch.tensor([2.0]), torch.tensor([1.0])
    assert check(small, big, rtol=0.5, atol=0).ok
    assert not check(big, small, rtol=0.5, atol=0).ok


def test_nan_and_infinity_agree_only_with_themselves():
    odd = torch.tensor([math.nan, math.inf, -math.inf])
    assert check(odd, odd.clone()).ok
    assert check(odd, torch.tensor([math.nan, math.inf, math.inf])).mismatches == 1
    answer = check(torch.tensor([math.nan, 1.0, math.inf]), torch.tensor([1.0, math.nan, 3.0]), atol=math.inf)
    assert answer.mismatches == 3
    assert answer.max_abs == math.inf


def test_the_first_bad_element_is_named_with_its_place():
    expected = torch.zeros(2, 3)
    got = expected.clone()
    got[1, 0], got[1, 2] = 0.5, 7.0
    answer = check(got, expected)
    assert answer.mismatches == 2
    assert answer.first_bad is not None
    assert (answer.first_bad.index, answer.first_bad.got, answer.first_bad.expected) == ((1, 0), 0.5, 0.0)
    assert "y[1, 0] is 0.5, expected 0" in answer.text()


def test_a_wrong_shape_fails_although_the_values_would_broadcast():
    answer = check(torch.zeros(1, 3), torch.zeros(2, 3))
    assert not answer.ok
    assert answer.mismatches == 6
    assert "its shape is (1, 3), expected (2, 3)" in answer.text()


def test_a_wrong_element_type_fails_although_the_values_agree():
    answer = check(torch.zeros(2, dtype=torch.float64), torch.zeros(2))
    assert not answer.ok
    assert "its element type is f64, expected f32" in answer.text()


def test_integers_must_agree_exactly():
    assert check(torch.tensor([3]), torch.tensor([3])).ok
    assert not check(torch.tensor([3]), torch.tensor([4])).ok


def test_an_empty_result_agrees():
    answer = check(torch.zeros(0, 4), torch.zeros(0, 4))
    assert answer.ok and answer.max_abs == 0.0 and answer.max_rel == 0.0


def test_relative_error_leaves_out_zeros():
    assert check(torch.tensor([1e-6, 1.1]), torch.tensor([0.0, 1.0])).max_rel == pytest.approx(0.1, rel=1e-5)


def test_half_precision_has_its_own_tolerance():
    expected = torch.ones(1)
    pair = Pair("y", torch.full((1,), 1.01, dtype=torch.bfloat16), expected, to_type(expected.to(torch.bfloat16)))
    assert Check("scheduled", compare([pair])).ok


def test_the_outputs_frame_has_a_row_an_output():
    frame = check(torch.ones(2), torch.zeros(2)).outputs
    assert list(frame["output"]) == ["y"]
    assert list(frame["mismatches"]) == [2]
    assert list(frame["ok"]) == [False]


def test_both_parts_of_a_complex_number_count():
    expected = torch.complex(torch.ones(3), torch.ones(3))
    (same,) = compare([Pair("z", expected.clone(), expected, to_type(expected))])
    (other,) = compare([Pair("z", expected.conj(), expected, to_type(expected))])
    assert same.ok and other.mismatches == 3 and other.max_abs == 2.0


def test_the_same_nan_is_no_distance_at_all():
    values = torch.tensor([1.0, torch.nan, torch.inf])
    (found,) = compare([Pair("y", values.clone(), values, to_type(values))])
    assert found.ok and found.max_rel == 0.0
