"""Tests of arguments beyond plain functions of plain tensors, in both captures and in `torch.compile`."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as over_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.utils import _pytree as pytree

import workbench as wb
from tests.eager import same_as_eager
from workbench.ground.errors import HostRoute, UnreadableTensor, UnsupportedContainer
from workbench.ir import BREAK
from workbench.operators.tensors import containers

pytestmark = pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")

R = torch.randn
both = pytest.mark.parametrize("capture", ["dynamo", "export"])


@torch.library.custom_op("taken::scale_", mutates_args={"x"})
def scale_(x: torch.Tensor, s: float) -> None:
    x.mul_(s)


@torch.library.custom_op("taken::count", mutates_args={"state", "more"})
def count(x: torch.Tensor, state: torch.Tensor, more: list[torch.Tensor]) -> torch.Tensor:
    state.add_(1)
    for each in more:
        each.add_(x.sum())
    return x * state


@count.register_fake
def _(x: torch.Tensor, state: torch.Tensor, more: list[torch.Tensor]) -> torch.Tensor:
    return torch.empty_like(x)


def _of_an_input(x: torch.Tensor) -> torch.Tensor:
    torch.ops.taken.scale_(x, 3.0)
    return x + 1


def _of_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch.ops.taken.scale_(y[1:3], 3.0)
    return y + 1


def _of_several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    state, one, other = torch.zeros(()), x + 1, x * 2
    y = torch.ops.taken.count(x, state, [one, other])
    return y, one, other, state


@torch.library.custom_op("taken::up_and_down", mutates_args={"x", "y"})
def up_and_down(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(1)
    y.mul_(3)


@torch.library.custom_op("taken::up_beside", mutates_args={"x"})
def up_beside(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return y * 2


@up_beside.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(y)


def _rows_apart(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch.ops.taken.up_and_down(y[:2], y[2:])
    return y + 1


def _columns_apart(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).expand(4, 4).contiguous()
    torch.ops.taken.up_and_down(y[:, ::2], y[:, 1::2])
    return y + 1


@pytest.mark.test_all
@both
@pytest.mark.parametrize("function", [_of_an_input, _of_a_view, _of_several, _rows_apart, _columns_apart])
def test_an_op_of_ones_own_may_change_its_arguments(function: Any, capture: str):
    journey = same_as_eager(function, lambda: (R(4),), capture=capture, hosted=None)
    (op,) = {item.node.op for item in journey.lowered.record.nodes if item.route == "host"}
    assert op.startswith("taken.")
    compiled = torch.compile(function, backend="npu", options={"machine": "edge-8x8"})
    x = R(4)
    torch.testing.assert_close(compiled(x.clone()), function(x.clone()))


def _one_twice(x: torch.Tensor) -> torch.Tensor:
    torch.ops.taken.up_and_down(x, x)
    return x + 1


def _rows_in_both(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch.ops.taken.up_and_down(y[:3], y[1:])
    return y + 1


def _read_beside(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.taken.up_beside(x[:3], x[1:]) + x[1:]


@both
@pytest.mark.parametrize("function", [_one_twice, _rows_in_both, _read_beside])
def test_an_op_that_changes_what_it_is_given_twice_is_not_taken_for_values(function: Any, capture: str):
    with pytest.raises(wb.errors.SharedElements, match=r"with x and y in the same memory, and it changes one of them"):
        wb.trace(function, R(4), capture=capture)
    mine, theirs = torch.ones(4), torch.ones(4)
    made = torch.compile(function, backend="npu", options={"machine": "edge-8x8"})(mine)
    torch.testing.assert_close(made, function(theirs))
    torch.testing.assert_close(mine, theirs)


def _norm_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [8], w, None, 1e-5)
    return torch.ops.aten.native_layer_norm_backward(g, x, [8], mean, rstd, w, None, [True, False, False])


@pytest.mark.test_all(but=1)
@both
def test_results_that_an_op_leaves_out_are_none(capture: str):
    same_as_eager(_norm_backward, lambda: (R(4, 8), R(4, 8), R(8)), capture=capture, hosted=None)


class Counter(nn.Module):
    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("n", start)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x * self.n


def _with_state(model: nn.Module, capture: str, make: Any) -> wb.Journey:
    """Runs and checks it; the buffers are as PyTorch's after the run, and as before after trace and check."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    journey = wb.trace(model, *make(), machine="edge-8x8", capture=capture)
    assert journey.check(*make()).ok
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    given = make()
    ours = journey.run(*given)
    after = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(before)
    with torch.no_grad():
        torch.testing.assert_close(ours, model(*given), rtol=1e-4, atol=1e-4)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(after[name], value, rtol=1e-4, atol=1e-4)
    return journey


@pytest.mark.test_all
@both
@pytest.mark.parametrize(
    "make",
    [
        lambda: (Counter(torch.zeros(())), lambda: (R(3),)),
        lambda: (Counter(torch.tensor(0)), lambda: (R(3),)),
        lambda: (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), lambda: (R(2, 4),)),
        lambda: (nn.BatchNorm1d(3), lambda: (R(5, 3),)),
    ],
    ids=["float", "int", "spectral_norm", "batch_norm"],
)
def test_buffers_that_change_are_changes_of_the_graph(make: Any, capture: str):
    model, inputs = make()
    journey = _with_state(model, capture, inputs)
    assert not journey.captured.breaks and journey.captured.record.mutations


@pytest.mark.test_all
@both
def test_a_weight_that_is_computed_anew_each_time_is_put_there_by_python(capture: str):
    journey = _with_state(nn.utils.spectral_norm(nn.Linear(4, 3)), capture, lambda: (R(2, 4),))
    assert "new tensors are put into an object that it holds (weight)" in journey.captured.breaks[-1]


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 2), nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen, made = self.gate(x).argmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            (rows,) = torch.where(chosen == number)
            made[rows] = expert(x[rows])
        return made


@pytest.mark.test_all
def test_the_experts_of_a_mixture_are_kernels_between_breaks():
    torch.manual_seed(0)
    journey = wb.trace(model := Mixture(), x := R(5, 4), machine="edge-8x8")
    ops = [node.op for node in journey.captured.record.nodes]
    assert ops.count("aten.linear.default") == 3 and BREAK in ops
    with torch.no_grad():
        torch.testing.assert_close(journey.run(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.test_all(but=1)
@both
@pytest.mark.parametrize("function", [lambda i: torch.unique(i), lambda i: torch.where(i == 1)[0] + 1])
def test_a_shape_that_data_decides_is_a_step_on_the_host(function: Any, capture: str):
    with pytest.warns(HostRoute, match="a shape that depends on the data"):
        journey = wb.trace(function, torch.tensor([1, 0, 1, 3]), machine="edge-8x8", capture=capture)
    other = torch.tensor([1, 1, 2, 1])
    assert torch.equal(journey.run(other), function(other)) and journey.check().ok and journey.check(other).ok
    assert journey.scheduled.record.hosts


HIGHER = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos() * 2, (x * 2,)) + 1,
    "while_loop": lambda x: while_loop(lambda y: y.abs().sum() > 1, lambda y: (y / 2,), (x * 2,))[0] + 1,
    "scan": lambda x: scan(lambda c, y: (c + y, c * y), torch.zeros(3), x * 2),
    "map_impl": lambda x: over_rows(lambda y, z: y.sin() * z, x * 2, x[0]) + 1,
}


@pytest.mark.test_all
@both
@pytest.mark.parametrize("name", HIGHER)
def test_ops_that_are_given_graphs_to_run_are_steps_on_the_host(name: str, capture: str):
    journey = same_as_eager(HIGHER[name], lambda: (R(5, 3),), capture=capture, hosted=(f"higher_order.{name}.default",))
    (node,) = [node for node in journey.captured.record.nodes if node.bodies]
    assert node.bodies[0].nodes and node.bodies[0].name in journey.captured.text()
    (step,) = [step for step in journey.scheduled.record.hosts if step.op == node.op]
    assert step.flops > 0
    again = type(journey.captured.record).from_json(journey.captured.record.to_json())
    assert again == journey.captured.record


@pytest.mark.test_all
def test_attention_with_a_score_of_ones_own():
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q + 1, k, v, score_mod=lambda score, b, h, i, j: score + (i - j)) * 2

    make = lambda: (R(1, 2, 16, 8), R(1, 2, 16, 8), R(1, 2, 16, 8))  # noqa: E731
    same_as_eager(function, make, hosted=("higher_order.flex_attention.default",))


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: torch.Tensor
    _b: Any = None
    n: int = 3


@dataclasses.dataclass
class Derived:
    a: torch.Tensor
    b: torch.Tensor = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.b = self.a + 1


@dataclasses.dataclass
class Output(OrderedDict[str, Any]):
    """Like the outputs of transformers: a dict of the fields that are not None, and a dataclass."""

    logits: Any = None
    hidden: Any = None
    attentions: Any = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if (value := getattr(self, field.name)) is not None:
                self[field.name] = value


class Cache:
    def __init__(self, keys: list[torch.Tensor]) -> None:
        self.keys = keys


class Unknown(Cache):
    __slots__ = ("more",)


pytree.register_pytree_node(Cache, lambda it: (it.keys, None), lambda parts, _: Cache(list(parts)))


def _outputs(x: torch.Tensor) -> Any:
    return [Frozen(x * 2, [x + 1, None]), Derived(x * 3), OrderedDict(a=x - 1), {0: x / 2}]


@pytest.mark.test_all
@both
def test_containers_come_back_as_they_are_made(capture: str):
    journey = wb.trace(_outputs, R(3), machine="edge-8x8", capture=capture)
    x = R(3)
    frozen, derived, ordered, plain = journey.run(x)  # type: ignore[misc]
    assert type(frozen) is Frozen and torch.equal(frozen.a, x * 2) and frozen._b[1] is None and frozen.n == 3
    assert type(derived) is Derived and torch.equal(derived.b, x * 3 + 1)
    assert type(ordered) is OrderedDict and torch.equal(ordered["a"], x - 1) and list(plain) == [0]
    assert journey.check().ok and journey.check(R(3)).ok
    named = journey.captured.record.tree.items[0]
    assert named.cls.endswith("Frozen") and named.keys == (".a", "._b", ".n")


@both
def test_a_dict_that_is_a_dataclass_too(capture: str):
    def function(given: Output) -> Output:
        return Output(logits=given.logits * 2, attentions=(given["attentions"][0] + 1,))

    made = Output(logits=R(3), attentions=(R(3),))
    journey = wb.trace(function, made, machine="edge-8x8", capture=capture)
    assert [slot.path for slot in journey.captured.record.inputs] == ["given['logits']", "given['attentions'][0]"]
    ours: Any = journey.run(made)
    assert type(ours) is Output and list(ours) == ["logits", "attentions"] and ours.hidden is None
    assert ours.logits is ours["logits"] and torch.equal(ours.logits, made.logits * 2)


@pytest.mark.test_all
@both
def test_what_is_put_into_a_registered_object_is_there_afterwards(capture: str):
    def function(cache: Cache, x: torch.Tensor) -> torch.Tensor:
        cache.keys.append(x * 2)
        return torch.cat(cache.keys) + 1

    journey = wb.trace(function, Cache([R(3)]), R(3), machine="edge-8x8", capture=capture)
    cache, x = Cache([R(3)]), R(3)
    expected = torch.cat([cache.keys[0], x * 2]) + 1
    torch.testing.assert_close(journey.run(cache, x), expected)
    assert len(cache.keys) == 2 and torch.equal(cache.keys[1], x * 2)
    assert journey.check(Cache([R(3)]), R(3)).ok


@both
def test_other_objects_are_refused_with_the_way_to_register_them(capture: str):
    advice = r"register_pytree_node\(Unknown, .*register_dataclass\(Unknown\)"
    with pytest.raises(UnsupportedContainer, match=rf"inputs\[0\] of .*Unknown.*{advice}"):
        wb.trace(lambda it: it.keys[0] + 1, Unknown([R(3)]), capture=capture)
    with pytest.raises(UnsupportedContainer, match=rf"returns a value of type .*Unknown.*{advice}"):
        wb.trace(lambda x: Unknown([x + 1]), R(3), capture=capture)


def test_a_mapping_is_taken_by_its_attributes_or_not_at_all():
    value = UserDict({"a": R(2)})
    again: Any = _again(value)
    assert type(again) is UserDict and torch.equal(again["a"], value["a"])
    with pytest.raises(containers.NotATree, match="mappingproxy"):
        containers.flatten(MappingProxyType({"a": R(2)}))


def _again(value: object) -> Any:
    flat = containers.Flat()
    tree = flat.take(value, "")
    return containers.rebuild(tree, [tensor for _, tensor in flat.leaves], flat.classes)


def test_parts_of_containers_go_back_without_calls_of_their_classes():
    value = Output(logits=R(2), attentions=(R(1), None))
    again: Any = _again(value)
    assert type(again) is Output and again == value and again.attentions is again["attentions"]
    assert [path for path, _ in containers.flatten(value)[1]] == ["['logits']", "['attentions'][0]"]


@both
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: torch.nested.nested_tensor([R(3), R(2)], layout=torch.jagged), "is a nested tensor"),
        (lambda: torch.eye(3).to_sparse(), "has the layout sparse_coo: give it dense"),
        (lambda: torch.quantize_per_tensor(R(3), 0.1, 0, torch.qint8), "is a quantized tensor"),
        (lambda: R(3, 3).to_mkldnn(), "has the layout _mkldnn: give it dense"),
    ],
    ids=["nested", "sparse", "quantized", "mkldnn"],
)
def test_tensors_of_other_kinds_are_one_error_that_names_them(make: Any, kind: str, capture: str):
    with pytest.raises(UnreadableTensor, match=f"odd of <lambda> {kind}"):
        wb.trace(lambda x, odd: odd * 2, R(3), make(), capture=capture)


def test_a_function_that_reads_the_numbers_of_a_result_is_broken_up_there():
    def through_numpy(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy((x * 2).numpy() + 1) * 3

    journey = wb.trace(through_numpy, torch.arange(3.0))
    assert journey.check()
    with pytest.raises(UnsupportedContainer, match=r"numpy.ndarray"):
        wb.trace(lambda x: (x * 2).numpy(), torch.arange(3.0))
