"""`j.check()` from end to end: right results that a fixed tolerance fails, wrong ones that it passes, what it says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from workbench.running.run_program import NativeProgram

T = torch.Tensor


def plain(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> T:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _ffn(x: T, a: T, b: T) -> T:
    return torch.relu(x @ a) @ b


def _whole_weights(x: T, weight: T, scale: T) -> T:
    return x @ (weight.to(x.dtype) * scale).t()


def _deep(x: T, w: T) -> T:
    for _ in range(6):
        x = torch.relu(x @ w)
    return x


def _cancelling(x: T, y: T) -> T:
    return (x * 1e5 + y) - x * 1e5


def _choices(x: T, w: T) -> tuple[T, T, T]:
    y = x @ w
    return y.argmax(-1), torch.sort(y, dim=-1, stable=True).values, (y > y.mean()).float() * y


def _products(x: T) -> tuple[T, T]:
    """Of random factors: near the smallest numbers of the type, where a rounding is a large part of a number."""
    return x.cumprod(1), x.prod(1)


def _close_to_the_mean(x: T, mean: T, variance: T, weight: T, bias: T) -> T:
    """Subtracts two near numbers, which PyTorch multiplies before it subtracts."""
    return F.batch_norm(x + mean[:, None, None], mean, variance, weight, bias)


RIGHT: dict[str, tuple[Callable[..., Any], tuple[T, ...]]] = {
    "products that vanish": (_products, (plain(40, 130, seed=103),)),
    "close to the mean": (
        _close_to_the_mean,
        (
            plain(1, 17, 9, 8),
            plain(17, seed=1),
            plain(17, seed=2).abs() + 0.1,
            (2 * plain(17, seed=3)).exp(),
            plain(17),
        ),
    ),
    "plain weights": (_ffn, (plain(128, 768), plain(768, 300, seed=1), plain(300, 64, seed=2))),
    "overflow": (
        torch.matmul,
        (plain(8, 64, dtype=torch.float16) * 100, plain(64, 8, seed=1, dtype=torch.float16) * 100),
    ),
    "whole weights": (
        _whole_weights,
        (plain(8, 64, dtype=torch.float16), (plain(32, 64, seed=1) * 40).to(torch.int8), plain(32, 1, seed=2).half()),
    ),
    "deep": (_deep, (plain(32, 64), plain(64, 64, seed=1))),
    "deep bf16": (_deep, (plain(32, 64, dtype=torch.bfloat16), plain(64, 64, seed=1, dtype=torch.bfloat16))),
    "cancelling": (_cancelling, (plain(64, 64), plain(64, 64, seed=1))),
    "choices": (_choices, (plain(33, 40), plain(40, 17, seed=1))),
    "far mean": (lambda x: F.layer_norm(x, (64,)), (plain(16, 64) + 1000,)),
    "f64": (_ffn, tuple(plain(17, 17, seed=seed, dtype=torch.float64) for seed in range(3))),
    "f64 of three roundings": (lambda x: 1 - F.hardswish(x), (plain(16, 64, dtype=torch.float64),)),
    "f64 of three roundings in place": (
        lambda x: 1 - F.hardswish(x.clone(), inplace=True),
        (plain(16, 64, dtype=torch.float64),),
    ),
    "bf16 net": (
        lambda x, w: F.softmax(F.gelu(x @ w), -1),
        (plain(16, 64, dtype=torch.bfloat16), plain(64, 33, seed=1, dtype=torch.bfloat16)),
    ),
}


def _nearly_cancelling() -> tuple[T, T]:
    """Parameters and gradients of which one pair, times a learning rate, nearly cancels."""
    lot = torch.Generator().manual_seed(27)
    parameters = torch.randn(120, generator=lot)
    gradients = 0.25 * torch.randint(0, 7, (120,), generator=lot)
    parameters[0], gradients[0] = 0.04686969146132469, 3.75
    return parameters, gradients


RIGHT["a factor and a sum"] = (lambda x, y: torch.add(x, y, alpha=-0.01), _nearly_cancelling())
RIGHT["a factor and a sum in place"] = (lambda x, y: x.clone().sub_(y, alpha=0.01), _nearly_cancelling())


def made_wrong(monkeypatch: pytest.MonkeyPatch, change: Callable[[T], T]) -> None:
    """Kernels whose first result is another one."""
    run = NativeProgram.run

    def wrong(self: NativeProgram, tensors: Sequence[T]) -> list[T]:
        first, *rest = run(self, tensors)
        return [change(first), *rest]

    monkeypatch.setattr(NativeProgram, "run", wrong)


RIGHT["30522 classes"] = (lambda x: torch.softmax(x, -1), (plain(2, 30_522),))
RIGHT["64 classes in bf16"] = (lambda x: torch.softmax(x, -1), (plain(4, 64, dtype=torch.bfloat16),))
ROUGH = ("bf16 net", "choices")
"""Programs whose error in PyTorch is above a fourth of five percent, or whose first result is a place."""


@pytest.mark.parametrize("seed", [1014, 1018])
def test_a_layer_that_pytorch_computes_whole_is_taken_apart_where_roundings_are_drawn(seed: int):
    torch.manual_seed(seed)
    layer, x = nn.LSTM(4, 5), torch.randn(3, 2, 4)
    assert wb.trace(layer, x).check()


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("name", RIGHT)
def test_right_results_pass_and_wrong_ones_fail(name: str, monkeypatch: pytest.MonkeyPatch):
    function, inputs = RIGHT[name]
    journey = wb.trace(function, *inputs)
    found = journey.check()
    assert found.ok, found.text()
    for factor in (0.0, *([1.05] if name not in ROUGH else [])):
        with monkeypatch.context() as patch:
            made_wrong(patch, lambda y, factor=factor: (y.double().nan_to_num() * factor).to(y.dtype))
            found = journey.check()
            assert not found.ok and found.hint == "", (factor, found.text())


@pytest.mark.parametrize("op", ["argsort", "sort"])
def test_a_failure_says_that_equal_elements_have_no_order(op: str):
    x = torch.arange(64) % 4

    def places(x: torch.Tensor, stable: bool) -> torch.Tensor:
        return torch.argsort(x, stable=stable) if op == "argsort" else torch.sort(x, stable=stable).indices

    found = wb.trace(places, x, False).check()
    assert not found.ok and f"which of several equal elements {op} names" in found.text()
    assert wb.trace(places, x, True).check().ok


@pytest.mark.test_all(but=11)
@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("shape", [(9,), (4, 8), (2, 3, 4)])
def test_sums_of_what_is_multiplied_by_a_constant_are_replayed(
    dim: int | None, dtype: torch.dtype, shape: tuple[int, ...]
):
    x = plain(*shape).mul(5).to(dtype)
    axis = None if dim is None else min(dim, x.ndim - 1)
    assert wb.trace(lambda x: (x * 2).sum(axis), x).check(stage="simulated").ok
    if dtype.is_floating_point:
        assert wb.trace(lambda x: (2 * x).mean(axis), x).check(stage="simulated").ok


def test_a_scratchpad_that_no_computer_has_is_not_laid_out():
    machine = wb.machine("edge-8x8").with_(vector_lanes=2**40)
    journey = wb.trace(lambda x: x * 2, plain(8, 8), machine=machine)
    assert journey.simulated.cycles
    with pytest.raises(wb.WorkbenchError, match=r"bytes of scratchpad, on 1 core; .*fewer vector_lanes"):
        journey.check(stage="simulated")


def test_the_answer_shows_our_error_pytorchs_the_bound_and_the_reference():
    found = wb.trace(torch.softmax, plain(16, 64), 1).check()
    (row,) = found.outputs.to_dict("records")
    assert row["ok"] and row["reference"] == "float64"
    assert 0 < row["max_abs"] <= row["bound"] < 1e-6 and 0 < row["pytorch"] < 1e-6 and 0 < row["used"] <= 1
    assert "PyTorch's" in found.text() and "bound" in found.text() and "reference in float64" in found.text()


@pytest.mark.parametrize(
    ("raises_at", "said"),
    [
        ((), "float64"),
        ((1.0 + 2.0**-40,), "float32"),
        ((1.0 + 2.0**-40, 1.0 + 2.0**-20), "the given types"),
    ],
)
def test_a_function_that_fails_in_wide_numbers_is_compared_in_the_widest_that_it_takes(
    raises_at: tuple[float, ...], said: str
):
    def particular(x: T) -> T:
        for number in raises_at:  # a number that 16 bits do not hold, and more bits do
            if (x.new_full((), number) != 1.0).item():
                raise TypeError("other numbers, please")
        return torch.tanh(x) * 3

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = wb.trace(particular, plain(8, 8).half()).check()
    assert found.ok and set(found.outputs["reference"]) == {said}


def _masked(x: T) -> T:
    return torch.tanh(x) + torch.full((8, 8), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)


LOOKS: dict[str, Callable[[T], T]] = {
    "the largest number": _masked,
    "the smallest difference": lambda x: torch.tanh(x) * torch.finfo(x.dtype).eps,
    "the size of an element": lambda x: torch.tanh(x) * x.element_size() * x.itemsize,
    "the type": lambda x: torch.tanh(x) if x.dtype in (torch.float32, torch.bfloat16) else x * 100,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", LOOKS)
def test_a_function_that_looks_at_types_is_told_its_own(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    journey = wb.trace(LOOKS[name], plain(8, 8, dtype=dtype))
    found = journey.check()
    assert found.ok and list(found.outputs["reference"]) == ["float64"], found.text()
    made_wrong(monkeypatch, lambda y: torch.where(y.abs() < 1e30, 0.0, y.double()).to(y.dtype))
    assert not journey.check()


@pytest.mark.parametrize(
    ("dtype", "reference"),
    [(lambda x, y: x.dtype, "float64"), (lambda x, y: (x.float() * y).dtype, "float64"),
     (lambda x, y: torch.ones(2).dtype, "the given types")],
)  # fmt: skip
def test_of_tensors_of_several_types_each_is_told_where_it_is_known(dtype: Any, reference: str):
    def mixed(x: T, y: T) -> T:
        return (x.float() + y) * torch.finfo(dtype(x, y)).eps

    found = wb.trace(mixed, plain(8, 8, dtype=torch.bfloat16), plain(8, 8)).check()
    assert found.ok and list(found.outputs["reference"]) == [reference]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_random_numbers_like_a_tensor_are_no_error_of_pytorchs(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    journey = wb.trace(lambda x: torch.tanh(x) + torch.rand_like(x) * 10, plain(8, 8, dtype=dtype))
    assert journey.check()
    made_wrong(monkeypatch, lambda y: y * 1.1)
    assert not journey.check()


def test_what_changes_from_call_to_call_is_not_compared():
    own = torch.Generator().manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = wb.trace(lambda x: x + torch.rand(4, generator=own), plain(4)).check()
    assert not found.ok and "another generator" in repr(found) and "answers to two equal calls differ" in found.text()


UNDER_AUTOCAST: dict[str, tuple[Callable[..., T], tuple[T, ...]]] = {
    "inner": (torch.inner, (plain(3, 4), plain(2, 4, seed=1))),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), (plain(2, 3, 4), plain(2, 5, 4, seed=1))),
    "tensordot": (lambda x, y: torch.tensordot(x, y, 1), (plain(3, 4), plain(4, 5, seed=1))),
    "several products": (
        lambda x, y, z: torch.linalg.multi_dot([x, y, z]),
        (plain(3, 4), plain(4, 5, seed=1), plain(5, 2, seed=2)),
    ),
}


@pytest.mark.test_all(but=4)
@pytest.mark.parametrize("capture", ["dynamo", "export"])
@pytest.mark.parametrize("name", UNDER_AUTOCAST)
def test_products_inside_of_ops_are_cast_as_autocast_casts_them(name: str, capture: str):
    function, inputs = UNDER_AUTOCAST[name]

    def inside(*given: T) -> T:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function(*given)

    journey = wb.trace(inside, *inputs, capture=capture)
    assert cast(T, journey.run(*inputs)).dtype == torch.bfloat16 and journey.check().ok
    with torch.autocast("cpu", dtype=torch.bfloat16):
        around = wb.trace(function, *inputs, capture=capture)
        assert cast(T, around.run(*inputs)).dtype == torch.bfloat16 and around.check().ok
    assert around.check().ok  # under the autocast of the trace


def test_casts_to_fewer_bits_are_left_out_of_the_reference():
    """The rounding that is to be judged would be in it."""

    def halves(x: T) -> T:
        return torch.tanh(x.half()).float() * x

    (row,) = wb.trace(halves, plain(8, 8)).check().outputs.to_dict("records")
    assert row["ok"] and row["reference"] == "float64" and row["pytorch"] > 1e-5


class Counting(nn.Module):
    """Buffers that are changed: a float, a whole number, and one that lies in another's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(6, 6)
        self.register_buffer("total", torch.zeros(6))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: T) -> T:
        self.total.add_(x.sum(0))
        self.calls.add_(1)
        x.mul_(2)
        return self.lin(x) + self.total


def test_a_check_leaves_everything_as_it_was_found():
    module, x = Counting(), plain(5, 6)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    memory = {name: value.data_ptr() for name, value in module.state_dict().items()}
    given, lots = x.clone(), torch.get_rng_state()
    found = wb.trace(module, x).check()
    assert found.ok, found.text()
    assert len(found.outputs) == 4
    assert torch.equal(x, given) and torch.equal(torch.get_rng_state(), lots)
    for name, value in module.state_dict().items():
        assert value.dtype == state[name].dtype and torch.equal(value, state[name]), name
        assert value.data_ptr() == memory[name], name


def test_a_check_takes_out_of_lists_what_the_function_puts_there():
    seen: list[T] = []

    def remembering(x: T) -> T:
        seen.append(x)
        return x * 2

    journey = wb.trace(remembering, plain(4))
    before = len(seen)
    assert journey.check() and len(seen) == before


def dropped_in_two_graphs(x: T) -> T:
    y = F.dropout(x, 0.5)
    torch._dynamo.graph_break()
    return F.dropout(y + torch.rand_like(y), 0.3)


@pytest.mark.parametrize(
    "drawing", [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)), dropped_in_two_graphs]
)
def test_what_draws_random_numbers_draws_the_same_ones_in_pytorch(
    drawing: Callable[[T], T], monkeypatch: pytest.MonkeyPatch
):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        journey = wb.trace(drawing, plain(8, 8))
        lots = torch.get_rng_state()
        for stage in ("captured", "scheduled"):
            found = journey.check(stage=stage)
            assert found.ok, found.text()
        assert torch.equal(torch.get_rng_state(), lots)
        made_wrong(monkeypatch, lambda y: y.roll(1, 0))
        assert not journey.check().ok


def test_a_function_in_several_graphs_is_compared_likewise(monkeypatch: pytest.MonkeyPatch):
    def broken(x: T, w: T) -> T:
        y = x @ w
        torch._dynamo.graph_break()
        return torch.softmax(y, -1)

    inputs = plain(16, 64), plain(64, 30, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        journey = wb.trace(broken, *inputs)
        right = journey.check()
        assert right.ok and set(right.outputs["reference"]) == {"float64"}, right.text()
        made_wrong(monkeypatch, torch.zeros_like)
        assert not journey.check().ok


def test_runs_in_another_thread_do_not_see_what_a_check_makes_wide():
    module, x = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6))), plain(16, 64)
    journey = wb.trace(module, x)
    right, found = journey.run(x), list[T]()

    def runs() -> None:
        for _ in range(40):
            found.append(cast(T, journey.run(x)))

    thread = Thread(target=runs)
    thread.start()
    while thread.is_alive():
        assert journey.check().ok
    thread.join()
    assert len(found) == 40 and all(torch.equal(each, cast(T, right)) for each in found)


@pytest.mark.test_all
@pytest.mark.parametrize("seed", [3, 8, 10])
def test_a_gradient_that_a_pool_has_spread_is_added_up_in_any_order(seed: int):
    """The bias before a batch norm has no gradient but rounding: that of sums of equal numbers, times their count."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1)),
        *(nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
    )
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    found = wb.trace(step, torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,)), train=True).check()
    assert found.ok, found.text()


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(("mode", "dtype"), [("sum", torch.float32), ("mean", torch.float64)])
def test_gradients_of_bags_are_sums(mode: str, dtype: torch.dtype):
    for seed in range(4):
        torch.manual_seed(seed)
        model = nn.EmbeddingBag(10, 7, mode=mode, dtype=dtype)
        each = torch.arange(20, dtype=dtype) / 9 if mode == "sum" else None
        bags = torch.compile(model, backend="npu")(torch.randint(0, 10, (20,)), torch.arange(0, 20, 5), each)
        bags.backward(torch.linspace(-1, 1, 28, dtype=dtype).reshape(4, 7))
        found = wb.last_journeys()[-1].check()
        assert found.ok, found.text()
