"""Programs that `torch.compile(backend="npu")` once ran wrong or not at all, and a sample of the table of all."""

from __future__ import annotations

import math
import random

import pytest
import torch

import workbench as wb
from tests.compiled_programs import PROGRAMS, judge
from workbench.ground import errors

FOUND = (
    *("float_argument", "float_returned", "many_values_of_a_float", "changing_global", "changing_attribute"),
    *("arithmetic_of_floats", "branch_on_a_float", "data_class", "dynamic_rows", "size_arithmetic", "shape_returned"),
    *("a_dozen_shapes", "cond", "while_loop", "transposed_in_place", "in_place_on_shared_memory", "subclass", "sparse"),
    *("lazy_inputs", "lazy_input_changed", "zero_tensor", "while_a_norm", "none_returned", "complex_argument"),
)
SAMPLE = random.Random(0).sample(sorted(set(PROGRAMS) - set(FOUND)), 3)

OF_OTHERS = {
    "power_of_a_float": "a number where aten.pow.Scalar has its first operand",
    "complex_numbers": "complex numbers in ops that have no kernel",
}
"""Programs that fail for reasons outside the backend, each with its reason."""


pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", [each for each in (*FOUND, *SAMPLE) if each not in OF_OTHERS])
def test_what_eager_runs_npu_runs(name: str):
    judged = judge(name)
    assert judged.verdict == "right", judged.detail


def test_a_graph_that_cannot_be_captured_is_told_and_can_be_refused():
    def both(x: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        part.mul_(2)
        return x + 1

    x = torch.ones(2, 3)
    with torch.no_grad():
        with pytest.warns(errors.HostRoute, match="on the host as a whole, because it cannot be captured: "):
            torch.compile(both, backend="npu")(x, x[1:])
        torch._dynamo.reset()
        with pytest.raises(errors.SharedElements):
            torch.compile(both, backend="npu", options={"on_missing": "error"})(x, x[1:])
        torch._dynamo.reset()


def test_every_option_of_a_trace_that_means_something_is_taken_and_checked():
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w) + 1

    given = torch.randn(8, 8), torch.randn(8, 8)
    options = {
        "machine": "tpu-v4", "resident": ["relu"], "placement": {"x": "local"}, "fusion": "none",
        "simulate_seconds": 60, "mapping": {"*": {"buffers": 1}}, "on_missing": "error", "prefer": None,
        "layout": {"x": (1, 0)},
    }  # fmt: skip
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(function, backend="npu", options=options)(*given), function(*given), rtol=1e-4, atol=1e-4
        )
    (journey,) = wb.last_journeys()
    assert len(journey.lowered.kernels) == 3 and (1, 0) in journey.lowered.layouts.order.tolist()
    assert journey.scheduled.residence.shape[0]
    for wrong, words in (
        ({"resident": "relu"}, "resident must be names"),
        ({"placement": 3}, "placement must be .* got 3"),
        ({"mapping": [1]}, "mapping must be"),
        ({"layout": "lest"}, "layout='lest' is no layout"),
        ({"on_missing": "hots"}, "on_missing must be 'host' or 'error', got 'hots'"),
        ({"simulate_seconds": -1}, "a time limit must be seconds"),
        ({"fusion": 3}, "fusion"),
        ({"machine": 3}, "machine must be"),
    ):
        torch._dynamo.reset()
        with pytest.raises(errors.WorkbenchError, match=words):
            torch.compile(function, backend="npu", options=wrong)(*given)


def test_kinds_of_call_are_kept_and_forgotten_in_turn():
    compiled = torch.compile(lambda x, s: x * s, backend="npu")
    with torch.no_grad():
        for value in (1.5, 2.5, 1.5, 3.5, 2.5):
            assert torch.equal(compiled(torch.ones(3), value), torch.full((3,), value))
    kept = wb.last_journeys()
    with torch.no_grad():
        compiled(torch.ones(3), 2.5)
    assert wb.last_journeys() == kept


@pytest.mark.test_all
def test_a_number_that_equals_another_is_not_the_other():
    """0.0 and -0.0 are equal, and so are 0 and False; NaN is not even equal to itself, and makes one journey."""
    compiled = torch.compile(lambda x, a: x * a, backend="npu")
    made = [(1 / compiled(torch.ones(1), a)).item() for a in (0.5, 0.25, 0.0, -0.0, math.nan, math.nan)]
    assert made[:4] == [2, 4, math.inf, -math.inf] and all(map(math.isnan, made[4:]))
