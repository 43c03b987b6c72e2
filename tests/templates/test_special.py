"""The shipped builders against PyTorch: corner values, odd shapes, broadcasting, element types, two machines."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import workbench as wb
from tests.flow import flow
from tests.replaying import replayed
from tests.simulated_records import simulate

CORNERS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    -math.nan,
    1e-45,
    1e-38,
    -3e-20,
    3e38,
    -2e38,
    2.5,
    -7.25,
)
MACHINES = ("tpu-v3", "edge-8x8")
ONE = {"erfc": torch.erfc, "signbit": torch.signbit, "angle": torch.angle}
TWO = {"hypot": torch.hypot, "copysign": torch.copysign}


def routes(made: object) -> set[str]:
    return {item.route for item in made.lowered.nodes}  # pyright: ignore[reportAttributeAccessIssue]


def corners(count: int) -> tuple[torch.Tensor, ...]:
    """Every combination of corner values, as a matrix that no tile divides."""
    rows = torch.tensor(list(itertools.product(CORNERS, repeat=count)))
    return tuple(column.reshape(15, -1).contiguous() for column in rows.unbind(1))


@pytest.mark.test_all(but=8)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_corner_values(name: str, machine: str):
    function, inputs = (ONE | TWO)[name], corners(2 if name in TWO else 1)
    made = flow(function, inputs, machine=machine)
    assert routes(made) == {"builder"}
    result, expected = made.run(*inputs), function(*inputs)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=0, equal_nan=True)
    if expected.is_floating_point():
        known = ~expected.isnan()
        assert torch.equal(torch.signbit(result)[known], torch.signbit(expected)[known])


@pytest.mark.test_all(but=4)
@pytest.mark.sweep
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", [(1,), (7, 1, 13), (37, 53), (1000, 3)])
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_odd_shapes_through_the_full_path(name: str, shape: tuple[int, ...], machine: str):
    function = (ONE | TWO)[name]
    generator = torch.Generator().manual_seed(3)
    inputs = tuple(torch.randn(shape, generator=generator) for _ in range(2 if name in TWO else 1))
    made = flow(function, inputs, machine=machine)
    made.assert_matches_eager(*inputs)
    trace = simulate(made.lowered, made.scheduled, made.machine)
    trace.invariants()
    torch.testing.assert_close(replayed(made, trace, inputs)[0], function(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", TWO)
def test_operands_broadcast(name: str):
    inputs = torch.randn(33, 1, 20), torch.randn(17, 1)
    flow(TWO[name], inputs).assert_matches_eager(*inputs)


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_other_floats_are_rounded_as_pytorch_rounds(name: str, dtype: torch.dtype):
    function = (ONE | TWO)[name]
    inputs = tuple(torch.randn(21, 34).to(dtype) for _ in range(2 if name in TWO else 1))
    torch.testing.assert_close(flow(function, inputs).run(*inputs), function(*inputs))


@pytest.mark.test_all(but=6)
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
@pytest.mark.parametrize("name", ["erfc", "signbit", "angle", "copysign"])
def test_integers_are_promoted_as_pytorch_promotes(name: str, dtype: torch.dtype):
    function = (ONE | TWO)[name]
    inputs = tuple(torch.randint(-3, 200, (9, 11)).to(dtype) for _ in range(2 if name in TWO else 1))
    torch.testing.assert_close(flow(function, inputs).run(*inputs), function(*inputs))


@pytest.mark.parametrize("sign", [-0.0, 2, -3.5])
def test_the_sign_of_a_number(sign: float):
    x = torch.tensor(CORNERS)
    torch.testing.assert_close(
        flow(lambda x: torch.copysign(x, sign), (x,)).run(x), torch.copysign(x, sign), equal_nan=True
    )


def test_they_share_a_kernel_with_their_neighbours():
    x, y = torch.randn(40, 48), torch.randn(40, 48)
    journey = wb.trace(lambda x, y: torch.softmax(torch.hypot(x, y) * 2, -1), x, y)
    assert len(journey.lowered.kernels) == 1
    assert journey.check().ok
    assert set(journey.rendered.kernels[0].record.absorbed) == set()
    by_op = journey.simulated.by_op
    assert {"aten.hypot.default", "aten.mul.Tensor", "aten.softmax.int"} <= set(by_op.op)
