"""Work between the graphs of a broken-up call: PyTorch's operators there are steps on the host, with a price."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

import workbench as wb
from simulator.units.host import round_trip
from workbench.capturing.between_graphs import BetweenGraphs
from workbench.ir import MADE_BY_PYTHON, AtenGraph, HostWork, RecordFormatError, between_text

pytestmark = [
    pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]

R = torch.randn


@torch.compiler.disable
def eager_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


@torch.compiler.disable
def by_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.tanh(x.numpy()))


@torch.compiler.disable
def noise() -> None:
    torch.rand(100).sum()


@torch.compiler.disable
def first_row(x: torch.Tensor) -> torch.Tensor:
    return x.T[:, :1].unsqueeze(0).detach()


def product_between(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return eager_product(x * 2, w) + 1


def numpy_between(x: torch.Tensor) -> torch.Tensor:
    return by_numpy(x * 2) + 1


def view_between(x: torch.Tensor) -> torch.Tensor:
    return first_row(x * 2) + 1


def product_at_both_ends(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return eager_product(torch.relu(eager_product(x, w)), w)


def nothing_between(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print(end="")
    return y + 1


def net(size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size)).eval()


def quantised(module: nn.Module, *kinds: type[nn.Module]) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(module, set(kinds))  # pyright: ignore[reportUnknownMemberType]


def work_of(journey: wb.Journey) -> dict[str, HostWork]:
    return {each.op: each for each in journey.captured.record.host_work}


def test_a_quantised_net_pays_for_its_products_on_the_host():
    given, x = net(256), R(16, 256)
    one, other = (wb.trace(each, x, machine="edge-8x8") for each in (given, quantised(given, nn.Linear)))
    (step,) = other.scheduled.record.hosts
    assert step.flops == 2 * (2 * 16 * 256 * 256) + 16 * 256, "two products, and an operation for each number of relu"
    assert work_of(other)["quantized.linear_dynamic.default"].calls == 2
    read = 2 * 16 * 256 * 4 + 2 * 256 * (256 + 4)  # the weights have a byte each, the biases four
    assert work_of(other)["quantized.linear_dynamic.default"].bytes_in == read
    there, computes, back = round_trip(step.bytes_in, step.flops, step.bytes_out, other.machine)
    assert other.simulated.cycles >= there + computes + back > one.simulated.cycles
    assert other.check().ok


def test_the_host_is_named_wherever_cycles_are_told():
    given, x = net(64), R(16, 64)
    one, other = (wb.trace(each, x, machine="edge-8x8") for each in (given, quantised(given, nn.Linear)))
    label = "between graphs: quantized::linear_dynamic x2, aten::relu x1"
    assert list(other.simulated.by_kernel.title) == [label]
    assert list(other.lowered.table.kernel) == ["host0_graph_break"] and label in other.scheduled.text()
    (reason,) = [row.reason for row in other.findings.itertuples() if row.rule == "host trips"]
    assert reason.startswith(label) and f"for {2 * 2 * 16 * 64 * 64 + 16 * 64:,} operations. Quantized" in reason
    cycles = f"{other.simulated.cycles:,}"
    told = [each for each in wb.compare(one, other, names=["one", "other"]).text().splitlines() if label in each]
    assert told[0].startswith(f"other spends {cycles} of its {cycles} cycles in steps on the host") and label in told[0]
    assert label in str(other.html()) and f"{cycles} cycles on the host" in str(other.html())


def test_operators_between_graphs_are_one_step_where_they_run():
    journey = wb.trace(product_between, R(4, 8), R(8, 8), machine="edge-8x8")
    (work,) = journey.captured.record.host_work
    assert (work.name, work.calls, work.flops) == ("aten::mm", 1, 2 * 4 * 8 * 8)
    assert (work.bytes_in, work.bytes_out) == (4 * (4 * 8 + 8 * 8), 4 * 4 * 8)
    assert work.line == inspect.getsourcelines(eager_product)[1] + 2
    (step,) = journey.scheduled.record.hosts
    assert (step.bytes_in, step.bytes_out, step.flops) == (4 * (4 * 8 + 8 * 8), 4 * 4 * 8, work.flops)
    names = [launch.name for launch in journey.scheduled.record.launches.launches]
    assert names == ["k0_mul", "host1_graph_break", "k2_add"]
    assert journey.check().ok and journey.check(R(4, 8), R(8, 8)).ok


def test_work_before_the_first_graph_and_after_the_last_is_charged():
    journey = wb.trace(product_at_both_ends, R(4, 8), R(8, 8), machine="edge-8x8")
    names = [launch.name for launch in journey.scheduled.record.launches.launches]
    assert names == ["host0_graph_break", "k1_relu", "host2_graph_break"]
    first, last = journey.scheduled.record.hosts
    assert first.flops == last.flops == 2 * 4 * 8 * 8
    assert (first.bytes_in, last.bytes_in) == (4 * (4 * 8 + 8 * 8), 4 * 4 * 8), "the host keeps the input that it has"
    assert journey.check().ok


def test_work_that_reads_nothing_of_the_call_is_charged(tmp_path: Path):
    def function(x: torch.Tensor) -> torch.Tensor:
        noise()
        return x * 2

    journey = wb.trace(function, R(4), machine="edge-8x8")
    (step,) = journey.scheduled.record.hosts
    assert (step.bytes_in, step.bytes_out, step.flops) == (0, 0, 200)
    journey.save(tmp_path / "noise.journey")
    assert wb.load(tmp_path / "noise.journey").simulated.cycles == journey.simulated.cycles


@torch.compiler.disable
def bump(x: torch.Tensor) -> None:
    x.add_(1)


@torch.compiler.disable
def bump_a_row(x: torch.Tensor) -> None:
    torch.mul(x[0], 2, out=x[0])


def bumped_between(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x @ w
    bump(x)
    return y + x


def a_row_bumped_between(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x @ w
    bump_a_row(x)
    return y + x


class Bumped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(8, 8))

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        bump(self.count)
        return y + self.count


SIZE = 4 * 8 * 8


@pytest.mark.parametrize(
    ("function", "there"), [(bumped_between, 2 * SIZE), (a_row_bumped_between, 2 * SIZE), (Bumped(), SIZE)]
)
def test_what_the_host_changes_in_place_comes_back_to_the_graph_that_reads_it(function: Any, there: int):
    """A buffer is on the host already, and need not go there."""
    journey = wb.trace(function, R(8, 8), R(8, 8), machine="edge-8x8")
    (step,) = journey.scheduled.record.hosts
    assert (step.bytes_in, step.bytes_out) == (there, 2 * SIZE), "the product, and what was changed"
    assert journey.check().ok and journey.check(R(8, 8), R(8, 8)).ok


def test_a_change_on_the_host_comes_back_once_and_when_it_is_read():
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        bump(x)
        y = torch.relu(y)
        print(end="")
        y = y + x
        print(end="")
        return y * x

    journey = wb.trace(function, R(8, 8), R(8, 8), machine="edge-8x8")
    crossings = [(step.bytes_in, step.bytes_out) for step in journey.scheduled.record.hosts]
    assert crossings == [(2 * SIZE, SIZE), (SIZE, 2 * SIZE), (SIZE, SIZE)]
    assert journey.check().ok


def test_a_change_after_the_last_graph_comes_back_if_it_is_returned():
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        bump(y)
        return y

    journey = wb.trace(function, R(8, 8), R(8, 8), machine="edge-8x8")
    (step,) = journey.scheduled.record.hosts
    assert (step.bytes_in, step.bytes_out) == (SIZE, SIZE)
    assert journey.check().ok


def test_tensors_that_python_makes_without_pytorch_are_charged_by_their_elements():
    journey = wb.trace(numpy_between, R(4, 8), machine="edge-8x8")
    (work,) = journey.captured.record.host_work
    assert (work.op, work.calls, work.flops, work.bytes_out) == (MADE_BY_PYTHON, 1, 32, 128)
    assert journey.scheduled.record.hosts[0].what == "between graphs: tensors made by Python x1"
    assert journey.check().ok


@pytest.mark.parametrize("function", [nothing_between, view_between])
def test_a_break_in_which_nothing_is_computed_adds_no_work(function: Any):
    journey = wb.trace(function, R(4, 8), machine="edge-8x8")
    (step,) = journey.scheduled.record.hosts
    assert journey.captured.record.host_work == step.work == () and step.flops == 0
    assert "Python runs between graphs" in journey.scheduled.text()


def test_an_unbroken_function_and_its_graphs_have_no_work():
    assert wb.capture(lambda x: torch.relu(x @ x), R(4, 4)).record.host_work == ()
    for part in wb.capture(product_between, R(4, 8), R(8, 8)).graphs:
        assert part.host_work == ()


def test_a_recurrent_layer_is_charged_by_its_weights():
    journey = wb.trace(quantised(nn.Sequential(nn.LSTM(8, 16)), nn.LSTM), R(5, 2, 8), machine="edge-8x8")
    assert work_of(journey)["aten.quantized_lstm.input"].flops == 2 * (5 * 2) * (4 * 16) * (8 + 16)


@pytest.mark.parametrize(
    ("call", "flops"),
    [
        (lambda: torch.mv(R(3, 4), R(4)), 2 * 3 * 4),
        (lambda: torch._int_mm(*[torch.ones(32, 32, dtype=torch.int8)] * 2), 2 * 32**3),
        (lambda: nn.functional.scaled_dot_product_attention(*[R(1, 2, 5, 8)] * 3), 2 * 2 * 2 * 5 * 5 * 8),
        (lambda: torch.ao.nn.quantized.dynamic.Conv2d(3, 4, 3)(R(1, 3, 8, 8)), 2 * (4 * 6 * 6) * (3 * 3 * 3)),
        (lambda: nn.LSTM(8, 16)(R(5, 2, 8)), 2 * (5 * 2) * (4 * 16) * (8 + 16)),
        (lambda: torch.relu(torch.empty(7)), 7),
    ],
)
def test_products_are_counted_by_formula(call: Any, flops: int):
    between = BetweenGraphs([], [])
    with torch.no_grad(), between:
        call()
    assert flops in [each.flops for each in between.stretches[0].calls.values()]


def test_work_of_the_graphs_themselves_is_not_seen():
    between, x = BetweenGraphs([], []), R(3)
    with between:
        with between.graph():
            torch.exp(x)
        torch.relu(x)
    before, after = between.stretches
    assert not before.calls and [op for op, _ in after.calls] == ["aten.relu.default"]


def test_no_mode_is_left_behind():
    @torch.compiler.disable
    def failing(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("not today")

    wb.trace(product_between, R(4, 8), R(8, 8), machine="edge-8x8").run(R(4, 8), R(8, 8))
    assert _get_current_dispatch_mode_stack() == []
    with pytest.raises(Exception, match="not today"):
        wb.trace(lambda x: failing(x * 2), R(3))
    assert _get_current_dispatch_mode_stack() == []


def test_a_loaded_journey_has_the_same_work_and_cycles(tmp_path: Path):
    journey = wb.trace(product_between, R(4, 8), R(8, 8), machine="edge-8x8")
    journey.save(tmp_path / "broken.journey")
    loaded = wb.load(tmp_path / "broken.journey")
    assert loaded.captured.record == journey.captured.record
    assert loaded.scheduled.record.hosts == journey.scheduled.record.hosts
    assert loaded.simulated.cycles == journey.simulated.cycles
    assert loaded.with_(machine="tpu-v3").simulated.cycles == journey.with_(machine="tpu-v3").simulated.cycles


def test_work_that_no_break_has_is_refused():
    graph = wb.capture(product_between, R(4, 8), R(8, 8)).record
    assert AtenGraph.from_json(graph.to_json()) == graph
    (work,) = graph.host_work
    for wrong in (replace(work, node="mul"), replace(work, flops=-1), replace(work, op="a product")):
        with pytest.raises(RecordFormatError, match="between graphs"):
            AtenGraph.from_json(replace(graph, host_work=(wrong,)).to_json())
    body = json.loads(graph.to_json())
    body["record"]["host_work"][0]["more"] = 1
    with pytest.raises(RecordFormatError, match=r"not a HostWork \(unknown: \['more'\]"):
        AtenGraph.from_json(json.dumps(body))


def test_a_label_names_the_operators_with_most_operations_and_counts_the_others():
    each = [HostWork("b", f"aten.op{number}.default", 1, 0, 0, number) for number in range(5)]
    assert between_text(each) == "between graphs: aten::op4 x1, aten::op3 x1, aten::op2 x1, 2 more"
    assert between_text(()) == ""


def test_tensors_without_data_cost_nothing() -> None:
    """Stand-ins of another trace, and tensors of the device `meta`."""

    def traced_inside(x: torch.Tensor) -> torch.Tensor:
        return make_fx(lambda a: a @ a.t(), tracing_mode="symbolic")(x)(x)

    def without_data(x: torch.Tensor) -> torch.Tensor:
        torch.empty(4096, 4096, device="meta") @ torch.empty(4096, 4096, device="meta")
        return x + 1

    for inside, ops in ((traced_inside, ["aten.mm.default"]), (without_data, ["aten.add.Tensor"])):
        hidden = torch.compiler.disable(inside)
        j = wb.trace(lambda x, hidden=hidden: hidden(x * 2) + 1, torch.randn(16, 32), machine="edge-8x8")
        assert [each.op for each in j.captured.record.host_work] == ops
        assert all(type(each.flops) is int for each in j.captured.record.host_work) and j.simulated.cycles < 20_000


def test_a_packed_table_is_looked_up_in_and_not_multiplied() -> None:
    bag = nn.Sequential(nn.EmbeddingBag(20_000, 64, mode="sum")).eval()
    kind = torch.ao.quantization.float_qparams_weight_only_qconfig
    packed = torch.ao.quantization.quantize_dynamic(bag, {nn.EmbeddingBag: kind}, dtype=torch.quint8)
    j = wb.trace(lambda i: packed(i) + 1, torch.tensor([[1, 2], [3, 4]]), machine="edge-8x8")
    (work,) = j.captured.record.host_work
    assert work.op.startswith("quantized.embedding_bag") and work.flops < 1_000


def test_a_call_in_parts_leaves_the_random_numbers_where_they_were() -> None:
    drawing = torch.compiler.disable(torch.rand_like)
    x = torch.randn(8, 8)
    torch.manual_seed(5)
    first = torch.rand(1)
    torch.manual_seed(5)
    wb.trace(lambda x: drawing(x * 2) + x, x, machine="edge-8x8")
    assert torch.equal(torch.rand(1), first)


def test_a_mode_of_the_users_own_is_told() -> None:
    with FlopCounterMode(display=False), pytest.raises(wb.WorkbenchError, match="cannot be captured under"):
        wb.trace(torch.relu, torch.randn(8), machine="edge-8x8")
