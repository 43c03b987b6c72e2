"""The reference of a check with 16-bit floats: PyTorch itself, in float32, and nothing of the user's stays changed."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo import eval_frame
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import workbench as wb
from workbench.checking.drawn_roundings import roundings_drawn
from workbench.ground.torch_inside.uncompiled_thread import uncompiled_here


class Counting(nn.Module):
    """A cell behind another layer, a buffer that is added to, and an input that is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.cell = nn.Linear(5, 7), nn.GRU(7, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.cell(self.first(x))[0]
        self.seen.add_(y.sum((0, 1)))
        x.mul_(2)
        return y


MODULES = {
    "bias behind a step": (lambda: nn.Sequential(nn.ReLU(), nn.Conv2d(3, 4, 3)), (1, 3, 9, 9)),
    "norm before a bias": (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3)).eval(), (1, 3, 7, 5)),
    "cell behind a layer": (Counting, (3, 2, 5)),
}


@pytest.mark.test_all
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MODULES)
def test_functions_that_look_at_the_types_of_their_operands_are_checked(name: str, dtype: torch.dtype):
    make, shape = MODULES[name]
    module, x = make().to(dtype), torch.randn(shape).to(dtype)
    given, held = x.clone(), {key: value.clone() for key, value in module.state_dict().items()}
    assert wb.trace(module, x).check().ok
    assert x.dtype == dtype and torch.equal(x, given)
    for key, value in module.state_dict().items():
        assert value.dtype == held[key].dtype and torch.equal(value, held[key]), key


def test_what_is_wrong_with_a_half_is_still_found():
    """The reference is in float32, the numbers are not: sums that are rounded to halves at each step are told."""
    x = torch.full((1, 5000), 0.1, dtype=torch.float16)
    j = wb.trace(lambda x: torch.cumsum(x, 1)[:, -1], x)
    assert not j.check(rtol=1e-6, atol=0).ok
    assert j.check(rtol=1e-6, atol=0).outputs["max_abs"].item() < 1


def test_what_is_called_uncompiled_is_so_in_its_own_thread_alone() -> None:
    compiled = list[str]()

    def count(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        compiled.append(threading.current_thread().name)
        return graph.forward

    def call() -> None:
        torch.testing.assert_close(
            torch.compile(lambda x: x * 2 + 1, backend=count)(torch.ones(3)), torch.full((3,), 3.0)
        )

    with uncompiled_here():
        call()
        other = threading.Thread(target=call, name="other")
        other.start()
        other.join()
    assert compiled == ["other"]


def test_what_is_called_uncompiled_knows_of_no_trace() -> None:
    """A function may trace or load tensors itself; nothing tells it that it is part of a trace."""
    kept = io.BytesIO()
    torch.save(torch.ones(3), kept)
    with uncompiled_here():
        assert detect_fake_mode() is None
        kept.seek(0)
        assert torch.equal(torch.load(kept), torch.ones(3))
        traced = make_fx(lambda x: x * 2, tracing_mode="fake")(torch.ones(3))
        assert torch.equal(traced(torch.ones(3)), torch.full((3,), 2.0))


def test_threads_that_are_uncompiled_side_by_side_leave_the_stance_as_it_was() -> None:
    before, inside, done = eval_frame._stance, threading.Event(), threading.Event()

    def other() -> None:
        with uncompiled_here():
            inside.set()
            done.wait()

    thread = threading.Thread(target=other)
    with uncompiled_here(), uncompiled_here():
        thread.start()
        inside.wait()
    assert eval_frame._stance.stance == "default", "of this thread"
    done.set()
    thread.join()
    assert eval_frame._stance is before


def test_what_is_called_gets_its_inputs_as_they_lie() -> None:
    """A reshape of every other column copies; of a dense copy of them it would be a view, and see what is added."""

    def changed_after(x: torch.Tensor) -> torch.Tensor:
        taken = x.reshape(6, -1)
        x.add_(1)
        return taken * 2

    assert wb.trace(changed_after, torch.randn(4, 6)[:, ::2]).check().ok


@pytest.mark.test_all
def test_what_attention_keeps_for_its_backward_pass_is_wide():
    """Inside of another function of PyTorch's, attention of 16 bits is one op with a backward pass of its own."""
    p = [torch.randn(*shape).to(torch.bfloat16).requires_grad_() for shape in ((18, 6), (18,), (6, 6), (6,))]
    x = torch.randn(4, 2, 6).to(torch.bfloat16).requires_grad_()

    def step() -> torch.Tensor:
        made, _ = F.multi_head_attention_forward(
            x, x, x, 6, 2, *p[:2], None, None, False, 0.0, *p[2:], need_weights=False
        )
        loss = torch.zeros(()) + made.sum()
        loss.backward()
        return loss.detach()

    check = wb.trace(step, train=True).check()
    assert check.ok, check.text()


@pytest.mark.test_all
@pytest.mark.parametrize("dropped", [0.0, 0.25])
def test_attention_is_random_only_where_it_drops_something(dropped: float):
    """Trained it is one op of PyTorch's that may draw numbers; with a mask of bools it has one in the narrow type."""
    p, x = nn.Parameter(torch.randn(2, 2, 3, 2)), torch.randn(2, 2, 3, 2)
    mask = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 1]]).bool()

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (F.scaled_dot_product_attention(p, p, p, attn_mask=mask, dropout_p=dropped) * x).sum()
        loss.backward()
        return loss.detach()

    found = wb.trace(step, x, train=True).check()
    assert found.ok and {each.reference for each in found.results} == {"float64"}


def test_roundings_of_attention_are_drawn_where_a_row_sees_no_key():
    """PyTorch gives it zeros; NaN would say nothing of the loss that it is part of."""
    q, mask = torch.randn(3, 4), torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).bool()
    with roundings_drawn(0):
        found = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert torch.equal(found[1], torch.zeros(4)) and bool(found.isfinite().all())


def test_roundings_are_drawn_where_a_checkpoint_computes_attention_again():
    x = torch.randn(1, 2, 6, 4, requires_grad=True)
    with roundings_drawn(0), torch.enable_grad():
        attend = lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)  # noqa: E731
        checkpoint(attend, x * 2, use_reentrant=False).sum().backward()
    assert bool(x.grad.isfinite().all())


def test_a_bias_gradient_of_equal_numbers_may_round_the_same_way_each_time() -> None:
    """A pool spreads one number over each image: added up one after the other it is off by more than lots for each
    partial sum would have it."""
    image, weight, spread = torch.randn(2, 3, 64, 64), torch.randn(4, 3, 1, 1), torch.full((2, 4, 64, 64), 1 / 3)

    def bias() -> torch.Tensor:
        given = (image, weight, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
        return torch.ops.aten.convolution_backward.default(spread, *given)[2].double()

    exact = spread.double().sum((0, 2, 3))
    largest = torch.zeros(4, dtype=torch.float64)
    for seed in range(8):
        with roundings_drawn(seed):
            largest = torch.maximum(largest, (bias() - exact).abs())
    one_after_another = np.add.accumulate(spread[:, 0].flatten().numpy())[-1]
    assert float(largest.max()) > abs(float(one_after_another) - float(exact[0])) / 3, "three times it is allowed"
