"""Nodes without another route run on the host: right numbers, a price, a label in every stage, one warning."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.flow import capture, flow
from workbench.commands import cli
from workbench.ground import errors
from workbench.ir import KernelGraph, ScheduledProgram
from workbench.lowering.layout_options import Layout
from workbench.lowering.layouts import laid_out
from workbench.lowering.lower import lower
from workbench.operators.host.host_steps import flops

X, W = torch.randn(37, 29), torch.randn(29, 41)


def middle(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores = torch.lgamma(torch.relu(x @ w) + 1)
    best, places = torch.mode(scores, 1)
    return torch.softmax(scores, -1), best * 2, places


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    with pytest.warns(errors.HostRoute):
        return wb.trace(middle, X, W)


def test_one_warning_line_names_the_ops_and_where_they_stand():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _ = wb.trace(middle, X, W).simulated
    (warning,) = [item for item in told if item.category is errors.HostRoute]
    text = str(warning.message)
    line = middle.__code__.co_firstlineno
    assert "\n" not in text and warning.filename == __file__
    assert f"aten.lgamma.default (1x, {__file__}:{line + 1})" in text
    assert f"aten.mode.default (1x, {__file__}:{line + 2})" in text


@pytest.mark.parametrize("stage", ["captured", "rendered", "scheduled", "simulated"])
def test_the_numbers_are_right_at_every_stage(journey: wb.Journey, stage: str):
    assert journey.check(torch.randn(37, 29), torch.randn(29, 41), stage=stage).ok


def test_every_stage_says_host(journey: wb.Journey):
    routes = dict(zip(journey.lowered.table.node, journey.lowered.table.route, strict=True))
    assert routes["lgamma"] == routes["mode"] == "host" and "host" not in {routes["relu"], routes["mul"]}
    assert [kernel.kind for kernel in journey.lowered.record.kernels].count("host") == 2
    for stage in (journey.lowered, journey.rendered, journey.scheduled):
        assert {"host1_lgamma", "host2_mode"} <= set(stage.table.kernel)
        assert "host1_lgamma" in stage.text() and "host2_mode" in stage.text()
    events = journey.simulated.events
    hosted = events[events.unit == "host"]
    assert list(hosted.kernel.unique()) == ["host1_lgamma", "host2_mode"]
    assert list(hosted.origins) == [("lgamma",)] * 3 + [("mode",)] * 3
    assert "host" in journey.simulated.text()
    assert journey.simulated.by_kernel.set_index("kernel").host_busy["host2_mode"] > 0
    assert journey.simulated.by_op.set_index("node").busy_cycles["mode"] > 0


def test_what_goes_over_the_link_is_what_the_node_reads_and_makes(journey: wb.Journey):
    sorts = {step.op: step for step in journey.scheduled.record.hosts}
    scores, best = 37 * 41 * 4, 37 * (4 + 8)
    assert (sorts["aten.lgamma.default"].bytes_in, sorts["aten.lgamma.default"].bytes_out) == (scores, scores)
    assert (sorts["aten.mode.default"].bytes_in, sorts["aten.mode.default"].bytes_out) == (scores, best)
    events = journey.simulated.events
    assert events[events.unit == "host"].bytes.sum() == 3 * scores + best


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_the_time_adds_up_with_the_host_in_it(journey: wb.Journey, machine: str):
    simulated = journey.with_(machine=machine).simulated
    simulated.trace.invariants()
    latency = simulated.machine.host.link_latency_us * simulated.machine.clock_mhz
    waterfall = dict(zip(simulated.waterfall.what, simulated.waterfall.cycles, strict=True))
    assert waterfall["host link"] >= 4 * latency and sum(waterfall.values()) == simulated.cycles
    slow = wb.machine(machine, host_link_latency_us=50)
    assert journey.with_(machine=slow).simulated.cycles - simulated.cycles >= 4 * 40 * slow.clock_mhz


def test_a_program_that_begins_and_ends_on_the_host_and_reads_views():
    def only(x: torch.Tensor) -> torch.Tensor:
        return torch.i0(torch.lgamma(x.t()[1:]).t() * 0.1)

    made = flow(only, (X,))
    assert [kernel.kind for kernel in made.lowered.kernels] == ["host", "elementwise", "host"]
    made.assert_matches_eager(torch.randn(37, 29))


def test_what_pytorch_returns_as_views_gets_memory_of_its_own():
    def parts_of_columns(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.fft.fft(x).T) * 2

    made = flow(parts_of_columns, (torch.randn(9, 7),))
    names = [kernel.name for kernel in made.lowered.kernels if kernel.kind == "host"]
    assert [name.split("_", 1)[1] for name in names] == ["fft_fft", "view_as_real"]
    made.assert_matches_eager(torch.randn(9, 7))


def test_complex_numbers_stay_on_the_host():
    made = flow(lambda x: torch.fft.fft(x).abs() * 2, (X,))
    assert [kernel.kind for kernel in made.lowered.kernels] == ["host", "host", "elementwise"]
    made.assert_matches_eager(torch.randn(37, 29))


def test_an_error_can_be_had_instead_naming_all_with_stubs():
    with pytest.raises(errors.MissingRoutes) as caught:
        wb.trace(middle, X, W, on_missing="error")
    text, line = str(caught.value), middle.__code__.co_firstlineno
    assert f"aten.lgamma.default: 1 node(s), at {__file__}:{line + 1}" in text
    assert f"aten.mode.default: 1 node(s), at {__file__}:{line + 2}" in text
    assert '@wb.ops.builder("aten.lgamma.default"' in text and '@wb.ops.template("aten.mode.default"' in text


def test_operations_are_counted_by_torchs_formulas_and_else_by_elements():
    def two(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.lgamma(x @ w)

    graph = capture(two, (X, W)).graph
    counted = {node.op: flops(node, graph.types) for node in graph.nodes}
    assert counted == {"aten.matmul.default": 2 * 37 * 29 * 41, "aten.lgamma.default": 37 * 41}


def test_records_with_host_steps_go_through_json(journey: wb.Journey):
    record = journey.lowered.record
    assert KernelGraph.from_json(record.to_json()) == record
    assert isinstance(journey.scheduled.record, ScheduledProgram) and len(journey.scheduled.record.hosts) == 2
    assert laid_out(lower(record.captured), Layout(journey.machine.dram_block)) == record


def test_the_command_line_counts_host_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "program.py"
    file.write_text("import torch\ndef model(x):\n    return torch.i0(torch.relu(x))\ninputs = (torch.randn(9, 9),)\n")
    with pytest.warns(errors.HostRoute):
        assert cli.main(["trace", str(file)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["routes"] == {"automatic": 1, "host": 1} and printed["check"]["ok"]
    assert [kernel["route"] for kernel in printed["kernels"]] == ["automatic", "host"]


def test_what_pytorch_cannot_compute_on_the_host_is_told_with_its_line():
    with pytest.warns(errors.HostRoute):
        made = wb.trace(lambda x: x + 1, torch.arange(5).to(torch.uint16))
    with pytest.raises(errors.HostFailed, match=r"aten\.add\.Tensor at .*test_host_steps\.py:\d+ has no kernel"):
        made.run(torch.arange(5).to(torch.uint16))
