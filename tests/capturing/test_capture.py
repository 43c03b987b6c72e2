"""Capture: both ways give one record, the record says what the function computes, and user mistakes are named."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import re
import threading
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.exc import TorchRuntimeError, Unsupported
from torch._export.utils import _compiling_state_context
from torch.autograd import forward_ad

import workbench as wb
from tests.programs import PROGRAMS
from workbench.capturing.capture import capture
from workbench.capturing.live_call import CapturedProgram
from workbench.ground import errors
from workbench.ir import AtenGraph
from workbench.operators.host.run_graph import InputCountMismatch, execute

MODES = ("dynamo", "export")


def run(captured: CapturedProgram, inputs: tuple[object, ...], kwargs: dict[str, object] | None = None) -> object:
    """Runs the record for a call; returns its results in the function's own containers."""
    return captured.rebuild(execute(captured.graph, captured.values(inputs, kwargs)).outputs)


def both(fn: Any, *inputs: object, **kwargs: object) -> AtenGraph:
    """The record, after making sure that both ways give the same one."""
    first, second = (capture(fn, inputs, kwargs, mode=mode).graph for mode in MODES)
    assert dataclasses.replace(second, capture="dynamo") == first
    return first


@pytest.mark.test_all(but=4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_captures_give_one_record_that_computes_what_eager_does(name: str) -> None:
    program = PROGRAMS[name]
    fn = program.build()
    captured = {mode: capture(fn, program.inputs(), program.kwargs(), mode=mode) for mode in MODES}
    for mode in MODES:
        assert captured[mode].graph.capture == mode
        fresh, options = program.inputs(seed=7), program.kwargs(seed=7)
        torch.testing.assert_close(run(captured[mode], fresh, options), fn(*fresh, **options), rtol=1e-6, atol=1e-6)
    assert dataclasses.replace(captured["export"].graph, capture="dynamo") == captured["dynamo"].graph
    graph = captured["dynamo"].graph
    assert AtenGraph.from_json(graph.to_json()) == graph


@pytest.mark.test_all
def test_high_level_ops_stay_whole() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.silu(F.layer_norm(F.hardswish(F.linear(x, w)), (5,))).softmax(-1)

    ops = [node.op for node in both(fn, torch.randn(3, 4), torch.randn(5, 4)).nodes]
    assert ops == [
        "aten.linear.default",
        "aten.hardswish.default",
        "aten.layer_norm.default",
        "aten.silu.default",
        "aten.softmax.int",
    ]


def test_origins_name_the_users_line_and_module() -> None:
    program = PROGRAMS["mlp"]
    graph = both(program.build(), *program.inputs())
    first, middle, last = graph.nodes
    assert first.origin.file is not None and first.origin.file.endswith("tests/programs.py")
    source, start = inspect.getsourcelines(type(program.build()).forward)
    assert {node.origin.line for node in graph.nodes} == {start + len(source) - 1}
    assert [node.origin.module for node in (first, middle, last)] == ["fc1", "", "fc2"]
    assert first.origin.place == f"{first.origin.file}:{first.origin.line}"


def test_the_innermost_frame_of_the_users_own_code_is_named() -> None:
    def helper(x: torch.Tensor) -> torch.Tensor:
        return x.sigmoid()

    graph = both(lambda x: helper(x) * 2, torch.randn(3))
    line = inspect.getsourcelines(helper)[1] + 1
    assert [node.origin.line for node in graph.nodes] == [line, line + 2]


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.b_weight = nn.Parameter(torch.randn(4))
        self.a_weight = nn.Parameter(torch.randn(4))
        self.register_buffer("seen", torch.zeros(4))
        self.plain = torch.ones(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.sum(0))
        return x * self.b_weight + self.a_weight + self.plain


def test_inputs_are_users_then_parameters_buffers_and_closed_over_by_name() -> None:
    graph = both(Stateful(), torch.randn(3, 4))
    assert [(i.value, i.kind, i.path) for i in graph.inputs] == [
        ("x", "user", "x"),
        ("a_weight", "parameter", "a_weight"),
        ("b_weight", "parameter", "b_weight"),
        ("seen", "buffer", "seen"),
        ("plain", "closure", "plain"),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_mutations_are_listed_and_the_capture_itself_changes_nothing(mode: str) -> None:
    model, x = Stateful(), torch.randn(3, 4)
    captured = capture(model, (x,), mode=mode)
    assert torch.equal(model.seen, torch.zeros(4))
    (mutation,) = captured.graph.mutations
    assert mutation.target == "seen"
    done = execute(captured.graph, [x, *captured.live()])
    torch.testing.assert_close(done.mutated["seen"], x.sum(0))
    assert torch.equal(model.seen, torch.zeros(4))


def test_an_input_changed_in_place_and_returned_is_its_new_value() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(1)
        return x, x * 2

    x = torch.randn(3)
    before = x.clone()
    graph = both(fn, x)
    assert torch.equal(x, before)
    assert graph.outputs[0] == graph.mutations[0].value != "x"


@pytest.mark.parametrize("mode", MODES)
def test_live_reads_todays_weights_and_closures(mode: str) -> None:
    held = {"scale": torch.tensor([2.0])}
    model = nn.Linear(2, 2)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return model(x) * held["scale"]

    captured = capture(fn, (torch.randn(1, 2),), mode=mode)
    assert [i.path for i in captured.graph.inputs[1:]] == ["model.bias", "model.weight", "held['scale']"]
    held["scale"] = torch.tensor([5.0])
    model.weight = nn.Parameter(torch.eye(2))
    with torch.no_grad():
        model.bias.zero_()
    x = torch.randn(1, 2)
    torch.testing.assert_close(run(captured, (x,)), x * 5)


def test_the_record_holds_no_weights() -> None:
    model = nn.Linear(300, 300)
    assert len(capture(model, (torch.randn(2, 300),)).graph.to_json()) < 10_000


def test_capture_needs_no_weights() -> None:
    model = nn.Linear(300, 200, device="meta")
    graph = both(model, torch.randn(2, 300, device="meta"))
    assert graph.types[graph.outputs[0]].shape == (2, 200)


GLOBAL = torch.randn(4)


class Helper:
    """Not a module, and holds a tensor."""

    def __init__(self) -> None:
        self.bias = torch.randn(4)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias + GLOBAL


@pytest.mark.test_all
@pytest.mark.parametrize("mode", MODES)
def test_tensors_in_globals_objects_partials_and_methods_are_found(mode: str) -> None:
    helper = Helper()
    x = torch.randn(2, 4)
    captured = capture(functools.partial(torch.mul, helper.bias), (x,), mode=mode)
    torch.testing.assert_close(run(captured, (x,)), x * helper.bias)
    assert [i.kind for i in captured.graph.inputs] == ["user", "closure"]
    for target in (helper, helper.__call__):
        captured = capture(target, (x,), mode=mode)
        assert sorted(i.path for i in captured.graph.inputs if i.kind == "closure") == ["GLOBAL", "bias"]
        torch.testing.assert_close(run(captured, (x,)), helper(x))


@pytest.mark.parametrize("mode", MODES)
def test_a_closed_over_parameter_keeps_its_gradient_flag(mode: str) -> None:
    weight = nn.Parameter(torch.randn(4))
    captured = capture(lambda x: x * weight, (torch.randn(2, 4),), mode=mode)
    assert weight.requires_grad
    assert [(i.kind, i.path) for i in captured.graph.inputs[1:]] == [("parameter", "weight")]


def test_results_keep_their_containers() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        total = x + y
        return {"twice": [total, total], "input": y, "number": 3, "none": None, "nested": ((total * 2,), "text")}

    inputs = (torch.randn(3), torch.randn(3))
    graph = both(fn, *inputs)
    assert graph.outputs == ("add", "add", "y", "mul")
    captured = capture(fn, inputs)
    found, expected = run(captured, inputs), fn(*inputs)
    assert list(found) == list(expected)
    torch.testing.assert_close(found["nested"][0], expected["nested"][0])
    assert found["input"] is inputs[1]
    assert (found["number"], found["none"], found["nested"][1]) == (3, None, "text")
    assert isinstance(found["twice"], list) and found["twice"][0] is found["twice"][1]


@pytest.mark.test_all
def test_inputs_may_be_nested_and_one_tensor_given_twice_stays_two_inputs() -> None:
    def fn(pair: tuple[torch.Tensor, torch.Tensor], options: dict[str, Any], *rest: torch.Tensor, flag: bool) -> Any:
        return pair[0] - pair[1] + (options["bias"] if flag else 0) + rest[0]

    x, bias, last = torch.randn(3), torch.randn(3), torch.randn(3)
    graph = both(fn, (x, x), {"bias": bias, "unused": x}, last, flag=True)
    assert [i.path for i in graph.inputs] == ["pair[0]", "pair[1]", "options['bias']", "options['unused']", "rest[0]"]
    captured = capture(fn, ((x, x), {"bias": bias, "unused": x}, last), {"flag": True})
    call = ((torch.zeros(3), torch.ones(3)), {"bias": bias, "unused": x}, last)
    torch.testing.assert_close(run(captured, call, {"flag": True}), bias + last - 1)
    with pytest.raises(errors.InputMismatch, match="trace again"):
        captured.values(call, {"flag": False})


def test_keyword_arguments_come_last_and_are_named() -> None:
    graph = both(lambda x, *, b, a: x * a + b, torch.randn(3), b=torch.randn(3), a=torch.randn(3))
    assert [i.path for i in graph.inputs] == ["x", "kwargs['b']", "kwargs['a']"]


@pytest.mark.test_all
def test_repeated_traces_of_one_function_all_work() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2, dim=-1)

    graphs = [capture(fn, (torch.randn(n, 5),)).graph for n in range(2, 14)]
    assert [graph.types[graph.outputs[0]].shape for graph in graphs] == [(n, 5) for n in range(2, 14)]
    assert all(len(graph.nodes) == 2 for graph in graphs)


def test_shapes_are_numbers_even_after_other_shapes() -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x.reshape(n, -1) * x.shape[0] / n

    for rows, n in ((4, 2), (6, 3), (8, 4)):
        graph = both(fn, torch.randn(rows, 6), n)
        assert graph.types[graph.outputs[0]].shape == (n, rows * 6 // n)


def test_strided_inputs_and_views_are_described_from_where_they_begin() -> None:
    whole = torch.randn(10, 8)
    graph = both(lambda x: (x[1:] * 2, x[1:].t()), whole[2:, 1:5])
    assert graph.types["x"].strides == (8, 1) and graph.types["x"].offset == 0
    view = graph.types[graph.outputs[1]]
    assert (view.shape, view.strides, view.offset) == ((4, 7), (1, 8), 8)


def test_dead_work_is_left_out() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        _ = x.exp().sum()
        return x * 2

    assert [node.op for node in both(fn, torch.randn(3)).nodes] == ["aten.mul.Tensor"]


def test_several_results_of_one_op_are_named_one_by_one() -> None:
    graph = both(lambda x: x.split(2, dim=-1)[1] + 1, torch.randn(3, 6))
    split, add = graph.nodes
    assert split.results == ("split.0", "split.1", "split.2")
    assert add.operands == ("split.1",)


def test_gradients_are_off_during_capture_and_on_again_after_it() -> None:
    model = nn.Linear(3, 3)
    assert torch.is_grad_enabled()
    assert len(both(model, torch.randn(2, 3)).outputs) == 1
    assert torch.is_grad_enabled() and model.weight.requires_grad


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x
    return -x


def failing(x: torch.Tensor) -> torch.Tensor:
    return x @ x


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("fn", "inputs", "error", "message"),
    [
        (lambda x: x, (torch.ones(2),), errors.NoTensorWork, "computes nothing"),
        (lambda: 3, (), errors.NoTensorWork, "computes nothing"),
        (lambda x: {Pair(1, x): x + 1}, (torch.ones(2),), errors.UnsupportedContainer, "key Pair.* is not a string"),
        (lambda x: x + 1, (Helper(),), errors.UnsupportedContainer, r"inputs\[0\] of <lambda> is .*Helper"),
        (lambda x: x + 1, (torch.ones(2), 3), errors.InputMismatch, "too many positional"),
        (lambda x, y: x + y, (torch.ones(2),), errors.InputMismatch, "missing a required argument: 'y'"),
        ("softmax", (torch.ones(2),), errors.InputMismatch, "expected a function"),
    ],
)
def test_user_mistakes_have_their_own_errors(
    mode: str, fn: Any, inputs: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        capture(fn, inputs, mode=mode)


def test_a_graph_break_names_the_users_line() -> None:
    place = f"test_capture.py:{inspect.getsourcelines(branching)[1] + 1}"
    assert place in capture(branching, (torch.ones(2),), mode="export").breaks[0]
    with pytest.raises(errors.GraphBreak, match=r"branching cannot be captured as one graph") as caught:
        capture(branching, (torch.ones(2, device="meta"),), mode="export")
    assert place in str(caught.value)


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    ("fn", "what"),
    [(lambda x: x[x > 0], "a shape that depends on the data"), (lambda x: x * x.sum().item(), "depends on the data")],
)
def test_shapes_and_numbers_from_the_data_are_graph_breaks(fn: Any, what: str) -> None:
    with pytest.raises(errors.GraphBreak, match=what):
        capture(fn, (torch.ones(2, device="meta"),), mode="export")
    assert re.search("depends on the data|read from the data", capture(fn, (torch.ones(2),), mode="export").breaks[0])


def raising(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("bad shape")


@pytest.mark.parametrize(
    ("fn", "line", "message"),
    [
        (failing, 1, r"captured: RuntimeError: a and b must have same reduction dim, .* X .*\], in matmul, at "),
        (raising, 1, r"ValueError\('bad shape'\)"),
    ],
)
def test_an_error_in_the_users_function_names_its_line(fn: Any, line: int, message: str) -> None:
    with pytest.raises(errors.CaptureFailed, match=message) as caught:
        capture(fn, (torch.ones(2, 3),))
    assert f"test_capture.py:{inspect.getsourcelines(fn)[1] + line}" in str(caught.value)


@pytest.mark.parametrize(("fn", "kind"), [(failing, TorchRuntimeError), (raising, Unsupported)])
def test_pages_of_pytorchs_traceback_are_kept_and_not_shown(fn: Any, kind: type[Exception]) -> None:
    with pytest.raises(errors.CaptureFailed) as caught:
        wb.trace(fn, torch.ones(2, 3))
    error = caught.value
    assert isinstance(error.original, kind) and traceback.extract_tb(error.original.__traceback__)
    shown = "".join(traceback.format_exception(error))
    assert len(shown.splitlines()) < 12 and os.path.dirname(torch.__file__) not in shown
    with pytest.raises(errors.GraphBreak) as caught:
        wb.trace(lambda x: x if x.sum() > 0 else -x, torch.ones(2, 3, device="meta"), capture="export")
    assert caught.value.original is not None and len(traceback.format_exception(caught.value)) < 12


def test_what_the_users_code_raises_has_its_own_frames_and_none_of_pytorchs() -> None:
    def loading(x: torch.Tensor) -> torch.Tensor:
        return x + json.loads("{")

    for fn, kind in ((raising, ValueError), (failing, RuntimeError), (loading, json.JSONDecodeError)):
        with pytest.raises(kind) as caught:
            wb.trace(fn, torch.ones(2, 3), capture="export")
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert fn.__name__ in [frame.name for frame in frames]
        assert not [frame for frame in frames if frame.filename.startswith(os.path.dirname(torch.__file__))]
    assert [frame.name for frame in frames][-1] == "raw_decode"  # in a library that is not PyTorch


def test_the_export_way_lets_the_users_own_error_through() -> None:
    with pytest.raises(ValueError, match="bad shape"):
        capture(raising, (torch.ones(2, 3),), mode="export")


class Replacing(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.plain = torch.zeros(2)
        self.register_buffer("kept", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        setattr(self, self.name, getattr(self, self.name) + 1)
        return x + getattr(self, self.name)


@pytest.mark.test_all
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["plain", "kept"])
def test_replacing_a_held_tensor_is_left_to_python_and_leaves_it_alone(mode: str, name: str) -> None:
    model = Replacing(name)
    assert f"({name})" in capture(model, (torch.ones(2),), mode=mode).breaks[-1]
    assert torch.equal(model.plain, torch.zeros(2)) and torch.equal(model.kept, torch.zeros(2))


@pytest.mark.parametrize("mode", MODES)
def test_collecting_results_in_a_list_outside_is_left_to_python(mode: str) -> None:
    collected: list[torch.Tensor] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        collected.append(x + 1)
        return x * 2

    assert "collected[0]" in capture(fn, (torch.ones(2),), mode=mode).breaks[-1]
    assert not collected


@pytest.mark.test_all
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("module", "path"),
    [(nn.Linear(4, 3), ""), (nn.Sequential(nn.Linear(4, 3), nn.Tanh()), "1"), (nn.LSTM(4, 3), "")],
)
def test_what_only_pytorchs_own_modules_call_has_the_line_of_the_trace(mode: str, module: nn.Module, path: str) -> None:
    program = capture(module, (torch.randn(2, 4),), mode=mode)
    source, first = inspect.getsourcelines(test_what_only_pytorchs_own_modules_call_has_the_line_of_the_trace)
    line = first + next(number for number, text in enumerate(source) if "capture(module" in text)
    assert {node.origin.place for node in program.graph.nodes} == {f"{__file__}:{line}"}
    assert program.graph.nodes[-1].origin.module == path
    assert {slot.kind for slot in program.graph.inputs} == {"user", "parameter"}


@pytest.mark.test_all(but=5)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("take", "call"),
    [
        (lambda loss, x: torch.autograd.grad(loss, x), r"torch\.autograd\.grad"),
        (lambda loss, x: loss.backward(), r"torch\.autograd\.backward|Tensor\.backward"),
        (lambda loss, x: torch.func.grad(torch.sum)(x), "torch.func"),
        (lambda loss, x: torch.func.vmap(torch.func.grad(torch.exp))(x), "torch.func"),
        (lambda loss, x: torch.func.jvp(torch.sum, (x,), (x,)), "torch.func"),
        (lambda loss, x: torch.func.jacfwd(torch.exp)(x), "torch.func"),
        (lambda loss, x: _tangent(x), r"torch\.autograd\.forward_ad"),
    ],
)
def test_gradients_taken_inside_are_refused(mode: str, take: Any, call: str) -> None:
    def fn(x: torch.Tensor) -> object:
        with torch.enable_grad():
            return take((x * x).sum(), x)

    with pytest.raises(errors.GradientsInside, match=rf"fn takes gradients inside \(({call}).* outside"):
        capture(fn, (torch.randn(3, requires_grad=True),), mode=mode)
    x = torch.ones(3)
    torch.testing.assert_close(torch.func.jvp(torch.exp, (x,), (x,))[1], x.exp())  # nothing is left of a transform


def _tangent(x: torch.Tensor) -> object:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(x.detach(), x.detach()).exp()).tangent


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), r"was given no inputs.* 2 tensors \(x: 2xf32, y\['a'\]: 3xi64\), called as \(·, \{'a': ·\}\)"),
        ((torch.ones(2),), r"was given \(·\) \(a dot is a tensor; they are x: 2xf32, y\['a'\]: 3xi64\)"),
    ],
)
def test_inputs_that_are_missing_are_named(given: tuple[object, ...], told: str) -> None:
    captured = capture(lambda x, y: (x + 1, y["a"] * 2), (torch.ones(2), {"a": torch.arange(3)}))
    with pytest.raises(errors.InputMismatch, match=told):
        captured.values(given)


def test_a_call_unlike_the_captured_one_is_refused() -> None:
    captured = capture(lambda x: x + 1, (torch.ones(2),))
    with pytest.raises(errors.InputMismatch, match="input x was captured as 2xf32, and was given as 3xf32"):
        captured.values((torch.ones(3),))
    with pytest.raises(errors.InputMismatch, match="given as 2xi64"):
        captured.values((torch.ones(2, dtype=torch.int64),))
    with pytest.raises(InputCountMismatch, match="takes 1 tensors"):
        execute(captured.graph, [])


def test_a_dynamo_that_was_turned_off_for_other_programs_is_no_matter():
    expected = [node.name for node in wb.capture(torch.tanh, torch.randn(3)).record.nodes]
    with torch._dynamo.config.patch(disable=True):
        assert [node.name for node in wb.capture(torch.tanh, torch.randn(3)).record.nodes] == expected
        assert torch._dynamo.config.disable
    with torch.compiler.set_stance("force_eager"):
        assert [node.name for node in wb.capture(torch.tanh, torch.randn(3)).record.nodes] == expected
        assert torch._dynamo.eval_frame._stance.stance == "force_eager"


def test_other_threads_are_not_told_that_pytorch_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither during the export, nor while its graph is made functional: what they compile then must be compiled."""
    told = dict[str, list[bool]]()

    def asking(name: str, verb: Callable[..., object]) -> Callable[..., object]:
        def asked(*args: object, **kwargs: object) -> object:
            with _compiling_state_context():
                told[name] = [torch.compiler.is_exporting()]
                other = threading.Thread(target=lambda: told[name].append(torch.compiler.is_exporting()))
                other.start()
                other.join()
            return verb(*args, **kwargs)

        return asked

    monkeypatch.setattr(torch.export, "export", asking("export", torch.export.export))
    lowered = torch.export.ExportedProgram.run_decompositions
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", asking("functional", lowered))
    wb.trace(torch.relu, torch.randn(3), capture="export").captured  # noqa: B018
    assert told == {"export": [True, False], "functional": [True, False]}
