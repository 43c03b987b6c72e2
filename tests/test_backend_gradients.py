"""`torch.compile(backend="npu")` with gradients: what a person trains, beside the same in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import workbench as wb
from workbench.ground import errors

Compiles = Callable[[Any], Any]
Seen = list[torch.Tensor | None]


pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def on_npu(function: Any) -> Any:
    return torch.compile(function, backend="npu")


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).requires_grad_()


SCENES: dict[str, Callable[[Compiles], Seen]] = {}


def scene(function: Callable[[Compiles], Seen]) -> Callable[[Compiles], Seen]:
    """Registers a scene: a person's use of a compiled function, which returns the tensors left after it."""
    SCENES[function.__name__] = function
    return function


@scene
def a_model_is_trained(compiles: Compiles) -> Seen:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    optimizer, called = torch.optim.AdamW(model.parameters(), lr=0.01), compiles(model)
    losses = []
    for _ in range(3):
        loss = F.cross_entropy(called(torch.randn(6, 8)), torch.randint(0, 3, (6,)))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *(each.detach() for each in model.parameters())]


@scene
def gradients_that_are_views_of_one_another_are_added_up_and_changed(compiles: Compiles) -> Seen:
    column, row = leaf(3, 1), leaf(3)
    called = compiles(lambda x: x * (column.squeeze(-1) + row))
    for _ in range(3):
        called(torch.ones(3)).sum().backward()
    column.grad.mul_(3)
    return [column.grad, row.grad]


@scene
def a_result_is_a_view_of_what_another_graph_made(compiles: Compiles) -> Seen:
    w, a, b, u, v = (leaf(4) for _ in range(5))
    made = compiles(lambda x: (x * w, x * a, x * b))(torch.ones(4))

    def views(given: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * u * v
        return given.view(2, 2), y[:2], y[2:]

    results = compiles(views)(made[0], torch.ones(4))
    sum(each.sum() for each in (*made[1:], *results[:2])).backward()
    return [w.grad, a.grad, b.grad, u.grad]


@scene
def a_backward_pass_is_kept_after_one_that_was_not(compiles: Compiles) -> Seen:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    called, x = compiles(model), torch.randn(2, 4)
    called(x).sum().backward()
    loss = called(x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return [each.grad for each in model.parameters()]


@scene
def inputs_lie_in_one_memory_in_other_places(compiles: Compiles) -> Seen:
    w = leaf(2)

    def changes(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * w

    called, made = compiles(changes), list[torch.Tensor | None]()
    for first in (2, 1):
        memory = torch.zeros(8)
        made.append(called(memory[0:2], memory[first : first + 2]).detach())
    return made


@scene
def a_checkpoint_is_around_the_first_call(compiles: Compiles) -> Seen:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    x = leaf(2, 4)
    checkpoint(compiles(model), x, use_reentrant=False).sum().backward()
    return [x.grad, *(each.grad for each in model.parameters())]


@scene
def a_user_packs_what_is_kept(compiles: Compiles) -> Seen:
    w = leaf(3)
    called = compiles(lambda x: torch.exp(x * w).sum())
    with torch.autograd.graph.saved_tensors_hooks(lambda each: each.numpy().copy(), torch.from_numpy):
        loss = called(torch.ones(3))
    loss.backward()
    return [w.grad]


@scene
def parameters_are_shared_and_frozen(compiles: Compiles) -> Seen:
    shared, frozen = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)
    called = compiles(nn.Sequential(shared, frozen, nn.Tanh(), shared))
    called(torch.randn(2, 4)).sum().backward()
    frozen.bias.requires_grad_(True)
    called(torch.randn(2, 4)).sum().backward()
    return [shared.weight.grad, shared.bias.grad, frozen.weight.grad, frozen.bias.grad]


@scene
def an_input_has_a_history(compiles: Compiles) -> Seen:
    x, w = leaf(3), leaf(3)
    compiles(lambda h: torch.sin(h * w))(x * 2).sum().backward()
    return [x.grad, w.grad]


@scene
def one_of_two_results_has_no_gradient(compiles: Compiles) -> Seen:
    one, other = leaf(3), leaf(3)
    called = compiles(lambda x: (x * one, x * other))
    called(torch.ones(3))[0].sum().backward()
    return [one.grad, other.grad]


@scene
def gradients_lie_in_other_ways(compiles: Compiles) -> Seen:
    w = leaf(3, 4)
    called = compiles(lambda x: x * w * w)
    called(torch.ones(3, 4)).backward(torch.randn(4, 3).t())
    called(torch.ones(3, 4)).backward(torch.ones(1, 1).expand(3, 4))
    return [w.grad]


@scene
def batches_have_other_sizes(compiles: Compiles) -> Seen:
    w = leaf(4, 4)
    called = compiles(lambda x: torch.tanh(x @ w))
    for rows in (2, 5, 2):
        called(torch.randn(rows, 4)).pow(2).sum().backward()
    return [w.grad]


@scene
def hooks_change_gradients(compiles: Compiles) -> Seen:
    w = leaf(3)
    w.register_hook(lambda gradient: gradient * 10)
    result = compiles(lambda x: x * w)(torch.ones(3))
    result.register_hook(lambda gradient: gradient + 1)
    result.sum().backward()
    return [w.grad]


@scene
def a_result_is_changed_in_place(compiles: Compiles) -> Seen:
    w = leaf(3)

    def doubled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = torch.exp(x * w) * 2
        return result, result.view(3, 1)

    result, view = compiles(doubled)(torch.ones(3))
    view.mul_(2)
    result.sum().backward()
    return [result.detach(), w.grad]


@scene
def a_graph_is_kept_for_a_second_pass(compiles: Compiles) -> Seen:
    w = leaf(3)
    result = compiles(lambda x: torch.exp(x * w))(torch.ones(3)).sum()
    result.backward(retain_graph=True)
    result.backward()
    return [w.grad]


@scene
def dropout_draws_the_same_numbers(compiles: Compiles) -> Seen:
    w = leaf(8, 8)
    called = compiles(lambda x: F.dropout(torch.relu(x @ w), 0.5))
    for _ in range(2):
        called(torch.ones(4, 8)).sum().backward()
    return [w.grad, torch.rand(2)]


@scene
def a_checkpoint_computes_again(compiles: Compiles) -> Seen:
    w = leaf(4, 4)
    called = compiles(lambda x: checkpoint(lambda h: torch.tanh(torch.relu(h @ w) @ w), x, use_reentrant=False))
    called(torch.ones(2, 4)).sum().backward()
    return [w.grad]


@scene
def numbers_change_from_call_to_call(compiles: Compiles) -> Seen:
    w = leaf(3)
    called = compiles(lambda x, times: x * w * times)
    for times in (2, 3.5, 0.25):
        called(torch.ones(3), times).sum().backward()
    return [w.grad]


@scene
def tensors_that_share_memory_are_changed(compiles: Compiles) -> Seen:
    w, whole = leaf(2), torch.zeros(4)

    def function(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        one.add_(1)
        return other * w

    called = compiles(function)
    called(torch.zeros(2), torch.zeros(2)).sum().backward()
    called(whole[:2], whole[1:3]).sum().backward()
    return [w.grad, whole]


@scene
def an_op_of_the_host_has_gradients(compiles: Compiles) -> Seen:
    w = leaf(3)
    compiles(lambda x: torch.i0(x * w).sum())(torch.ones(3)).backward()
    return [w.grad]


@torch.library.custom_op("backendtest::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


@cube.register_fake
def _(x):
    return torch.empty_like(x)


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


cube.register_autograd(lambda ctx, gradient: 3 * gradient * ctx.saved_tensors[0] ** 2, setup_context=_keep)


@scene
def a_custom_op_has_its_own_gradient(compiles: Compiles) -> Seen:
    w = leaf(3)
    compiles(lambda x: cube(x * w).sum())(torch.ones(3)).backward()
    return [w.grad]


def _after_steps(compiles: Compiles, optimizer: torch.optim.Optimizer, model: nn.Module) -> Seen:
    step = compiles(optimizer.step)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).pow(2).sum().backward()
        step()
    return [each.detach() for each in model.parameters()]


@scene
def sgd_steps_are_compiled(compiles: Compiles) -> Seen:
    model = nn.Linear(4, 4)
    return _after_steps(compiles, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model)


@scene
def adam_steps_are_compiled(compiles: Compiles) -> Seen:
    model = nn.Linear(4, 4)
    return _after_steps(compiles, torch.optim.Adam(model.parameters(), lr=0.1), model)


@scene
def a_whole_step_is_compiled(compiles: Compiles) -> Seen:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    called = compiles(step)
    return [*(called(torch.ones(2, 4)) for _ in range(3)), *(each.detach() for each in model.parameters())]


@scene
def gradients_that_are_always_zeros_count(compiles: Compiles) -> Seen:
    parameters = [leaf(3), leaf(3), leaf(3)]
    optimizer = torch.optim.SGD(parameters, lr=0.1, weight_decay=1.0)
    call = compiles(lambda a, b, c: (a.sgn().sum(), (b**0).sum(), torch.copysign(torch.ones(3), c).sum()))
    a, b, _ = call(*parameters)
    (a + b).backward()  # not the third
    optimizer.step()
    return [*(each.detach() for each in parameters), *(each.grad for each in parameters)]


@scene
def a_checkpoint_calls_a_compiled_model_twice(compiles: Compiles) -> Seen:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
    called = compiles(model)
    for _ in range(2):
        checkpoint(called, torch.randn(3, 4, requires_grad=True), use_reentrant=False).sum().backward()
    return [*(each.clone() for each in model.buffers()), *(each.grad for each in model.parameters())]


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
@pytest.mark.parametrize("name", SCENES)
def test_what_is_left_is_what_pytorch_leaves(name: str):
    torch.manual_seed(3)
    theirs = SCENES[name](lambda function: function)
    torch.manual_seed(3)
    mine = SCENES[name](on_npu)
    for got, expected in zip(mine, theirs, strict=True):
        assert (got is None) == (expected is None)
        if got is not None:
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


def test_forward_and_backward_are_journeys_of_their_own():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
    result = on_npu(model)(x)
    (forward,) = wb.last_journeys()
    result.sum().backward()
    first, backward = wb.last_journeys()
    assert first is forward
    for journey, part in ((forward, "forward"), (backward, "backward")):
        assert part in repr(journey) and set(journey.lowered.kernel_table.part) == {part}
        assert journey.check().ok and journey.check(stage="simulated").ok and journey.simulated.cycles > 0
        assert set(journey.captured.table.file) == {__file__}
    ops = set(backward.captured.table.op)
    assert "aten.threshold_backward.default" in ops and "aten.addmm.default" not in ops
    kept = set(forward.captured.saved["value"])
    assert "relu" in kept and "addmm" not in kept
    assert "relu" in set(backward.captured.saved["value"]) and "gradient_1" not in set(backward.captured.saved["value"])


def test_without_gradients_nothing_is_kept():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
    with torch.no_grad():
        on_npu(model)(x)
    (journey,) = wb.last_journeys()
    assert list(journey.captured.table.op) == ["aten.linear.default", "aten.relu.default"]
    assert len(journey.captured.record.outputs) == 1


def _twice(w: torch.Tensor) -> None:
    result = on_npu(lambda x: torch.exp(x * w))(torch.ones(3)).sum()
    result.backward()
    result.backward()


def _after_a_change_of_an_input(w: torch.Tensor) -> None:
    x = torch.ones(3)
    result = on_npu(lambda x: torch.exp(x * w))(x)
    x.add_(1)
    result.sum().backward()


def _after_a_change_of_a_parameter(w: torch.Tensor) -> None:
    result = on_npu(lambda x: x * w)(leaf(3))
    with torch.no_grad():
        w.add_(1)
    result.sum().backward()


def _after_a_change_of_a_result(w: torch.Tensor) -> None:
    result = on_npu(lambda x: torch.exp(x * w))(torch.ones(3))
    result.mul_(2)
    result.sum().backward()


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    ("does", "message"),
    [
        (_twice, "backward through the graph a second time"),
        (_after_a_change_of_an_input, "modified by an inplace operation"),
        (_after_a_change_of_a_parameter, "modified by an inplace operation"),
        (_after_a_change_of_a_result, "modified by an inplace operation"),
    ],
)
def test_pytorchs_own_errors_of_a_backward_pass_are_raised(does: Callable[[torch.Tensor], None], message: str):
    w = leaf(3)
    with pytest.raises(RuntimeError, match=message):
        does(w)


def test_second_derivatives_are_refused_and_first_ones_are_not():
    w = leaf(3)
    result = on_npu(lambda x: torch.exp(x * w))(torch.ones(3)).sum()
    (first,) = torch.autograd.grad(result, w, create_graph=True)
    torch.testing.assert_close(first, torch.exp(w), rtol=1e-4, atol=1e-4)
    with pytest.raises(errors.NoGradients, match="second derivatives"):
        first.pow(2).sum().backward()


def test_random_numbers_that_a_checkpoint_draws_again_are_refused():
    w = leaf(4, 4)
    called = on_npu(lambda x: checkpoint(lambda h: F.dropout(h @ w, 0.5), x, use_reentrant=False))
    with pytest.raises(errors.NoGradients, match=r"inside of torch\.utils\.checkpoint"):
        called(torch.ones(2, 4))


def test_a_backward_pass_on_the_host_is_told():
    w = leaf(3)
    with pytest.warns(errors.HostRoute) as told:
        on_npu(lambda x: torch.i0(x * w))(torch.ones(3)).sum().backward()
    parts = ["compiled forward: no route", "compiled backward: no route"]
    assert [str(each.message).partition(" to the NPU")[0] for each in told] == parts
    assert {each.filename for each in told} == {__file__}


def test_a_backward_pass_on_the_host_can_be_refused():
    w = leaf(3)
    called = torch.compile(lambda x: torch.lgamma(x * w), backend="npu", options={"on_missing": "error"})
    with pytest.raises(errors.MissingRoutes):
        called(torch.ones(3)).sum().backward()


@pytest.mark.test_all
def test_autocast_casts_once_and_not_again_in_the_graphs():
    w = leaf(8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        result = on_npu(lambda x: torch.relu(x @ w).float().sum())(torch.ones(4, 8) / 8)
    result.backward()
    (mine, w.grad) = w.grad, None
    with torch.autocast("cpu", torch.bfloat16):
        torch.relu((torch.ones(4, 8) / 8) @ w).float().sum().backward()
    torch.testing.assert_close(mine, w.grad, rtol=2e-2, atol=2e-2)
    kinds = {str(kind) for journey in wb.last_journeys() for kind in journey.captured.record.types.values()}
    assert any("bf16" in kind for kind in kinds)


def test_a_view_of_what_is_kept_may_be_changed_in_place():
    """PyTorch refuses it. The view has memory of its own here, so the gradient is that of what was computed."""
    w = leaf(3)
    result = on_npu(lambda x: torch.exp(x * w).view(-1, 1))(torch.ones(3))
    result.mul_(5)
    result.sum().backward()
    torch.testing.assert_close(w.grad, 5 * torch.exp(w.detach()))


class Viewing(nn.Module):
    """Attention whose result a view takes apart, which PyTorch's fused kernel lays out for it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(2, 5, 3, 4, 8).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).view(2, 5, 32))


@pytest.mark.test_all
def test_attention_lies_as_pytorchs_fused_kernel_leaves_it(recwarn: pytest.WarningsRecorder):
    model, x = Viewing(), torch.randn(2, 5, 32)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    assert wb.trace(step, x, train=True).check()
    on_npu(model)(x).sum().backward()
    assert all(journey.check() for journey in wb.last_journeys())
    q = leaf(2, 3, 4, 8).detach().transpose(1, 2).requires_grad_()
    laid = [
        compiles(F.scaled_dot_product_attention)(q, q, q).stride() for compiles in (on_npu, lambda function: function)
    ]
    assert laid[0] == laid[1] and not [each for each in recwarn if "Host" in str(each.category)]


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo reads it
def test_hooks_of_gradients_that_nothing_reaches_get_zeros():
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.one(x), self.other(x)

    heads, seen = Heads(), list[float]()
    heads.other.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    heads.other.bias.register_post_accumulate_grad_hook(lambda bias: seen.append(float(bias.grad.norm())))
    on_npu(heads)(torch.ones(2, 3))[0].sum().backward()
    assert torch.equal(heads.other.weight.grad, torch.zeros(2, 3)) and seen == [0.0]
    x, y = leaf(2) * 1, leaf(2)
    x.register_hook(lambda gradient: gradient + 1)
    on_npu(lambda x, y: (x * 3, y * 2))(x, y)[1].sum().backward()
    assert torch.equal(y.grad, torch.full((2,), 2.0))


@pytest.mark.test_all
def test_a_batch_norm_in_a_checkpoint_of_a_compiled_function_has_its_gradients():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()), torch.randn(3, 4)
    model(x).sum().backward()
    expected = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    on_npu(lambda x: checkpoint(model, x, use_reentrant=False))(x).sum().backward()
    for each, wanted in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(each.grad, wanted, atol=1e-5, rtol=1e-5)


def in_batches(compiles: Compiles) -> Seen:
    layer, x = nn.Linear(4, 4), leaf(2, 4)
    called = compiles(lambda x: layer(x).tanh())
    given = torch.randn(5, 2, 4)
    (batch,) = torch.autograd.grad(called(x), [x], grad_outputs=given, is_grads_batched=True)
    jacobian = torch.autograd.functional.jacobian(called, x, vectorize=True)
    (single,) = torch.autograd.grad(called(x).sum(), [x])
    return [batch, jacobian, single]


@pytest.mark.test_all
def test_a_batch_of_gradients_is_computed_on_the_host():
    torch.manual_seed(0)
    with pytest.warns(errors.HostRoute, match="its gradients are a batch"):
        seen = in_batches(on_npu)
    torch.manual_seed(0)
    torch.testing.assert_close(seen, in_batches(lambda function: function), rtol=1e-4, atol=1e-5)


def test_a_batch_of_gradients_can_be_refused():
    called = torch.compile(torch.exp, backend="npu", options={"on_missing": "error"})
    x = leaf(3)
    with pytest.raises(errors.NoGradients, match="Give them one by one"):
        torch.autograd.functional.jacobian(called, x, vectorize=True)


@pytest.mark.test_all
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_what_bags_of_embeddings_keep_is_what_pytorch_keeps(mode: str):
    bags, offsets = nn.EmbeddingBag(5, 3, mode=mode, padding_idx=1), torch.tensor([0, 2, 2])
    on_npu(bags)(torch.tensor([1, 2, 2, 0, 4, 1, 1]), offsets).sum().backward()
    assert all(each.check().ok for each in wb.last_journeys())


@pytest.mark.test_all
def test_a_batch_norm_of_what_is_given_keeps_statistics_that_are_right():
    for seed in range(4):
        torch.manual_seed(seed)
        torch._dynamo.reset()
        on_npu(nn.BatchNorm2d(4))(torch.randn(2, 4, 3, 3)).square().mean().backward()
        assert all(each.check().ok for each in wb.last_journeys())


@pytest.mark.test_all
def test_the_backward_pass_of_an_earlier_compilation_has_its_forward_pass_beside_it():
    model = on_npu(nn.Sequential(nn.Linear(6, 3), nn.ReLU()))
    x = torch.randn(8, 6)
    loss = model(x).sum()
    on_npu(lambda x: x.exp())(x)
    loss.backward()
    assert [str(each).split(" on ")[0] for each in wb.last_journeys()] == [
        "Journey('compiled forward'",
        "Journey('compiled backward'",
    ]
