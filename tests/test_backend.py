"""`torch.compile(backend="npu")`: the numbers of the model, through the kernels of journeys."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import workbench as wb
from simulator.errors import MachineError
from tests.programs import MLP, PROGRAMS
from workbench.ground import errors

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("name", ["softmax_ragged", "mlp", "matmul_ragged", "results_in_tuple", "both_transposed"])
def test_the_compiled_function_gives_the_same_numbers(name: str):
    program = PROGRAMS[name]
    function = program.build()
    compiled = torch.compile(function, backend="npu")
    with torch.no_grad():
        for seed in (0, 1):
            torch.testing.assert_close(
                compiled(*program.inputs(seed)), function(*program.inputs(seed)), rtol=1e-4, atol=1e-4
            )
    (journey,) = wb.last_journeys()
    assert journey.check().ok and journey.simulated.cycles > 0


def test_options_reach_the_journey():
    x = torch.randn(9, 33)
    compiled = torch.compile(lambda x: torch.tanh(x) * 2, backend="npu", options={"machine": "edge-8x8"})
    torch.testing.assert_close(compiled(x), torch.tanh(x) * 2, rtol=1e-4, atol=1e-4)
    assert wb.last_journeys()[0].machine.name == "edge-8x8"


@pytest.mark.test_all
def test_origins_are_the_users_lines_and_inputs_have_their_names():
    model = MLP()
    with torch.no_grad():
        torch.compile(model, backend="npu")(torch.randn(3, 64))
    (journey,) = wb.last_journeys()
    assert {Path(file).name for file in journey.captured.table.file} == {"programs.py"}
    assert set(journey.captured.inputs.path) == {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "x"}


def test_parameters_are_read_as_they_are():
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    compiled = torch.compile(model, backend="npu")
    with torch.no_grad():
        compiled(x)
        first = wb.last_journeys()
        model.weight.mul_(3.0)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert wb.last_journeys() == first


@pytest.mark.test_all
def test_another_shape_is_another_journey_and_an_earlier_one_is_still_there():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) + x.shape[0]

    compiled = torch.compile(function, backend="npu")
    shapes = []
    for rows in (5, 7, 9, 5, 7):
        x = torch.randn(rows, 12)
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
        (journey,) = wb.last_journeys()
        shapes.append(journey.captured.inputs["shape"][0])
    assert shapes == [(5, 12), (7, 12), (9, 12), (5, 12), (5, 12)]  # one graph for all sizes made one of its own for 5


@pytest.mark.test_all
def test_a_number_that_was_fixed_is_guarded():
    def function(x: torch.Tensor, times: int) -> torch.Tensor:
        return x * times

    compiled, x = torch.compile(function, backend="npu", dynamic=True), torch.randn(4, 6)
    for times in (2, 3, 5, 3):
        torch.testing.assert_close(compiled(x, times), x * times)


@pytest.mark.test_all
def test_each_side_of_a_graph_break_is_a_journey():
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1)
        torch._dynamo.graph_break()
        return torch.tanh(y) * 2

    x = torch.randn(9, 33)
    torch.testing.assert_close(torch.compile(broken, backend="npu")(x), broken(x), rtol=1e-4, atol=1e-4)
    assert [set(journey.captured.table.op) for journey in wb.last_journeys()] == [
        {"aten.softmax.int"},
        {"aten.tanh.default", "aten.mul.Tensor"},
    ]
    torch.compile(lambda x: x * 2, backend="npu")(x)
    assert len(wb.last_journeys()) == 1


@torch.compiler.disable
def _on_the_host(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


@pytest.mark.parametrize("grows", [False, True])
def test_a_graph_before_a_break_says_that_what_follows_is_in_no_journey(grows: bool):
    def broken(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(_on_the_host(x * 2, w)) + 1

    line = inspect.getsourcelines(broken)[1] + 1
    x, w = torch.randn(4, 8).requires_grad_(grows), torch.randn(8, 8)
    torch.compile(broken, backend="npu")(x, w).sum().backward() if grows else torch.compile(broken, backend="npu")(x, w)
    first, *others = wb.last_journeys()
    assert first.captured.breaks == (f"{__file__}:{line}: a function under torch.compiler.disable",)
    assert f"then Python runs on the host, in no journey: {first.captured.breaks[0]}" in str(first.overview)
    assert others and not any(each.captured.breaks for each in others)
    assert not any("in no journey" in str(each.overview) for each in others)
    whole = wb.trace(broken, x.detach(), w)
    assert "between graphs: aten::mm x1" in str(whole.overview) and "in no journey" not in str(whole.overview)


def test_what_is_changed_in_place_is_changed():
    def function(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(x)
        return total * 2

    x, ours, theirs = torch.randn(4, 4), torch.zeros(4, 4), torch.zeros(4, 4)
    torch.testing.assert_close(torch.compile(function, backend="npu")(x, ours), function(x, theirs))
    torch.testing.assert_close(ours, theirs)


def test_what_runs_on_the_host_is_told_and_can_be_refused():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.i0(torch.relu(x))

    x = torch.randn(5, 5)
    with pytest.warns(errors.HostRoute, match=r"aten\.i0\.default"):
        torch.testing.assert_close(torch.compile(function, backend="npu")(x), function(x))
    torch._dynamo.reset()
    with pytest.raises(errors.MissingRoutes, match=r"aten\.i0\.default"):
        torch.compile(function, backend="npu", options={"on_missing": "error"})(x)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        (
            {"machin": "tpu-v3"},
            errors.BadOption,
            "no option 'machin'; its options are machine, on_missing, mapping, tuned, fusion, prefer",
        ),
        ({"mapping": "nope.toml"}, errors.WorkbenchError, "mapping='nope.toml': there is no file"),
        ({"tuned": "nope.toml"}, errors.WorkbenchError, "tuned='nope.toml': there is no file"),
        ({"machine": "tpu-v9"}, MachineError, "there is no machine 'tpu-v9'; did you mean 'tpu-v4'"),
    ],
)
def test_a_wrong_option_is_an_error_and_no_reason_for_the_host(options: Any, error: type[Exception], told: str):
    with pytest.raises(error, match=told):
        torch.compile(lambda x: x @ x, backend="npu", options=options)(torch.randn(5, 5))
