"""Graph breaks: one record with Python between its graphs, and a run that does what the function does."""

from __future__ import annotations

import inspect
import logging
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.variables.tensor import TensorVariable

import workbench as wb
from simulator.units.host import round_trip
from tests.eager import same_as_eager
from workbench.ground import errors
from workbench.ir import BREAK

pytestmark = pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")

R = torch.randn


def scaled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    y = x + 1
    top = x.amax().item()
    return torch.exp(y * top), y, top


def branching(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        return torch.relu(y)
    return torch.exp(y) + 1


def talking(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x)
    print("between")
    x.add_(1)
    return y * x


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("inside")
        return torch.relu(x)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.inner = nn.Linear(4, 6), nn.Linear(6, 3), Inner()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.last(self.inner(self.first(x)) + self.calls)


def test_a_number_read_from_the_data():
    journey = same_as_eager(scaled, lambda: (R(3, 4),))
    (told,) = journey.captured.breaks
    line = inspect.getsourcelines(scaled)[1] + 2
    assert f"test_graph_breaks.py:{line}: " in told and "item()" in told
    first, second = journey.captured.graphs
    assert [node.op for node in first.nodes] == ["aten.add.Tensor", "aten.amax.default"]
    assert [node.op for node in second.nodes] == ["aten.mul.Tensor", "aten.exp.default"]


def _listed(x: torch.Tensor) -> torch.Tensor:
    found: list[torch.Tensor] = []
    for number in range(3):
        found.append(torch.tanh(x * number))
        print(end="")
    return torch.stack(found)


def _overwritten(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    print(end="")
    whole = torch.zeros(5, 4)
    whole[2:] = y
    return whole


def _stacked(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    print(end="")
    return torch.stack([y, y * 2])


def _changed(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    print(end="")
    return torch.cat([x, x])


@pytest.mark.test_all
@pytest.mark.parametrize("function", [_listed, _overwritten, _stacked, _changed])
@pytest.mark.parametrize("fusion", [None, "none"])
def test_what_is_put_together_after_a_break_was_made_before_it(function: Any, fusion: Any):
    journey = wb.trace(function, R(3, 4), fusion=fusion)
    for _ in range(3):
        x = R(3, 4)
        torch.testing.assert_close(journey.run(x.clone()), function(x.clone()))
        assert journey.check().ok


def _masked(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y[y > 0] + 1


def _both(x: torch.Tensor) -> torch.Tensor:
    y = x * x.sum().item()
    print(end="")
    return y + 1


def _twice(x: torch.Tensor) -> torch.Tensor:
    def aloud(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print(end="")
        return y

    return aloud(aloud(x)) * 2


@pytest.mark.test_all
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_twice, ["3: a call of print (2x)"]),
        (_masked, ["2: a shape that depends on the data, of aten.nonzero.default"]),
        (lambda x: (x * 2).nonzero() + 1, ["0: a shape that depends on the data, of aten.nonzero.default"]),
        (branching, ["2: a branch that depends on the data"]),
        (_both, ["1: a number read from the data by item()", "2: a call of print"]),
    ],
)
def test_every_break_is_one_warning_with_its_line_and_nothing_else_is_said(function: Any, told: list[str]):
    said: list[logging.LogRecord] = []
    listener = logging.Handler()
    listener.emit = said.append
    log = logging.getLogger("torch._dynamo.variables.tensor")
    log.addHandler(listener)
    TensorVariable._warn_capture_scalar_outputs.cache_clear()  # PyTorch says it once in a process
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wb.trace(function, torch.tensor([1.0, 2.0, 3.0]), machine="edge-8x8")
    finally:
        log.removeHandler(listener)
    first = inspect.getsourcelines(function)[1]
    places = [(first + int(each[0]), each[3:]) for each in told]
    name = function.__name__
    expected = [f"{name}: a graph break, so Python runs on the host: {__file__}:{n}: {why}" for n, why in places]
    assert [str(each.message) for each in caught] == expected
    assert {(each.category, each.filename) for each in caught} == {(errors.HostRoute, __file__)}
    assert not said


def test_a_break_is_a_step_on_the_host_that_costs_what_crosses():
    journey = wb.trace(scaled, R(3, 4), machine="edge-8x8")
    (step,) = journey.scheduled.record.hosts
    assert (step.op, step.bytes_in, step.bytes_out, step.flops) == (BREAK, 4 * (12 + 1), 4 * 12, 0)
    (row,) = [row for row in journey.simulated.by_kernel.itertuples() if row.kernel == step.kernel]
    assert row.host_busy == sum(round_trip(step.bytes_in, 0, step.bytes_out, journey.machine)) > 0
    order = [launch.name for launch in journey.scheduled.record.launches.launches]
    assert order.index(step.kernel) == len(order) - 2


@pytest.mark.test_all
def test_no_kernel_spans_a_break_and_a_dead_one_stays():
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    journey = same_as_eager(function, lambda: (R(5),))
    assert [kernel.nodes for kernel in journey.lowered.record.kernels] == [("mul",), ("graph_break",), ("add",)]


@pytest.mark.test_all
def test_a_branch_goes_where_the_data_says():
    journey = wb.trace(branching, torch.ones(3, 4), machine="edge-8x8")
    assert journey.captured.breaks[0].endswith("a branch that depends on the data")
    assert "aten.relu.default" in [node.op for node in journey.captured.record.nodes]
    for x in (torch.ones(3, 4), -torch.ones(3, 4), -torch.ones(3, 4)):
        torch.testing.assert_close(journey.run(x), branching(x))
        assert journey.check(x).ok


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("machine", ["edge-8x8", "tpu-v3"])
def test_prints_happen_and_changes_in_place_reach_the_caller(machine: str, capsys: pytest.CaptureFixture[str]):
    x = R(3)
    before = x.clone()
    journey = wb.trace(talking, x, machine=machine)
    assert torch.equal(x, before)
    capsys.readouterr()
    y = x.clone()
    torch.testing.assert_close(journey.run(x), talking(y))
    assert torch.equal(x, y)
    assert capsys.readouterr().out == "between\n" * 2


@pytest.mark.test_all
@pytest.mark.parametrize("stage", ["captured", "rendered", "scheduled", "simulated"])
def test_a_check_holds_every_stage_against_eager_and_leaves_no_trace(stage: str):
    torch.manual_seed(0)
    model = Counting()
    journey = wb.trace(model, R(2, 4), machine="edge-8x8")
    assert len(journey.captured.graphs) >= 2
    assert journey.check(R(2, 4), stage=stage).ok
    assert float(model.calls) == 0
    assert [slot.path for slot in journey.captured.record.inputs][:1] == ["x"]
    assert {"calls", "first.weight", "last.bias"} <= {slot.path for slot in journey.captured.record.inputs}
    with torch.no_grad():
        expected = model(ones := torch.ones(2, 4))
        model.calls.zero_()
        torch.testing.assert_close(journey.run(ones), expected)
    assert float(model.calls) == 1


@pytest.mark.test_all
def test_a_shape_that_the_data_decides():
    journey = wb.trace(lambda x: torch.exp(x[x > 0]) * 2, torch.tensor([1.0, -1, 2, -3]), machine="edge-8x8")
    for given in ([1.0, -1, 2, -3], [-1.0, -1, -2, 3], [-1.0, -1, -2, -3]):
        x = torch.tensor(given)
        torch.testing.assert_close(journey.run(x), torch.exp(x[x > 0]) * 2)
    assert journey.check().ok


def test_a_result_that_python_makes_after_the_last_graph():
    journey = same_as_eager(lambda x: (x * 2).nonzero(), lambda: (R(3).relu() + torch.tensor([0.0, 1, 0]),))
    assert journey.captured.record.nodes[-1].op == BREAK


def test_a_broken_up_journey_is_saved_and_selected_in(tmp_path: Any):
    journey = wb.trace(scaled, R(3, 4), machine="edge-8x8")
    assert journey.select("exp").kernels
    assert "graph_break" in journey.lowered.text()
    journey.save(tmp_path / "broken.journey")
    loaded = wb.load(tmp_path / "broken.journey")
    assert loaded.simulated.cycles == journey.simulated.cycles
    assert len(loaded.captured.breaks) == 1


@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_what_no_graph_is_left_of_is_one_step_on_the_host(capture: str):
    journey = wb.trace(torch.nonzero, R(3), capture=capture)
    assert [node.op for node in journey.captured.record.nodes] == [BREAK]
    x = torch.tensor([0.0, 1, 2])
    assert torch.equal(journey.run(x), x.nonzero()) and journey.check(x).ok


def test_what_cannot_run_cannot_be_broken_up():
    with pytest.raises(errors.GraphBreak, match="give tensors that hold numbers, not tensors on the device 'meta'"):
        wb.trace(branching, torch.randn(3, device="meta"))


@pytest.mark.test_all
def test_repeated_traces_of_one_function_all_break():
    for count in range(2, 12):
        assert len(wb.capture(talking, R(count)).graphs) == 2


@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
def test_a_layer_on_both_sides_of_a_break_has_its_weight_in_both_graphs():
    layer = torch.nn.Linear(3, 3)

    def twice(x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        torch._dynamo.graph_break()
        return layer(y)

    assert wb.trace(twice, R(2, 3)).check()
