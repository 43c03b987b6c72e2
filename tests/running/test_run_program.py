"""Whole graphs run natively: views, layouts, lifetimes and mutations as the record has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch.utils.weak import WeakTensorKeyDictionary

import workbench as wb
from tests.mlir.modules import rendered
from workbench.ground.errors import NativeInputError, NoData
from workbench.ir import (
    AtenGraph,
    Input,
    Kernel,
    KernelGraph,
    KernelModule,
    Mutation,
    TensorType,
    Tree,
    View,
)
from workbench.running import run_program
from workbench.running.run_program import KernelCache, NativeProgram, allocate

F32 = "f32"


def value(*shape: int, strides: tuple[int, ...] | None = None, offset: int = 0, dtype: str = F32) -> TensorType:
    return TensorType(shape, dtype, strides or torch.empty(shape).stride(), offset)


def graph(
    types: dict[str, TensorType],
    inputs: Sequence[str],
    kernels: Sequence[Kernel],
    outputs: Sequence[str],
    views: Sequence[View] = (),
    mutations: Sequence[Mutation] = (),
) -> KernelGraph:
    items = tuple(Input(name, "user", name) for name in inputs)
    captured = AtenGraph("g", items, (), tuple(outputs), Tree("leaf"), types, tuple(mutations))
    return KernelGraph(captured, (), tuple(kernels), tuple(views), types, ())


def program(
    lowered: KernelGraph, functions: Sequence[Callable[..., torch.Tensor]], cache: KernelCache | None = None
) -> NativeProgram:
    """Kernels made from torch functions on tensors that lie as the record says."""
    modules: list[KernelModule] = []
    for kernel, function in zip(lowered.kernels, functions, strict=True):
        inputs = [allocate(lowered.types[name]) for name in kernel.inputs]
        outputs = [allocate(lowered.types[name]) for name in kernel.outputs]
        text = rendered(function, inputs, outputs, kernel.name)
        modules.append(KernelModule(kernel.name, text, text, (), (), ()))
    return NativeProgram.from_rendered(lowered, modules, cache or KernelCache())


def two_kernels() -> tuple[KernelGraph, list[Callable[..., torch.Tensor]]]:
    """`relu(x) * 2` on the transpose of x, and the last two rows of that, as views."""
    types = {
        "x": value(4, 6),
        "xt": value(6, 4, strides=(1, 6)),
        "r": value(6, 4),
        "y": value(6, 4),
        "tail": value(2, 4, offset=16),
    }
    kernels = [Kernel("a", "elementwise", (), ("xt",), ("r",)), Kernel("b", "elementwise", (), ("r",), ("y",))]
    lowered = graph(types, ["x"], kernels, ["y", "tail"], [View("xt", "x"), View("tail", "y")])
    return lowered, [torch.relu, lambda r: r * 2]


def test_views_need_no_kernel_and_share_storage() -> None:
    lowered, functions = two_kernels()
    x = torch.randn(4, 6)
    y, tail = program(lowered, functions).run([x])
    torch.testing.assert_close(y, torch.relu(x.t()) * 2)
    assert tail.data_ptr() == y.data_ptr() + 16 * 4
    assert torch.equal(tail, y[4:])


def test_an_input_that_starts_elsewhere_is_read_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has a storage offset the record knows nothing of; strides agree, so nothing is copied."""
    lowered, functions = two_kernels()
    native = program(lowered, functions)
    made: list[TensorType] = []
    monkeypatch.setattr(run_program, "allocate", lambda kind: made.append(kind) or allocate(kind))
    x = torch.randn(10, 6)[3:7]
    torch.testing.assert_close(native.run([x])[0], torch.relu(x.t()) * 2)
    assert made == [lowered.types["r"], lowered.types["y"]]


def test_an_input_with_other_strides_is_brought_into_the_recorded_layout() -> None:
    lowered, functions = two_kernels()
    x = torch.randn(6, 4).t()
    torch.testing.assert_close(program(lowered, functions).run([x])[0], torch.relu(x.t()) * 2)


def test_intermediates_are_dropped_after_their_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of kernels never holds more than two of their storages: the one read and the one made."""
    count = 5
    names = ["x", *(f"v{i}" for i in range(count))]
    kernels = [Kernel(f"k{i}", "elementwise", (), (names[i],), (names[i + 1],)) for i in range(count)]
    lowered = graph({name: value(256) for name in names}, ["x"], kernels, [names[-1]])
    cache = KernelCache()
    native = program(lowered, [torch.neg] * count, cache)
    alive: list[int] = []
    made = WeakTensorKeyDictionary()

    def watched(kind: TensorType) -> torch.Tensor:
        tensor = allocate(kind)
        made[tensor] = True
        alive.append(len(made))
        return tensor

    monkeypatch.setattr(run_program, "allocate", watched)
    x = torch.randn(256)
    torch.testing.assert_close(native.run([x])[0], -x)
    assert alive == [1, 2, 2, 2, 2]


def test_results_keep_the_recorded_strides() -> None:
    types = {"x": value(4, 6), "y": value(4, 6, strides=(1, 4))}
    lowered = graph(types, ["x"], [Kernel("a", "elementwise", (), ("x",), ("y",))], ["y", "x"])
    x = torch.randn(4, 6)
    y, same = program(lowered, [torch.neg]).run([x])
    assert y.stride() == (1, 4)
    assert torch.equal(y, -x)
    assert same is x


def test_mutations_reach_the_live_input_and_results_keep_what_they_were() -> None:
    """`old = x.view(-1)` of the value before, `x.add_(1)` after: the record lists the new value of x."""
    types = {"x": value(2, 3), "flat": value(6), "new": value(2, 3)}
    kernels = [Kernel("a", "elementwise", (), ("x",), ("new",))]
    lowered = graph(types, ["x"], kernels, ["flat"], [View("flat", "x")], [Mutation("x", "new")])
    x = torch.arange(6.0).view(2, 3)
    (old,) = program(lowered, [lambda x: x + 1]).run([x])
    assert old.tolist() == [0, 1, 2, 3, 4, 5]
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_inputs_that_swap_values() -> None:
    types = {"a": value(2), "b": value(2)}
    lowered = graph(types, ["a", "b"], [], [], mutations=[Mutation("a", "b"), Mutation("b", "a")])
    a, b = torch.zeros(2), torch.ones(2)
    assert program(lowered, []).run([a, b]) == []
    assert (a.tolist(), b.tolist()) == ([1, 1], [0, 0])


def test_a_mutated_input_in_another_layout_is_written_back() -> None:
    types = {"x": value(2, 3), "new": value(2, 3)}
    kernels = [Kernel("a", "elementwise", (), ("x",), ("new",))]
    lowered = graph(types, ["x"], kernels, [], mutations=[Mutation("x", "new")])
    x = torch.arange(6.0).view(3, 2).t()
    program(lowered, [lambda x: x + 1]).run([x])
    assert x.tolist() == [[1, 3, 5], [2, 4, 6]]


def test_parameters_that_require_grad_can_be_run() -> None:
    lowered, functions = two_kernels()
    x = torch.nn.Parameter(torch.randn(4, 6))
    (y, _) = program(lowered, functions).run([x])
    assert not y.requires_grad


def test_the_same_text_compiles_once() -> None:
    types = {name: value(8) for name in "xyz"}
    kernels = [Kernel("a", "elementwise", (), ("x",), ("y",)), Kernel("a", "elementwise", (), ("y",), ("z",))]
    cache = KernelCache()
    x = torch.randn(8)
    native = program(graph(types, ["x"], kernels, ["z"]), [torch.neg, torch.neg], cache)
    assert cache.size == 0
    assert torch.equal(native.run([x])[0], x)
    assert cache.size == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([torch.randn(4, 5)], r"x is \[4, 5\] torch.float32 on cpu; it was traced as \[4, 6\]"),
        ([torch.randn(4, 6).double()], r"x is \[4, 6\] torch.float64"),
        ([], r"g takes 1 tensors, 0 were given"),
    ],
)
def test_inputs_unlike_the_traced_ones_are_refused(given: list[torch.Tensor], message: str) -> None:
    lowered, functions = two_kernels()
    with pytest.raises(NativeInputError, match=message):
        program(lowered, functions).run(given)
    with pytest.raises(NoData, match="g cannot run: x is on the meta device"):
        program(lowered, functions).run([torch.empty(4, 6, device="meta")])


def test_an_expanded_input_cannot_take_a_full_tensor() -> None:
    types = {"x": value(4, 6, strides=(0, 1)), "y": value(4, 6)}
    lowered = graph(types, ["x"], [Kernel("a", "elementwise", (), ("x",), ("y",))], ["y"])
    native = program(lowered, [torch.neg])
    row = torch.randn(6)
    torch.testing.assert_close(native.run([row.expand(4, 6)])[0], -row.expand(4, 6))
    with pytest.raises(NativeInputError, match="was traced expanded"):
        native.run([torch.randn(4, 6)])


def test_a_kernel_of_few_elements_that_reduces_many_pairs_is_as_exact_as_ever():
    """Of 2,000 times 2,000 differences each sum in a register's lanes rounds less than one number that grows."""
    torch.manual_seed(1)
    x = torch.randn(2000)
    found = wb.trace(lambda a, b: (a[:, None] - b[None, :]).abs().sum(), x, x).run(x, x)
    exact = (x.double()[:, None] - x.double()[None, :]).abs().sum()
    assert abs(found.item() / exact.item() - 1) < 1.5e-5
