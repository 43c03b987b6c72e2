"""Advice that a rule schedules and simulates before it gives it, and findings about work for nobody or far away."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn
from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

import workbench as wb
from simulator.analysis.binding import ISSUE
from tests.fuzz.conv_nets import conv_net
from workbench.explaining.findings.int8_weights import with_int8_weights

SLOW_ISSUE = wb.machine("edge-8x8", issue_interval_cycles=64)
ROW_AFTER_ROW = wb.machine("tpu-v3", dram_tile="")


def _traced(function: Callable[..., object], *shapes: tuple[int, ...], machine: str | wb.Machine, **given: Any):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps on the host
        return wb.trace(function, *map(torch.randn, shapes), machine=machine, **given)


def _row(j: wb.Journey, rule: str) -> Any:
    (row,) = j.findings.tried().table.query("rule == @rule").itertuples()
    return row


@pytest.mark.parametrize(
    ("function", "shapes", "least"),
    [(torch.matmul, ((256, 8, 8), (256, 8, 8)), 0.5), (nn.MaxPool2d(3, 2, 1), ((1, 16, 28, 28),), 0.5)],
    ids=["product", "pool"],
)
def test_a_run_bound_by_issue_is_faster_with_wider_tiles(function: Any, shapes: Any, least: float) -> None:
    j = _traced(function, *shapes, machine=SLOW_ISSUE)
    assert j.findings.binding.startswith("bound by issue") and j.findings.records[0].about == ISSUE
    row = _row(j, "bound by issue")
    assert row.predicted == row.gain > least * j.simulated.cycles
    tiled = eval(row.remedy, {"j": j}).scheduled.record.kernels[0]
    count = len(tiled.program)
    assert f"the same work with {count:,}" in row.reason and count < len(j.scheduled.record.kernels[0].program)


def test_a_template_has_no_wider_tile_and_is_issued_faster() -> None:
    row = _row(_traced(lambda x: x.sort(1)[0], (16, 64), machine=SLOW_ISSUE), "bound by issue")
    assert "a template writes its own loops" in row.reason
    assert "issue_interval_cycles=32" in row.remedy and row.predicted == row.gain > 0


def test_a_tile_that_loads_less_again_is_advised_where_it_saves() -> None:
    row = _row(_traced(nn.MaxPool2d(7, 1, 3), (1, 64, 56, 56), machine="tpu-v3"), "moved again")
    assert row.predicted == row.gain > 5000 and "'ow': 12" in row.remedy
    row = _row(_traced(torch.matmul, (512, 512), (512, 512), machine="tpu-v2"), "moved again")
    assert not row.remedy and pd.isna(row.predicted), "wider tiles load less there, but take longer"


@pytest.mark.parametrize("machine", ["edge-8x8", "tpu-v3"])
def test_a_repeated_row_is_moved_again(machine: str) -> None:
    row = _row(_traced(lambda x: x.repeat(512, 1), (1, 512), machine=machine), "moved again")
    assert "x is loaded 512.0 times over, 1,048,576 bytes of 2,048: an axis of 512 that expand, repeat" in row.reason


def test_what_an_expanded_operand_has_at_stake_is_saved_by_broadcasting() -> None:
    shapes = (1, 512), (512, 512)
    expanded = _traced(lambda x, y: x.expand(512, 512) + y, *shapes, machine="edge-8x8")
    plain = _traced(torch.add, *shapes, machine="edge-8x8")
    assert "moved again" not in set(plain.findings.rule)
    saved = expanded.simulated.cycles - plain.simulated.cycles
    assert saved == pytest.approx(_row(expanded, "moved again").cycles, rel=0.1)


@pytest.mark.parametrize(
    ("function", "shape", "least"),
    [
        (lambda x: x.sum(1), (1000, 512, 4), 0.9),
        (lambda x: x.permute(0, 2, 1) * 2, (64, 100, 10), 0.6),
        (lambda x: x[:, :8] * 2, (1000, 512), 0.5),
    ],
    ids=["sum", "transposed", "columns"],
)
def test_short_rows_get_the_longest_axis_innermost(function: Any, shape: Any, least: float) -> None:
    j = _traced(function, shape, machine=ROW_AFTER_ROW)
    row = _row(j, "short transfers")
    assert row.predicted == row.gain > least * j.simulated.cycles
    assert eval(row.remedy, {"j": j}).simulated.cycles == j.simulated.cycles - row.gain


def test_a_step_over_elements_gets_another_axis_innermost() -> None:
    j = _traced(lambda x: x[:, ::4] * 2, (256, 1024), machine="edge-8x8")
    row = _row(j, "padding")
    assert row.predicted == row.gain == row.cycles > 0.8 * j.simulated.cycles
    assert "layout={'x': (1, 0), 'mul': (1, 0)}" in row.remedy
    assert eval(row.remedy, {"j": j}).simulated.cycles == j.simulated.cycles - row.gain


@pytest.mark.parametrize(
    "function", [lambda x: x.topk(3)[1], lambda x: x.sort(1)[1] + 1], ids=["a template", "and a kernel behind it"]
)
def test_a_template_that_reads_the_lanes_is_written_anew_before_wider_ones_are_promised(function: Any) -> None:
    row = _row(_traced(function, (16, 64), machine="edge-8x8"), "vector bound")
    assert "vector_lanes=16" in row.remedy and row.predicted == row.gain > 0


def test_short_rows_of_narrow_tiles_get_wider_ones() -> None:
    narrow = {"*": {"tile": {"d0": 512, "d1": 8}}}
    row = _row(_traced(torch.relu, (512, 512), machine=ROW_AFTER_ROW, mapping=narrow), "short transfers")
    assert row.predicted == row.gain > 20000 and "'d1': 128" in row.remedy


def test_an_order_that_other_kernels_read_slowly_is_not_advised() -> None:
    """The net's second convolution has nine groups: each reads one channel, which would no longer lie together."""
    net = conv_net(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        j = wb.trace(net.net(), net.images(), machine="edge-8x8", fusion={"off": ["rows of a product"]})
        assert not _row(j, "short transfers").remedy
        assert j.with_(layout={"leaky_relu": (0, 2, 3, 4, 1)}).simulated.cycles > j.simulated.cycles


def _in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.sum()


@pytest.mark.parametrize(
    ("function", "name", "stored"),
    [
        (lambda x: torch.sort(x).values, "sort.1", 131_072),
        (lambda x: torch.sort(x)[0].view(-1) * 2, "sort.1", 131_072),
        (lambda x: (x.sort()[0], (x * 2).sort()[1]), "sort.1, sort_1.0", 196_608),
    ],
    ids=["values", "values that are read", "one of each"],
)
def test_a_result_that_nobody_reads_is_told(function: Any, name: str, stored: int) -> None:
    j = _traced(function, (64, 256), machine="edge-8x8")
    row = _row(j, "stored and never read")
    assert row.reason.startswith(f"{name}: {stored:,} bytes are stored to DRAM and nothing reads them")
    assert set(j.simulated.events.kind.iloc[list(row.spans)]) == {"STORE"}
    assert 0.02 * j.simulated.cycles < row.cycles < 0.1 * j.simulated.cycles


@pytest.mark.parametrize("function", [torch.sort, lambda x: x.max(1)[0], _in_place], ids=["both", "joined", "in place"])
def test_a_result_that_somebody_has_or_that_is_not_stored_is_no_finding(function: Any) -> None:
    assert "stored and never read" not in set(_traced(function, (64, 256), machine="edge-8x8").findings.rule)


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 128), nn.Linear(128, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x)))


def _quantized(how: Any, **given: Any) -> nn.Module:
    torch.manual_seed(0)
    return quantize_dynamic(_Layers().eval(), {nn.Linear: how} if how else {nn.Linear}, **given)


@pytest.mark.parametrize("how", [None, per_channel_dynamic_qconfig], ids=["per tensor", "per channel"])
def test_quantized_layers_on_the_host_may_keep_their_weights_and_have_kernels(how: Any) -> None:
    model = _quantized(how)
    j = _traced(model, (8, 64), machine="tpu-v3")
    rows = j.findings.tried().table.query("rule == 'host trips'")
    assert len(rows) == 2 and rows.remedy.str.startswith("j.changed('int8 weights')").all()
    assert rows.predicted.isna().all() and (rows.gain > 0.8 * j.simulated.cycles).all()
    assert rows.reason.str.contains("Quantized operators have no kernel").all()
    assert not j.changed("int8 weights").scheduled.record.hosts
    x = torch.randn(8, 64)
    weights = [layer.weight().dequantize() for layer in (model.a, model.b)]
    expected = torch.relu(x @ weights[0].T + model.a.bias()) @ weights[1].T
    torch.testing.assert_close(with_int8_weights(model)(x), expected, rtol=1e-5, atol=1e-5)


def test_quantized_layers_of_other_weights_have_no_such_promise() -> None:
    j = _traced(_quantized(None, dtype=torch.float16), (8, 64), machine="tpu-v3")
    rows = j.findings.table.query("rule == 'host trips'")
    assert rows.reason.str.contains("Quantized operators have no kernel").all()
    assert rows.remedy.str.contains("host_link_bytes_per_second").all()
