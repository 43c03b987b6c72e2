"""The comparison behind `j.check()`: what rounding explains, odd values, and what counts as a failure of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
import torch

from workbench.checking.check_report import Check
from workbench.checking.rounding_allowance import own_errors, spread
from workbench.checking.tensor_comparison import Pair, compare
from workbench.checking.wide_reference import Answers, Arithmetic
from workbench.operators.tensors.torch_literals import to_type


@dataclass
class Known:
    """Answers that are given: PyTorch's, the reference, and those with other roundings."""

    native: list[torch.Tensor]
    reference: list[torch.Tensor]
    runs: Sequence[torch.Tensor] = ()
    arithmetic: str = "float64"
    asked: list[int] = field(default_factory=list[int])

    def rounded(self, count: int) -> list[list[torch.Tensor]]:
        self.asked.append(count)
        return [[run] for run in self.runs[:count]]


def check(
    got: torch.Tensor,
    expected: torch.Tensor,
    native: torch.Tensor | None = None,
    runs: Sequence[torch.Tensor] = (),
    **tolerances: float,
) -> Check:
    """Beside one answer for all, or beside a reference and PyTorch's own."""
    own = expected if native is None else native
    return Check("scheduled", compare([Pair("y", got, to_type(own))], Known([own], [expected], runs), **tolerances))


def of(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Answers:
    """PyTorch's answers to a call."""

    def evaluate(arithmetic: Arithmetic) -> list[torch.Tensor]:
        copies = [tensor.clone() for tensor in inputs]
        with torch.no_grad(), arithmetic(copies):
            return [function(*copies).clone()]

    return Answers(evaluate)


def judged(got: torch.Tensor, answers: Answers, **tolerances: float) -> Check:
    return Check("scheduled", compare([Pair("y", got, to_type(answers.native[0]))], answers, **tolerances))


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


def test_a_given_tolerance_is_all_there_is_and_one_left_out_is_what_rounding_explains():
    one, near = torch.tensor([1.0]), torch.tensor([1.0 + 2**-23])
    assert check(near, one).ok and not check(near, one, rtol=0, atol=0).ok
    assert check(near, one, atol=0).ok and check(near, one, rtol=0).ok
    assert "(given), exceeded;" in check(near, one, rtol=0, atol=0).text()
    off = torch.tensor([1.001])
    assert not check(off, one).ok and check(off, one, rtol=1e-2).ok and check(off, one, atol=1e-2).ok
    assert not check(one, off, one, rtol=1e-6, atol=0).ok, "PyTorch's own answer is held to it, too"


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
    expected = torch.zeros(2, 3)
    (output,) = compare([Pair("y", torch.zeros(1, 3), to_type(expected))], Known([expected], [expected]))
    assert (output.max_abs, output.pytorch, output.bound, output.used) == (math.inf, 0.0, 0.0, math.inf)


def test_a_wrong_element_type_fails_although_the_values_agree():
    answer = check(torch.zeros(2, dtype=torch.float64), torch.zeros(2))
    assert not answer.ok
    assert "its element type is f64, expected f32" in answer.text()


def test_integers_must_agree_exactly():
    assert check(torch.tensor([3]), torch.tensor([3])).ok
    assert not check(torch.tensor([3]), torch.tensor([4])).ok
    large = torch.tensor([2**60])
    assert not check(large + 1, large).ok, "64 bits of a float do not tell these apart"


def test_a_choice_that_hangs_on_rounding_may_be_pytorchs_or_one_that_other_roundings_make():
    one, two, three, four = (torch.tensor([value]) for value in (1, 2, 3, 4))
    assert check(two, one, two).ok
    assert check(three, one, two, [one, three]).ok
    assert not check(four, one, two, [one, three]).ok


def test_an_empty_result_agrees():
    answer = check(torch.zeros(0, 4), torch.zeros(0, 4))
    assert answer.ok and answer.max_abs == 0.0 and answer.max_rel == 0.0


def test_relative_error_leaves_out_zeros():
    assert check(torch.tensor([1e-6, 1.1]), torch.tensor([0.0, 1.0])).max_rel == pytest.approx(0.1, rel=1e-5)


def test_the_outputs_frame_has_a_row_an_output_with_our_error_pytorchs_and_the_bound():
    frame = check(torch.ones(2), torch.zeros(2), torch.full((2,), 0.25)).outputs
    assert list(frame["output"]) == ["y"]
    assert list(frame["mismatches"]) == [0] and list(frame["ok"]) == [True]
    shown = frame.iloc[0]
    assert (shown["max_abs"], shown["pytorch"], shown["bound"], shown["used"]) == (1.0, 0.25, 1.0, 1.0)
    assert (shown["rule"], shown["reference"]) == ("4 x PyTorch's error", "float64")


def test_the_text_says_our_error_pytorchs_and_the_bound():
    text = check(torch.ones(2), torch.zeros(2), torch.full((2,), 0.25)).text()
    assert "error 1, PyTorch's 0.25, bound there 1 (4 x PyTorch's error), no element uses more than 100%" in text
    assert "reference in float64" in text


def test_both_parts_of_a_complex_number_count():
    expected = torch.complex(torch.ones(3), torch.ones(3))
    assert check(expected.clone(), expected).ok
    other = check(expected.conj(), expected)
    assert other.mismatches == 3 and other.max_abs == 2.0


def test_the_same_nan_is_no_distance_at_all():
    values = torch.tensor([1.0, torch.nan, torch.inf])
    found = check(values.clone(), values)
    assert found.ok and found.max_rel == 0.0


def test_an_overflow_of_pytorch_is_right_and_so_is_what_lies_beyond_it():
    """The reference is finite: 16 bits are not."""
    wide, half = torch.tensor([1e5, 1.0], dtype=torch.float64), torch.tensor([torch.inf, 1.0], dtype=torch.float16)
    answer = check(half.clone(), wide, half)
    assert answer.ok and answer.max_abs == 0.0
    assert not check(torch.tensor([-torch.inf, 1.0], dtype=torch.float16), wide, half).ok


def test_a_number_is_right_where_the_reference_is_one_though_pytorch_has_none():
    """Something overflowed on PyTorch's way to it."""
    wide, native = torch.tensor([-1.0, 1.0], dtype=torch.float64), torch.tensor([torch.nan, 1.0])
    assert check(torch.tensor([-1.0, 1.0]), wide, native).ok
    assert check(native.clone(), wide, native).ok
    assert not check(torch.tensor([-1.1, 1.0]), wide, native).ok


def test_draws_are_made_only_where_a_unit_and_pytorchs_error_do_not_suffice():
    near = Known([torch.ones(2)], [torch.ones(2)])
    compare([Pair("y", torch.ones(2) + 2**-23, to_type(torch.ones(2)))], near)
    assert near.asked == []
    far = Known([torch.ones(2)], [torch.ones(2)], [torch.ones(2)])
    compare([Pair("y", torch.ones(2) + 2**-22, to_type(torch.ones(2)))], far)
    assert far.asked == [2, 4, 8, 16, 32]


def test_one_unit_from_what_pytorch_has_is_right():
    unit = 2.0**-23
    native, exact = torch.tensor([1.5]), torch.tensor([1.5 - 0.3 * unit], dtype=torch.float64)
    assert check(native + unit, exact, native).ok
    assert not check(native + 2 * unit, exact, native).ok


def test_errors_that_are_parts_of_the_values_allow_small_ones_no_more_than_their_part():
    exact = torch.logspace(-3, 3, 40, dtype=torch.float64)
    allowed = own_errors(exact * (1 + 1e-6), exact)
    torch.testing.assert_close(allowed, 4e-6 * exact, rtol=1e-3, atol=0.0)


def test_an_element_without_an_error_says_nothing_of_the_others():
    exact, native = torch.ones(2, dtype=torch.float64), torch.tensor([1.125, math.nan], dtype=torch.float64)
    assert own_errors(native, exact)[0] == 4 * 0.125


def test_an_element_whose_draws_lie_close_together_gets_the_part_that_is_usual():
    exact = torch.logspace(-3, 3, 40, dtype=torch.float64)
    off = exact * 1e-6
    off[20] *= 1e-3
    found = spread([exact + off, exact - off], exact, torch.zeros_like(exact))
    torch.testing.assert_close(found, 6e-6 * exact, rtol=1e-3, atol=0.0)


def test_what_is_hopeless_is_not_drawn_for_again():
    zeros = [Pair("y", torch.zeros(2), to_type(torch.ones(2)))]
    for run in (torch.ones(2) * 1.00001, torch.ones(2)):
        answers = Known([torch.ones(2)], [torch.ones(2)], [run] * 8)
        compare(zeros, answers)
        assert answers.asked == [2, 4, 8]


def test_a_number_that_is_rounded_to_16_bits_on_the_way_may_be_the_same_in_the_first_draws():
    """One of two, however few units of the result's own type the others are off."""
    low, high = torch.tensor([7.7109375]), torch.tensor([7.7148438])
    runs = [low + 1e-6, low, low, low - 1e-6, high, low, low, high]
    answers = Known([low], [low], runs)
    assert compare([Pair("y", high, to_type(high))], answers)[0].ok
    assert answers.asked == [2, 4, 8]


def test_draws_that_change_nothing_by_chance_are_not_the_last():
    """Equal numbers, whose mean may be off by a rounding that the root of epsilon makes large."""
    answers = of(lambda x: torch.layer_norm(x.clone(), (3,)), torch.full((3,), 0.2))
    assert not any(bool(run[0].any()) for run in answers.rounded(1))
    assert judged(torch.full((3,), -4.7122e-6), answers).ok
    assert not judged(torch.full((3,), 1e-3), answers).ok


def test_a_few_elements_that_jump_do_not_excuse_the_others():
    """One element of a hundred falls on the other side of a step: zeros for all of them are still wrong."""
    wide = torch.linspace(1, 2, 100, dtype=torch.float64)
    native = wide.float()
    native[7] += 1
    assert check(native.clone(), wide, native).ok
    assert check(torch.zeros(100), wide, native).mismatches == 100


WIDE_SOFTMAX = torch.randn(2, 30_522, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("values", "dtype"), [(WIDE_SOFTMAX, torch.float32), (WIDE_SOFTMAX[:, :64], torch.bfloat16)], ids=["f32", "bf16"]
)
@pytest.mark.parametrize("wrong", [torch.zeros_like, lambda right: right * 1.05, lambda right: right.flip(1)])
def test_wrong_probabilities_are_seen_however_small_they_are(
    values: torch.Tensor, dtype: torch.dtype, wrong: Callable[[torch.Tensor], torch.Tensor]
):
    answers = of(lambda x: torch.softmax(x, -1), values.to(dtype))
    assert judged(answers.native[0], answers).ok
    assert not judged(wrong(answers.native[0]), answers).ok


def test_the_bound_follows_the_terms_that_were_summed():
    """A large term that cancels: both orders are right, and the same distance without it is not."""
    x = torch.tensor([[1e6, 1.25, 0.5, 1.1, -1e6]])
    large = of(lambda x: x.sum(1), x)
    backwards = ((((x[:, 4] + x[:, 3]) + x[:, 2]) + x[:, 1]) + x[:, 0]).clone()
    assert float((backwards - large.reference[0]).abs()) > 1e-3
    assert judged(backwards, large).ok
    small = of(lambda x: x[:, 1:4].sum(1), x)
    assert not judged(backwards, small).ok


def test_a_sum_of_many_equal_signs_may_be_added_one_by_one():
    x = torch.rand(1, 20_000, generator=torch.Generator().manual_seed(1))
    one_by_one = torch.tensor([x.numpy().cumsum(1, dtype="float32")[0, -1]])
    answers = of(lambda x: x.sum(1), x)
    assert judged(one_by_one, answers).ok
    assert not judged(one_by_one * 1.001, answers).ok


def test_a_product_may_be_rounded_before_a_bias_nearly_cancels_it():
    """PyTorch multiplies and adds in one step where the processor has one; kernels may take two."""
    x, w, bias = (torch.randn(17, 1, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 3))
    answers = of(lambda x: torch.addmm(bias[:, 0], x, w.t()), x)
    in_two = x * w.t() + bias[:, 0]
    assert judged(in_two, answers).ok
    assert not judged(in_two + 4 * (in_two - answers.reference[0].float()), answers).ok


def test_what_happens_within_a_norm_is_drawn_in_every_type():
    """The mean is rounded before it is taken away, so an element near it has the error of the mean."""
    x = torch.tensor([[0.3919, 1.7858, 1.0561]], dtype=torch.float64)
    answers = of(lambda x: torch.nn.functional.layer_norm(x, (3,)), x)
    assert judged(answers.native[0] + torch.tensor([[0.0, 0.0, 2**-52]]), answers).ok
    assert not judged(answers.native[0] + torch.tensor([[0.0, 0.0, 2**-45]]), answers).ok


@pytest.mark.parametrize("rows", [5, 20, 60, 80, 98])
def test_small_rows_are_not_measured_by_the_errors_of_large_ones(rows: int):
    x, w = torch.randn(100, 64) * torch.where(torch.arange(100) < rows, 1e4, 1e-4)[:, None], torch.randn(64, 32)
    answers = of(torch.matmul, x, w)
    zeroed, swapped = answers.native[0].clone(), answers.native[0].clone()
    zeroed[rows:] = 0
    swapped[rows:] = swapped[rows:].flip(0)
    for wrong in (zeroed, swapped, answers.native[0] * torch.where(torch.arange(100) < rows, 1, 1.01)[:, None]):
        found = judged(wrong, answers).outputs
        assert not found.ok.all() and found.mismatches[0] > 0.9 * (100 - rows) * 32 - 32
    in_other_order = (x.double().flip(1).float() @ w.flip(0)).clone()
    assert judged(in_other_order, answers)


def test_a_result_beside_a_larger_one_has_errors_of_its_own():
    x, w, z = torch.randn(100, 64) * 1e4, torch.randn(64, 32), torch.randn(500) - 8
    answers = of(lambda x, w, z: torch.cat([(x @ w).flatten(), torch.exp(z)]), x, w, z)
    wrong = answers.native[0].clone()
    wrong[-500:] = 0
    assert judged(wrong, answers).outputs.mismatches[0] == 500


def test_the_smallest_of_many_sums_are_allowed_what_the_others_are():
    """They lie near zero since terms cancel: their errors are as large as anybody's. No draws are needed for it."""
    for _ in range(20):
        x, w = torch.randn(64, 256), torch.randn(256, 64)
        reference, native = x.double() @ w.double(), x @ w
        known = Known([native], [reference])
        got = sum((x[:, k : k + 8] @ w[k : k + 8] for k in range(0, 256, 8)), torch.zeros(64, 64))
        assert compare([Pair("y", got, to_type(native))], known)[0].used < 2
