"""Plain values are compared by type and bits: of inputs, of what objects hold, and of what a training step names."""

import cmath
import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.ground.errors import HostRoute, InputMismatch
from workbench.ir import Literal, codec
from workbench.operators.tensors.same_value import same_value

X = torch.tensor([1.0, -1.0])
NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NAN, math.inf - math.inf),
        (complex(NAN, 0.0), complex(NAN, 0.0)),
        (np.float32("nan"), np.float32("nan")),
        ([0.0, (NAN,)], [0.0, (math.inf - math.inf,)]),
        ({0.0, 1}, {1, 0.0}),
        ({"a": -0.0}, {"a": -0.0}),
        (torch.float32, torch.float32),
    ],
)
def test_the_same(one: object, other: object):
    assert same_value(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        (1.0, 1 + 0j),
        (complex(0.0, 0.0), complex(0.0, -0.0)),
        (np.float32(0.0), np.float32(-0.0)),
        (np.float32(1.0), np.float64(1.0)),
        ([0.0], [-0.0]),
        ((1,), (True,)),
        (frozenset({0.0}), frozenset({-0.0})),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (torch.float32, torch.float64),
    ],
)
def test_others(one: object, other: object):
    assert not same_value(one, other)


@dataclasses.dataclass
class Divisor:
    k: Any


class Plain:
    def __init__(self, k: object) -> None:
        self.k = k


@pytest.mark.parametrize(
    ("function", "holding"),
    [
        (lambda x, k: x / k, lambda k: k),
        (lambda x, given: x / given["k"][0], lambda k: {"k": [k]}),
        (lambda x, given: x / given.k, Divisor),
        (lambda x, given: x / given.k, Plain),
    ],
)
def test_a_zero_of_the_other_sign_is_refused_and_nan_is_taken(function: Any, holding: Any):
    journey = wb.trace(function, X, holding(-0.0))
    for verb in (journey.run, journey.check):
        with pytest.raises(InputMismatch, match=r"-0\.0.*0\.0"):
            verb(X, holding(0.0))
    assert torch.equal(journey.run(X, holding(-0.0)), torch.tensor([-math.inf, math.inf]))  # type: ignore[arg-type]
    undefined = wb.trace(function, X, holding(NAN))
    assert undefined.check(X, holding(math.inf - math.inf)).ok


@pytest.mark.parametrize("other", [True, 1.0, cmath.rect(1, 0)])
def test_one_is_neither_true_nor_a_float_nor_complex(other: Any):
    journey = wb.trace(lambda x, k: x * k, X, 1)
    with pytest.raises(InputMismatch, match="captured with the inputs"):
        journey.run(X, other)


def test_a_complex_zero_of_the_other_sign_is_refused_and_shown_as_written():
    with pytest.warns(HostRoute):
        journey = wb.trace(lambda x, k: x * k, X, 0j)
    with pytest.raises(InputMismatch, match=r"\(·, 0j\).*\(·, -0j\)"):
        journey.run(X, complex("-0j"))


def test_what_an_object_holds_in_a_set_is_compared_by_bits():
    journey = wb.trace(lambda x, given: x / sum(given.k), X, Plain(frozenset({-0.0})))
    with pytest.raises(InputMismatch, match=r"frozenset\({-0\.0}\).*frozenset\({0\.0}\)"):
        journey.run(X, Plain(frozenset({0.0})))


@pytest.mark.test_all
def test_a_training_step_refuses_a_zero_of_the_other_sign():
    model = torch.nn.Linear(2, 2)
    model.k = -0.0  # type: ignore[assignment]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.0)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) * model.k).sum()  # type: ignore[operator]
        loss.backward()
        optimizer.step()
        return loss

    journey = wb.trace(step, torch.randn(3, 2), train=True)
    model.k = 0.0  # type: ignore[assignment]
    with pytest.raises(InputMismatch, match=r"model\.k was -0\.0 .* is 0\.0 now"):
        journey.run(torch.randn(3, 2))
    model.k = -0.0  # type: ignore[assignment]
    optimizer.param_groups[0]["weight_decay"] = -0.0
    with pytest.raises(InputMismatch, match=r"weight_decay was 0\.0 .* is -0\.0 now"):
        journey.run(torch.randn(3, 2))


def test_literals_of_a_record_are_equal_by_bits_and_survive_a_file():
    zeros = {Literal("float", 0.0), Literal("float", -0.0), Literal("float", NAN), Literal("float", -NAN)}
    assert len(zeros) == 3
    for each in zeros:
        assert codec.decode(Literal, codec.encode(each)) == each
    assert Literal("float", 0.0) != Literal("int", 0) != Literal("bool", False)
