"""No gradient is lost in silence: a backward pass through the NPU gives PyTorch's, whatever else a graph does."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn

import workbench as wb
from workbench.ground.errors import NotYet

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


W = torch.full((3,), 2.0, requires_grad=True)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def mutates_another(x, total):
    total += 1
    return x * W


def in_place_inside(x, _):
    y = x * W
    y.mul_(2)
    return y


def no_grad_between(x, _):
    with torch.no_grad():
        y = x + 1
    return y * W


def enabled_inside(x, _):
    with torch.enable_grad():
        return x * W


def graph_break(x, _):
    y = x * W
    torch._dynamo.graph_break()
    return y + 1


def in_a_dict(x, _):
    return {"y": [x * W, x.int()]}["y"][0]


PROGRAMS: dict[str, Callable[..., torch.Tensor]] = {
    "another is changed": mutates_another,
    "changed on the way": in_place_inside,
    "no_grad on the way": no_grad_between,
    "a graph break": graph_break,
    "beside integers": in_a_dict,
    "a function with its own backward": lambda x, _: Double.apply(x * W),
    "a view of a result": lambda x, _: (x * W).view(3, 1)[1:],
    "detached and not": lambda x, _: (x * W).detach() + W,
}


def gradient(function: Callable[..., torch.Tensor], *given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The result of a call, and W's gradient after a backward pass through it and through W itself."""
    W.grad = None
    result = function(*given)
    assert result.requires_grad
    (result.sum() + (W * 3).sum()).backward()
    found, W.grad = W.grad, None
    return result.detach(), found


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_pytorch(name: str):
    compiled = torch.compile(PROGRAMS[name], backend="npu")
    for _ in range(2):
        given = torch.ones(3), torch.zeros(3)
        got, changed = gradient(compiled, *given), given[1].clone()
        given = torch.ones(3), torch.zeros(3)
        torch.testing.assert_close(got, gradient(PROGRAMS[name], *given))
        assert torch.equal(changed, given[1])
    assert [journey.check().ok for journey in wb.last_journeys()].count(True) >= 2


@pytest.mark.test_all
@pytest.mark.parametrize("inner", [nn.BatchNorm1d(4), nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))])
def test_batch_norm_in_training_counts_and_has_its_gradients(inner: nn.Module):
    theirs, x = copy.deepcopy(inner), torch.randn(5, 4)
    results = [function(x) for function in (torch.compile(inner, backend="npu"), theirs)]
    for result in results:
        result.pow(3).sum().backward()
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
    bn = inner if isinstance(inner, nn.BatchNorm1d) else inner[1]
    assert bn.num_batches_tracked == 1 and not bn.running_mean.requires_grad
    for mine, other in zip(
        inner.state_dict(keep_vars=True).values(), theirs.state_dict(keep_vars=True).values(), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
        if mine.requires_grad:
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_gradients_wanted_inside_of_no_grad():
    with torch.no_grad():
        result = torch.compile(enabled_inside, backend="npu")(torch.ones(3), None)
    W.grad = None
    result.sum().backward()
    assert torch.equal(W.grad, torch.ones(3))
    W.grad = None


def into_the_input(x, total):
    total.add_(x * W)
    return total * 2


def of_what_has_a_history(x, _):
    y = x
    y.mul_(3)
    return y.sum().detach()


@pytest.mark.test_all
@pytest.mark.parametrize(
    ("function", "given"),
    [
        (into_the_input, lambda: (torch.ones(3), torch.zeros(3))),
        (into_the_input, lambda: (torch.ones(3), torch.zeros(3, 2)[:, 0])),
        (of_what_has_a_history, lambda: (W * 1, None)),
    ],
)
def test_gradients_go_through_a_change_in_place(function, given):
    seen = []
    for called in (torch.compile(function, backend="npu"), function):
        W.grad = None
        x, total = given()
        result = called(x, total)
        changed = x if total is None else total
        assert changed.requires_grad
        (result.sum() + changed.pow(2).sum()).backward()
        seen.append((result.detach(), x.detach(), changed.detach(), W.grad))
    torch.testing.assert_close(*seen)
    W.grad = None


def test_a_leaf_may_be_changed_where_gradients_are_off():
    weight = torch.full((3,), 2.0, requires_grad=True)

    def decay(x):
        with torch.no_grad():
            weight.mul_(0.5)
        return x * weight

    result = torch.compile(decay, backend="npu")(torch.ones(3))
    assert weight.is_leaf and torch.equal(weight, torch.ones(3))
    result.sum().backward()
    assert torch.equal(weight.grad, torch.ones(3))


def test_what_has_no_gradients_in_pytorch_has_none_here():
    def function(x):
        y = x * W
        with torch.no_grad():
            inside = x * W
        return y.detach(), inside, y.argmax(), y > 0, W.detach(), W, W.view(1, 3), x

    got = torch.compile(function, backend="npu")(torch.ones(3))
    expected = function(torch.ones(3))
    assert [each.requires_grad for each in got] == [each.requires_grad for each in expected]
    assert got[5] is W
    (got[6] * 3).sum().backward()  # a view of what was given is PyTorch's own, and its gradient is right
    assert torch.equal(W.grad, torch.full((3,), 3.0))
    W.grad = None


@pytest.mark.test_all
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inference_is_as_it_was(mode: Callable[[], contextlib.AbstractContextManager[None]]):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    compiled = torch.compile(model, backend="npu")
    with mode():
        x = torch.randn(5, 4)
        result = compiled(x)
        assert not result.requires_grad and result.is_inference() == torch.is_inference_mode_enabled()
        model[1].running_mean.zero_()
        torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-4)


def test_the_same_function_with_and_without_gradients():
    compiled = torch.compile(nn.Linear(3, 3), backend="npu")
    with torch.no_grad():
        assert not compiled(torch.ones(2, 3)).requires_grad
    assert compiled(torch.ones(2, 3)).requires_grad
    with torch.no_grad():
        assert not compiled(torch.ones(2, 3)).requires_grad


def test_tangents_of_forward_mode_are_refused():
    compiled = torch.compile(lambda x: x * x, backend="npu")
    with forward_ad.dual_level():
        given = forward_ad.make_dual(torch.ones(3), torch.ones(3))
        with pytest.raises(NotYet, match="Forward-mode"):
            compiled(given)


def test_run_computes_as_without_gradients():
    model, x = nn.Linear(3, 3), torch.ones(2, 3, requires_grad=True)
    assert not wb.trace(model, x).run(x).requires_grad
    view, same, made = wb.trace(lambda x: (x.view(6), x, x * 2), x).run(x)
    assert not view.requires_grad and same is x and not made.requires_grad
    leaf = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        journey = wb.trace(lambda x: x.mul_(2), leaf)
    journey.run(leaf)
    assert leaf.is_leaf and torch.equal(leaf, torch.full((3,), 2.0))
