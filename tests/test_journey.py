"""The journey: stages are lazy and shared, numbers match PyTorch, mistakes have names."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import workbench as wb
from simulator import SimulationStopped
from simulator.errors import MachineError
from simulator.machine import dram_file
from simulator.machine.figure_places import Figure
from tests.programs import MLP, PROGRAMS
from workbench.explaining.views.timelines.timeline import EVENT_COLUMNS
from workbench.ground.errors import BadOption, EmptyTable, InputMismatch, NotCopied, NotYet

SMALL = (
    "add_broadcast",
    "gelu_tanh",
    "softmax_ragged",
    "layernorm",
    "matmul_ragged",
    "both_transposed",
    "weight_twice",
    "results_in_tuple",
    "results_in_dict",
    "keyword_arguments",
    "mlp",
)


def softmax_journey(**options: object) -> wb.Journey:
    return wb.trace(torch.softmax, torch.randn(100, 77), 1, **options)


def bias_gelu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(a @ b + bias)


@pytest.fixture(scope="module")
def product() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(bias_gelu, torch.randn(96, 64), torch.randn(64, 80), torch.randn(80), machine="edge-8x8")


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("capture", ["dynamo", "export"])
def test_every_stage_matches_pytorch_on_fresh_inputs(name: str, capture: str):
    program = PROGRAMS[name]
    journey = program.traced(capture=capture)
    for stage in ("captured", "rendered", "scheduled", "simulated"):
        fresh, kwargs = program.inputs(seed=1), program.kwargs(seed=1)
        answer = journey.check(*fresh, kwargs=kwargs, stage=stage, rtol=1e-4, atol=1e-4)
        assert answer.ok, answer.text()
        assert answer.stage == stage
    assert set(journey.lowered.table["route"]) <= {"automatic", "view"}


@pytest.mark.parametrize("name", ["results_in_tuple", "results_in_dict", "keyword_arguments", "mlp"])
def test_run_returns_what_the_function_returns(name: str):
    program = PROGRAMS[name]
    function = program.build()
    journey = wb.trace(function, *program.inputs(), kwargs=program.kwargs())
    inputs, kwargs = program.inputs(seed=2), program.kwargs(seed=2)
    got = journey.run(*inputs, kwargs=kwargs)
    with torch.no_grad():
        expected = function(*inputs, **kwargs)
    assert type(got) is type(expected)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_run_reads_weights_as_they_are_now():
    model = MLP().eval()
    journey = wb.trace(model, torch.randn(4, 64))
    x = torch.randn(4, 64)
    with torch.no_grad():
        model.fc2.bias.add_(10)
        expected = model(x)
    torch.testing.assert_close(journey.run(x), expected, rtol=1e-4, atol=1e-4)
    assert journey.check(x).ok


class Counter(nn.Module):
    """Changes a buffer and an input at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        log.mul_(2.0)
        return self.total * 3.0


def test_mutations_are_reproduced_by_run_and_compared_but_undone_by_check():
    model = Counter()
    journey = wb.trace(model, torch.ones(8), torch.ones(8))
    before = model.total.clone()
    log = torch.full((8,), 5.0)
    answer = journey.check(torch.ones(8), log)
    assert answer.ok, answer.text()
    assert list(answer.outputs["output"])[-2:] == ["log", "total"]
    assert torch.equal(model.total, before) and torch.equal(log, torch.full((8,), 5.0))

    result = journey.run(torch.ones(8), log)
    assert torch.equal(model.total, before + 1) and torch.equal(log, torch.full((8,), 10.0))
    torch.testing.assert_close(result, (before + 1) * 3)


def test_check_without_inputs_uses_the_traced_ones():
    assert softmax_journey().check().ok


def test_a_wrong_kernel_is_found(product: wb.Journey, monkeypatch: pytest.MonkeyPatch):
    from workbench.running.run_program import NativeProgram

    honest = NativeProgram.run

    def off_by_one(self: NativeProgram, values: list[torch.Tensor]) -> list[torch.Tensor]:
        (out,) = honest(self, values)
        out[3, 4] += 1.0
        return [out]

    monkeypatch.setattr(NativeProgram, "run", off_by_one)
    answer = product.check()
    assert not answer
    assert answer.mismatches == 1
    assert answer.first_bad is not None and answer.first_bad.index == (3, 4)
    assert answer.max_abs == pytest.approx(1.0, abs=1e-3)


def test_stages_are_lazy_cached_and_timed():
    journey = softmax_journey()
    assert list(journey.seconds) == ["capture", "lower"]  # what has no kernel is told by the trace itself
    first = journey.rendered
    assert list(journey.seconds) == ["capture", "lower", "render"]
    assert journey.rendered is first
    assert all(seconds >= 0 for seconds in journey.seconds.values())


def test_another_machine_or_mapping_shares_what_it_does_not_touch():
    journey = softmax_journey()
    other = journey.with_(machine="tpu-v4")
    assert other.machine.name == "tpu-v4" and journey.machine.name == "tpu-v3"
    assert other.captured.record is journey.captured.record and other.rendered is journey.rendered
    assert other.simulated.cycles != journey.simulated.cycles

    tiled = journey.with_(mapping={"*": {"tile": {"d0": 10}}})
    assert tiled.rendered is journey.rendered
    assert tiled.scheduled.kernels[0].mapping.tile["d0"] == 10
    assert tiled.with_(machine="edge-8x8").scheduled.kernels[0].mapping.tile["d0"] == 10
    assert tiled.with_(mapping=None).scheduled.kernels[0].mapping == journey.scheduled.kernels[0].mapping
    assert tiled.check().ok


def test_a_simulation_that_is_stopped_leaves_nothing_and_can_be_given_more_time():
    journey = softmax_journey(simulate_seconds=1e-9)
    with pytest.raises(SimulationStopped, match="after its limit of 1e-09 seconds: 0 of"):
        _ = journey.simulated
    assert "simulate" not in journey.seconds
    longer = journey.with_(simulate_seconds=None)
    assert longer.scheduled.record is journey.scheduled.record
    assert longer.simulated.cycles == softmax_journey().simulated.cycles
    with pytest.raises(SimulationStopped):
        wb.simulate(journey.lowered, journey.scheduled, seconds=1e-9)


def test_a_journey_cannot_be_changed():
    with pytest.raises(AttributeError):
        softmax_journey()._request = None  # type: ignore[misc]


@pytest.mark.parametrize("duplicates", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_journey_is_not_copied(product: wb.Journey, duplicates: Callable[[wb.Journey], object]):
    with pytest.raises(NotCopied, match=r'j\.save\("FILE\.journey"\)'):
        duplicates(product)


def test_the_stages_one_by_one_make_the_same_journey():
    x = torch.randn(100, 77)
    captured = wb.capture(torch.softmax, x, 1)
    lowered = wb.lower(captured, machine="tpu-v2")
    rendered = wb.render(lowered)
    scheduled = wb.schedule(lowered, rendered, machine="tpu-v2")
    simulated = wb.simulate(lowered, scheduled, machine="tpu-v2")
    journey = wb.trace(torch.softmax, x, 1, machine="tpu-v2")
    assert rendered.record == journey.rendered.record
    assert simulated.record.digest() == journey.simulated.record.digest()


def test_tables_have_the_promised_columns(product: wb.Journey):
    assert list(product.captured.table) == ["node", "op", "inputs", "shape", "dtype", "file", "line"]
    assert list(product.lowered.table) == ["node", "op", "route", "kernel", "rule", "file", "line", "parent"]
    assert list(product.lowered.fusions) == ["producer", "consumer", "fused", "rule", "switch", "reason"]
    assert list(product.simulated.events) == list(EVENT_COLUMNS)
    row = product.captured.table.iloc[0]
    assert (row["op"], row["shape"], row["dtype"]) == ("aten.matmul.default", (96, 80), "f32")
    assert row["inputs"] == ("a", "b")
    assert row["file"] == __file__ and row["line"] == bias_gelu.__code__.co_firstlineno + 1


def test_captured_tells_inputs_from_what_the_function_holds():
    captured = wb.trace(MLP().eval(), torch.randn(4, 64)).captured
    assert list(captured.inputs["path"]) == ["x"]
    assert sorted(captured.params["path"]) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
    assert captured.graphs == (captured.record,) and captured.breaks == ()


def test_lines_of_rendered_mlir_lead_to_nodes(product: wb.Journey):
    (kernel,) = product.rendered.kernels
    text = kernel.mlir.splitlines()
    by_op = {text[line - 1].split(" = ")[-1].split(" ")[0]: nodes for line, nodes in kernel.lines.items()}
    assert by_op["linalg.matmul"] == ("matmul",)
    assert by_op["math.erf"][0].startswith("gelu")
    assert "add" in {node for nodes in kernel.lines.values() for node in nodes}


def test_simulated_tables_add_up(product: wb.Journey):
    simulated = product.simulated
    events, cycles = simulated.events, simulated.cycles
    busy = int((events["end"] - events["start"]).sum())
    assert simulated.by_op["busy_cycles"].sum() == pytest.approx(busy)
    assert simulated.by_op["bytes"].sum() == pytest.approx(events["bytes"].sum())
    assert set(simulated.by_op["node"]) == {"matmul", "add", "gelu"}
    (kernel,) = simulated.by_kernel.to_dict("records")
    assert kernel["dma_busy"] + kernel["systolic_busy"] + kernel["vector_busy"] == busy
    assert kernel["cycles"] == cycles == simulated.stats["cycles"]
    assert kernel["bytes_written"] == 96 * 80 * 4
    assert simulated.waterfall["cycles"].sum() == cycles
    stalls = simulated.stalls.set_index("unit").drop(columns="total")
    assert (stalls.sum(axis=1) == cycles).all()
    assert simulated.time_us == pytest.approx(cycles / 800)


def test_banked_memory_tells_what_its_channels_did(product: wb.Journey):
    banked = product.with_(machine=wb.machine("edge-8x8", memory="banked")).simulated
    banked.trace.invariants()
    (channel,) = banked.memory.to_dict("records")
    assert channel["bytes"] == banked.trace.counters["dram_request_bytes"] == banked.bandwidth["bytes"].sum()
    assert channel["row_hits"] + channel["row_misses"] + channel["row_conflicts"] == channel["bytes"] // 64
    assert banked.bandwidth["bytes_per_cycle"].max() <= 64


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


@pytest.fixture
def memory_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text((Path(dram_file.__file__).parent / "shipped_memories" / "DDR4_3200AA.toml").read_text())
    return path


def slowed(path: Path) -> None:
    """The memory of the file, with rows that open more slowly, in its place."""
    path.write_text(
        re.sub(r"(?m)^(activate_to_read|precharge|row_active|row_cycle) = \d.*", r"\1 = 200", path.read_text())
    )


def test_a_machine_is_what_its_memory_file_said_when_it_was_made(memory_file: Path):
    def machine() -> wb.Machine:
        return wb.machine("edge-8x8", memory="banked", dram_timing=str(memory_file))

    old = wb.trace(transposed, torch.randn(256, 300), machine=machine())
    cycles = old.simulated.cycles
    assert old.with_(machine=machine()) is old
    slowed(memory_file)
    new = old.with_(machine=machine())
    assert new.machine != old.machine and new.simulated.cycles > 1.1 * cycles
    again = old.with_(simulate_seconds=1000.0).simulated
    assert again.cycles == cycles and again.trace.digest() == old.simulated.trace.digest()
    again.trace.invariants()
    changed = wb.compare(old, new).changes
    assert set(changed.loc[changed["of"] == "the memory", "what"]) >= {"activate_to_read", "row_cycle"}
    memory_file.unlink()
    assert old.machine.with_(dma_queues=1).dram == old.machine.dram
    with pytest.raises(MachineError, match="the memory file cannot be read"):
        old.machine.with_(dram_timing=str(memory_file))


@pytest.mark.parametrize(
    ("name", "column", "why"),
    [
        ("memory", "row_hits", "edge-8x8 has a simple memory, .* j.with_(machine=j.machine.with_(memory='banked'))"),
        ("bandwidth", "bytes_per_cycle", "edge-8x8 has a simple memory, .*machine.with_(memory='banked'))"),
        ("links", "share", "edge-8x8 has a simple interconnect, .*machine.with_(interconnect='crossbar'))"),
    ],
)
def test_a_table_that_the_machine_leaves_empty_says_why(product: wb.Journey, name: str, column: str, why: str):
    with pytest.warns(EmptyTable, match=re.escape(why).replace(r"\.\*", ".*")) as told:
        table = getattr(product.simulated, name)
    assert len(table) == 0 and column in table.columns and table.attrs["why_empty"] in str(told[0].message)
    assert [each.filename for each in told] == [__file__]


def test_what_an_empty_table_advises_fills_it(product: wb.Journey, recwarn: pytest.WarningsRecorder):
    for name, figures in (("memory", {"memory": "banked"}), ("links", {"interconnect": "crossbar"})):
        other = product.with_(machine=product.machine.with_(**figures)).simulated
        assert len(getattr(other, name)) > 0
    assert product.simulated.skipped["skipped"].sum() == 0 and not recwarn.list


@pytest.mark.parametrize(
    "figures",
    [
        {},
        {"interconnect": "crossbar", "interconnect_link_bytes_per_cycle": 4},
        pytest.param({"interconnect": "mesh", "memory": "banked"}, marks=pytest.mark.test_all),  # compiles an engine
    ],
    ids=["simple", "crossbar", "mesh and banks"],
)
def test_the_picture_is_that_of_the_stalls(product: wb.Journey, figures: dict[str, Figure]):
    """Idle time cause by cause, also where a span waits on its way, and bars in full colour for what is busy."""
    from workbench.explaining.views.timelines.timeline import gantt_of

    simulated = product.with_(machine=product.machine.with_(**figures)).simulated
    view, stalls = gantt_of(simulated.trace), simulated.stalls.set_index("unit")
    above = sum(each.end - each.start for each in view.launching)  # of every lane, so it is drawn once
    told, works = view.idle_time, view.end - view.work_start
    for index, lane in enumerate(view.lanes):
        part = told.of_lane(index)
        lengths = (told.end - told.start)[part]
        assert works[view.of_lane(index)].sum() == stalls.loc[lane.name, "busy"]
        for cause, label in enumerate(view.causes):
            expected = stalls.loc[lane.name].get(label, 0)  # one core waits at no barrier, and has no such column
            assert lengths[told.cause[part] == cause].sum() == expected - (above if label == "launch" else 0), (
                lane,
                label,
            )
    assert bool(view.waiting_kinds()) == bool(figures) == ("~ waits on its way" in simulated.text())


def test_artefacts_print_well_three_ways(product: wb.Journey):
    for handle in (product.captured, product.lowered, product.rendered, product.scheduled, product.simulated):
        bundle = handle._repr_mimebundle_()
        assert bundle["text/plain"] == repr(handle)
        assert "0x" not in repr(handle) and len(repr(handle)) < 80
        assert bundle["text/html"].startswith('<div class="wb"><style>') and len(handle.text().splitlines()) > 3
        assert len(handle.table) > 0
    assert repr(product.captured) == "Captured('bias_gelu', 3 nodes, 3 inputs)"


def test_the_timeline_is_drawn_with_a_lane_for_every_unit_that_works(product: wb.Journey):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    axes = product.simulated.plot(figure.add_subplot(), style="dark")
    labels = [label.get_text().split()[0] for label in axes.get_yticklabels()]
    assert labels[0] == "busy,"  # the head of the shares behind the names
    assert labels[1:] == sorted(set(product.simulated.events["unit"]), key=labels.index)
    assert axes.get_xlim() == (0, product.simulated.cycles)
    with pytest.raises(BadOption, match="style='pink'"):
        product.simulated.plot(style="pink")


@pytest.mark.parametrize(
    ("inputs", "kwargs", "message"),
    [
        ((torch.randn(99, 77), 1), None, "100x77xf32"),
        ((torch.randn(100, 77).double(), 1), None, "f64"),
        ((torch.randn(100, 77),), None, r"captured with the inputs \(·, 1\), and was given \(·\)"),
        ((torch.randn(100, 77), 0), None, r"was given \(·, 0\)"),
        ((torch.randn(100, 77), 1), {"dtype": torch.float64}, r"was given \(·, 1, dtype=torch.float64\)"),
    ],
    ids=["shape", "element type", "too few", "another number", "keyword"],
)
def test_other_inputs_than_the_traced_ones_are_refused(
    inputs: tuple[object, ...], kwargs: dict[str, object] | None, message: str
):
    journey = softmax_journey()
    for call in (journey.run, journey.check):
        with pytest.raises(InputMismatch, match=message):
            call(*inputs, kwargs=kwargs)


def test_what_is_not_there_yet_says_so():
    journey = softmax_journey()
    with pytest.raises(NotYet, match=r"a picture of Captured.*planned"):
        journey.captured.plot()


def test_machines_by_name_and_with_other_figures():
    assert set(wb.machines()) == {"edge-8x8", "tpu-v2", "tpu-v3", "tpu-v4", "tpu-v4-chip"}
    slow = softmax_journey(machine=wb.machine("tpu-v3", vector_lanes=64))
    assert slow.machine.vector.lanes == 64
    assert slow.simulated.cycles > softmax_journey().simulated.cycles


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda: wb.trace(torch.relu, torch.randn(3), machine=3), "wb.machine(...), got 3"),
        (lambda: wb.trace(torch.relu, torch.randn(3), machine="tpu-v33"), "did you mean 'tpu-v3'"),
        (lambda: wb.trace(torch.relu, torch.randn(3), mapping=3), "a file or None, got 3"),
        (lambda: wb.trace(torch.relu, torch.randn(3), mapping={"*": {"tile": [64]}}), "[64]: expected {dim: size}"),
        (
            lambda: softmax_journey(simulate_seconds=0),
            "seconds, a number above 0, or None for no limit, got 0",
        ),
        (lambda: softmax_journey(on_missing="ignore"), "'host' or 'error'"),
        (lambda: softmax_journey(capture="fx"), "must be 'dynamo' or 'export'"),
        (lambda: softmax_journey().check(stage="lowered"), "'captured', 'rendered', 'scheduled', 'simulated'"),
        (lambda: wb.compare(softmax_journey(), 3), "wb.compare was given an object of type 'int'"),
        (lambda: softmax_journey().save("/no/such/folder/journey"), "there is no folder /no/such/folder"),
        (lambda: softmax_journey().to_html("/no/such/folder/page.html"), "there is no folder /no/such/folder"),
        (lambda: softmax_journey().with_(machine=wb.machine("edge-8x8", vector_lanes=0)), "vector_lanes = 0"),
    ],
)
def test_every_mistake_is_a_workbench_error_that_says_what_was_given(asked, words: str):
    with pytest.raises(wb.WorkbenchError) as caught:
        asked()
    assert words in str(caught.value)


def test_results_nobody_reads_may_be_empty():
    """Batch norm in eval mode also gives two tensors without elements, which nothing uses."""
    journey = wb.trace(torch.nn.BatchNorm2d(3).eval(), torch.randn(2, 3, 5, 7), on_missing="error")
    assert journey.check(torch.randn(2, 3, 5, 7)).ok
