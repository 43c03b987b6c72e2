"""Results that are memory of inputs or of each other, and changes in place: exactly as PyTorch leaves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from tests.eager import Make, same_as_eager
from workbench.ground import errors

R = torch.randn
Case = tuple[Callable[..., Any], Make]


def all_of(cases: dict[str, Case]) -> Case:
    """One program of many, since each trace takes its time: a dict of their results, from a dict of their inputs."""

    def program(given: dict[str, Any]) -> dict[str, Any]:
        return {name: function(*given[name]) for name, (function, _) in cases.items()}

    return program, lambda: ({name: make() for name, (_, make) in cases.items()},)


def square() -> tuple[torch.Tensor]:
    return (R(3, 4),)


def a_result_and_its_parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x + 1
    return y, y.t(), y[0], y


def parts_alone(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x + 1
    return y[0], y[1:]


def a_result_changed_through_its_part(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    part = y[1].mul_(3)
    return y, part, y.add_(1)


RETURNED: dict[str, Case] = {
    "the input itself": (lambda x: (x, x + 1), square),
    "views of the input": (lambda x: (x.t(), x[1:, ::2], x.view(-1), x.detach(), x.reshape(2, 6)), square),
    "views of a slice": (lambda x: (x.t(), x[0], x), lambda: (R(6, 8)[2:5, ::2],)),
    "a result and its parts": (a_result_and_its_parts, square),
    "parts alone": (parts_alone, square),
    "split": (lambda x: (x.chunk(2), (x * 2).unbind(0)), lambda: (R(4, 3),)),
    "expanded": (lambda x: (x.expand(4, 3), (x * 2).expand(4, 3)), lambda: (R(1, 3),)),
    "nothing to do": (lambda x: (x.contiguous(), x.to(torch.float32), F.dropout(x, 0.5, False)), square),
    "a copy is none": (lambda x: (x.clone(), x.t().contiguous(), x.reshape(4, 3).t().reshape(-1)), square),
    "changed through its part": (a_result_changed_through_its_part, square),
    "one number": (lambda x: (x.view(1), x * 2), lambda: (R(()),)),
}


@pytest.mark.test_all
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_results_lie_where_pytorch_has_them(capture: str):
    same_as_eager(*all_of(RETURNED), capture=capture, hosted=None)


def _and_return(change: Callable[..., object]) -> Callable[..., Any]:
    def changed(x: torch.Tensor, *more: Any) -> torch.Tensor:
        change(x, *more)
        return x

    return changed


def _assign(x: torch.Tensor, y: torch.Tensor) -> None:
    x[1:3] = y
    x[:, 1] = 7.0
    x[::2, 1:] = x[::2, 1:] * 2


def _swap(x: torch.Tensor, y: torch.Tensor) -> None:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


def _old_and_new(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    old, view = x.clone(), x.t()
    x.add_(1)
    return old, view, x * 2


CHANGED: dict[str, Case] = {
    "added to": (lambda x: x.add_(1), square),
    "and not returned": (lambda x: (x.add_(1), None)[1], square),
    "one after the other": (lambda x: F.relu_(x.mul_(2).sub_(1)), square),
    "what was read before": (_old_and_new, square),
    "a row": (lambda x: x[0].mul_(2), square),
    "through the transpose": (lambda x: (x.t().mul_(2), x), square),
    "flattened": (lambda x: x.view(-1).add_(1), square),
    "a slice of something larger": (lambda x: (x.add_(1), x.t()), lambda: (R(5, 7).t()[1:, ::2],)),
    "copied": (lambda x, y: x.copy_(y * 2), lambda: (R(3, 4), R(4))),
    "copied into whole numbers": (lambda x, y: x.copy_(y * 3), lambda: (torch.zeros(5, dtype=torch.int32), R(5))),
    "copied from whole numbers": (lambda x, y: x.copy_(y), lambda: (R(5), torch.arange(5))),
    "parts assigned": (_and_return(_assign), lambda: (R(4, 3), R(2, 3))),
    "filled": (lambda x, y: (x.fill_(3), y.zero_()), lambda: (R(3), torch.ones(2, dtype=torch.int64))),
    "where positive": (lambda x: x.masked_fill_(x > 0, 1.5), square),
    "swapped": (_swap, lambda: (R(3), R(3))),
    "out": (lambda x, out: (torch.add(x, 1, out=out), torch.mm(x, x.t())), lambda: (R(3, 4), R(3, 4))),
    "halves": (lambda x: x.mul_(1.5), lambda: (R(5).bfloat16(),)),
    "nothing": (lambda x: x.add_(1), lambda: (R(0, 2),)),
}


@pytest.mark.test_all
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_changes_in_place_reach_the_same_tensors(capture: str):
    same_as_eager(*all_of(CHANGED), capture=capture, hosted=None)


def test_running_twice_changes_twice_and_checking_never():
    x, held = torch.zeros(3), torch.zeros(3)

    def count(x: torch.Tensor) -> None:
        x.add_(1)
        held.add_(x)

    journey = wb.trace(count, x, machine="edge-8x8")
    assert journey.check().ok
    assert (x.tolist(), held.tolist()) == ([0] * 3, [0] * 3)
    assert journey.run(x) is None and journey.run(x) is None
    assert (x.tolist(), held.tolist()) == ([2] * 3, [3] * 3)


def test_a_view_needs_the_strides_it_was_captured_with_and_the_tensor_itself_does_not():
    journey = wb.trace(lambda x: (x.add_(1), x[0]), R(3, 4), machine="edge-8x8")
    with pytest.raises(errors.InputMismatch, match=r"returns a view of x.*strides \[4, 1\].*given with \[1, 3\]"):
        journey.run(R(4, 3).t())
    itself = wb.trace(lambda x: x.add_(1), R(3, 4), machine="edge-8x8")
    x = torch.zeros(4, 3).t()
    assert itself.run(x) is x and x.sum() == 12


@pytest.mark.test_all
def test_memory_that_changes_its_shape_in_place_is_refused():
    changes = {"t_": lambda x: x.t_() + 1, "resize_": lambda x: x.resize_(2, 2) + 1, "unsqueeze_": _unsqueezed}
    for capture in ("dynamo", "export"):
        for method, change in changes.items():
            told = rf"gives an input another shape .* by {method} at .*test_result_aliases.py:\d+"
            with pytest.raises(errors.ReshapedInput, match=told):
                wb.trace(change, R(3, 4), capture=capture)
    with pytest.raises(errors.ReshapedInput, match=r"gives out the shape 3xf32.*it has 0xf32"):
        wb.trace(lambda x, out: torch.add(x, 1, out=out), R(3), R(0), capture="export")


def _unsqueezed(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze_(0) + 1


def test_memory_that_changes_its_shape_after_a_break_is_refused_and_put_back():
    held = torch.arange(6.0).reshape(2, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print(end="")
        return held.t_() + y

    with pytest.raises(errors.ReshapedInput, match="function gives held another shape"):
        wb.trace(function, R(3, 2))
    assert held.is_contiguous() and held.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_elements_that_share_memory_cannot_be_changed():
    with pytest.raises(errors.SharedElements, match=r"changes x in place.*strides \[0, 1\].*clone"):
        wb.trace(lambda x: x.add_(1), R(1, 3).expand(4, 3))
    same_as_eager(lambda x: x.add_(1), lambda: (R(1, 3).expand(1, 3),))


NORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "1d": (lambda: nn.BatchNorm1d(4), (5, 4)),
    "2d": (lambda: nn.BatchNorm2d(3), (2, 3, 4, 5)),
    "no weights": (lambda: nn.BatchNorm1d(4, affine=False), (5, 4, 3)),
    "no history": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (5, 4)),
}


@pytest.mark.test_all
@pytest.mark.parametrize("name", NORMS)
def test_batch_norm_in_training_keeps_count(name: str):
    make, shape = NORMS[name]
    torch.manual_seed(0)
    ours, theirs = make(), make()
    theirs.load_state_dict(ours.state_dict())
    journey = wb.trace(ours, R(shape), machine="edge-8x8")
    assert {node.route for node in journey.lowered.record.nodes} <= {"automatic", "view"}
    assert journey.check().ok
    for _ in range(2):
        x = R(shape) * 3 + 1
        with torch.no_grad():
            torch.testing.assert_close(journey.run(x), theirs(x), rtol=1e-4, atol=1e-4)
    for mine, reference in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(mine, reference)


@pytest.mark.test_all
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_inputs_that_lie_on_one_another_when_traced(capture: str):
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x[:2] + y[:2]

    both = R(6)
    for first, second in ((both[:4], both[2:]), (both, both), (both, both.view(2, 3).t()[1])):
        with pytest.raises(errors.SharedElements, match=r"changes x in place, and y shares its memory.*clone"):
            wb.trace(function, first, second, capture=capture)
    same_as_eager(function, lambda: (memory := R(6), (memory[:3], memory[3:]))[1], capture=capture)
    same_as_eager(lambda x, y: x * y.t(), lambda: (memory := R(3, 3), (memory, memory))[1], capture=capture)


def test_an_input_that_lies_on_a_tensor_which_the_function_changes():
    held = torch.zeros(4)

    def function(x: torch.Tensor) -> torch.Tensor:
        return held.add_(1) + x

    with pytest.raises(errors.SharedElements, match="changes held in place, and x shares its memory"):
        wb.trace(function, held[:])
    with pytest.raises(
        errors.CaptureFailed, match="closed-over tensor in place, which export cannot record: use capture='dynamo'"
    ):
        wb.trace(function, R(4), capture="export")


def test_a_call_whose_tensors_lie_on_one_another_is_refused_when_one_is_changed():
    def function(x, y):
        x.add_(1)
        return x + y

    journey = wb.trace(function, torch.randn(4), torch.randn(4), machine="edge-8x8")
    both = torch.randn(6)
    with pytest.raises(wb.errors.SharedElements, match=r"changes x in place, and y shares its memory"):
        journey.run(both[:4], both[2:])
    apart = torch.randn(8)
    expected = apart[:4] + 1 + apart[4:]
    assert torch.allclose(journey.run(apart[:4], apart[4:]), expected)
