"""Origins end to end: from any thing at any stage to all that belongs to it, and back."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import workbench as wb
from templates.foobar import FoobarDirect, FoobarDoubleBuffered, FoobarTiled, register_fake
from tests.layers import Plain
from tests.programs import PROGRAMS
from workbench.explaining.views.kernel_lists.kernel_tables import scheduled_line_origins
from workbench.ground.errors import AmbiguousSelection, HostRoute, UnknownSelection

NAMES = ("softmax_last", "ffn_residual", "rmsnorm_written_out", "both_transposed", "results_in_dict", "var_last")
HERE = Path(__file__).name


@pytest.fixture(scope="module", params=NAMES)
def traced(request: pytest.FixtureRequest) -> wb.Journey:
    return PROGRAMS[request.param].traced()


@pytest.fixture(scope="module")
def ffn() -> wb.Journey:
    return PROGRAMS["ffn_residual"].traced()


def scheduled_line(journey: wb.Journey, at: wb.MlirLine) -> str:
    kernel = next(kernel for kernel in journey.scheduled.kernels if kernel.name == at.kernel)
    return kernel.mlir.splitlines()[at.line - 1]


def test_every_instruction_has_an_origin_and_every_node_an_instruction_or_a_reason(traced: wb.Journey):
    for kernel in traced.scheduled.kernels:
        assert np.diff(kernel.program.origin_start).min() >= 1
    for name in traced.captured.table["node"]:
        found = traced.select(name)
        assert found.nodes == (name,)
        assert bool(found.spans) != bool(found.absorbed)
        assert all(gone.reason for gone in found.absorbed)


def test_a_span_leads_to_the_line_of_its_op_and_the_line_back_to_the_span(traced: wb.Journey):
    events = traced.simulated.events
    for row in range(0, len(events), max(1, len(events) // 40)):
        found = traced.select(row)
        (line,), (instruction,) = found.mlir_lines, found.instructions
        kernel = next(kernel for kernel in traced.scheduled.kernels if kernel.name == line.kernel)
        op = kernel.program.ops[int(kernel.program.op[instruction.instr])]
        assert op.name in scheduled_line(traced, line)
        assert row in traced.select(line).spans and row in traced.select(instruction).spans
        assert set(found.nodes) == set(events.loc[row, "origins"])
        assert traced.select(events.loc[row]).spans == (row,)


def test_source_lines_are_those_of_the_captured_nodes_and_lead_back(traced: wb.Journey):
    table = traced.captured.table.set_index("node")
    for name in table.index:
        place = f"{table.loc[name, 'file']}:{table.loc[name, 'line']}"
        assert traced.select(name).source_lines == (place,)
        assert name in traced.select(place).nodes
        assert place in traced._stages.sources()  # pyright: ignore[reportPrivateUsage]


def test_kernels_partition_the_spans(traced: wb.Journey):
    kernels = [traced.select(kernel.name) for kernel in traced.lowered.record.kernels]
    assert sorted(row for found in kernels for row in found.spans) == list(range(len(traced.simulated.events)))
    for found, kernel in zip(kernels, traced.lowered.record.kernels, strict=True):
        assert found.kernels == (kernel.name,) and found.lowered == kernel.nodes


def test_whatever_a_selection_holds_can_be_selected(ffn: wb.Journey):
    found = ffn.select("gelu")
    for part in (found.nodes, found.kernels, found.mlir_lines, found.instructions, found.spans, found.source_lines):
        assert part
        for item in part[:3]:
            assert "gelu" in ffn.select(item).nodes, item
    assert ffn.select(found) is found


def test_ops_by_overload_short_name_and_what_they_were_decomposed_into(ffn: wb.Journey):
    both = ffn.select("aten.linear.default")
    assert both.nodes == ("linear", "linear_1") and len(both.kernels) == 2
    assert ffn.select("aten.linear").nodes == both.nodes
    assert ffn.select(torch.ops.aten.linear.default).spans == both.spans
    assert ffn.select("linear").nodes == ("linear",)  # the node of this name: exact names come first
    assert ffn.select("aten.erf.default").nodes == ("gelu",)
    assert ffn.select("gelu.erf").lowered == ("gelu.erf",)


def test_modules_and_source_text(ffn: wb.Journey):
    assert ffn.select("up").nodes == ("linear",) and ffn.select("down").nodes == ("linear_1",)
    line = "return x + self.down(F.gelu(self.up(x)))"
    assert ffn.select(line).nodes == ("linear", "gelu", "linear_1", "add")
    assert ffn.select(line).source_lines == ffn.select("gelu").source_lines


def test_lines_inside_an_op_and_around_ops_lead_to_their_instructions(ffn: wb.Journey):
    kernel = ffn.scheduled.kernels[0]
    lines = kernel.mlir.splitlines()
    loop = next(number for number, line in enumerate(lines, start=1) if "scf.for" in line)
    generic = next(number for number, line in enumerate(lines, start=1) if "linalg.generic" in line)
    inside = ffn.select((kernel.name, generic + 2))
    assert inside.instructions == ffn.select((kernel.name, generic)).instructions != ()
    assert set(inside.instructions) < set(ffn.select((kernel.name, loop)).instructions)
    alloc = next(number for number, line in enumerate(lines, start=1) if "memref.alloc" in line)
    assert ffn.select(f"{kernel.name}:{alloc}").spans == () and ffn.select(f"{kernel.name}:{alloc}").nodes


def test_instructions_by_text_and_by_type_are_not_mistaken_for_lines(ffn: wb.Journey):
    kernel = ffn.scheduled.kernels[0].name
    assert ffn.select(f"{kernel}#5").instructions == ((kernel, 5),)
    assert ffn.select(wb.InstructionAt(kernel, 5)).instructions == ((kernel, 5),)
    assert ffn.select(wb.SpanAt(1, 0)).kernels == (ffn.lowered.record.kernels[1].name,)
    assert (kernel, 15) in ffn.select((kernel, 15)).mlir_lines


def folded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    torch.tanh(x)
    y = x * 1.0
    return torch.relu(y.reshape(8, 32)), x.t()


@pytest.mark.test_all
def test_what_left_no_instruction_says_why():
    journey = wb.trace(folded, torch.randn(16, 16), capture="export")
    selected = {name: journey.select(name).absorbed for name in journey.captured.table["node"]}
    told = {name: gone[0].reason for name, gone in selected.items() if gone}
    assert told["mul"].startswith("the importer folded it into the ops around it")
    assert told["view" if "view" in told else "reshape"].startswith("lowering lets its readers work on its operand")
    if "tanh" in journey.captured.table["node"].tolist():
        assert told["tanh"] == "nothing uses its result, so it is not computed"
    assert "relu" not in told

    transposed = wb.trace(lambda a, b: a.t() @ b, torch.randn(8, 8), torch.randn(8, 8)).select("t")
    assert transposed.absorbed[0].reason == "a view: other strides over a, no work and no bytes"


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 1.0 + 0.0)


def test_arithmetic_that_changes_nothing_is_told_apart_from_work():
    journey = wb.trace(Scaled(), torch.randn(16, 16))
    for name in journey.captured.table["node"]:
        found = journey.select(name)
        assert bool(found.spans) != bool(found.absorbed)
    (gone,) = journey.select("mul").absorbed
    assert "folded it into the ops around it" in gone.reason


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("gelo", "did you mean 'gelu'"),
        ("programs.py:1", r"no op comes from this line; ops come from the lines \d+"),
        ("k0_linear_gelu:9999", "has the lines 1 to"),
        ("k0_linear_gelu#9999", r"0 to \d+"),
        (("k9", 1), "kernel 'k9'"),
        (10**9, "rows 0 to"),
        (-1, "rows 0 to"),
        (wb.SpanAt(7, 0), "launches are 0 to 1"),
        (3.5, "a float: select takes a node"),
        (None, "select takes a node"),
        (True, "a bool: select takes"),
        ("nothing like it", r"what can be typed is a node, .* or span 5$"),
        ("span 123,456,789", "is span 123456789: rows 0 to"),
        ("span " + "9" * 5000, "what can be typed is a node"),
        ("k0_linear_gelu#" + "9" * 5000, "what can be typed is a node"),
        ("k0_linear_gelu#\uff14", "nothing in this journey is 'k0_linear_gelu#\uff14'"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(ffn: wb.Journey, what: object, message: str):
    with pytest.raises(UnknownSelection, match=message):
        ffn.select(what)


def test_the_number_of_a_span_can_be_typed(ffn: wb.Journey):
    assert ffn.select("span 5") == ffn.select("5") == ffn.select(" 5 ") == ffn.select(5)
    assert ffn.select("0,005") == ffn.select(5)  # lists write 1,204


def test_a_module_that_is_called_by_a_number_goes_before_the_span():
    journey = wb.trace(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(8, 8))
    assert journey.select("0").what == "module 0" and journey.select("span 0").what == "span 0"
    assert journey.select("3").what == "span 3"


def same_text(x: torch.Tensor) -> torch.Tensor:
    x = torch.relu(x)
    x = torch.tanh(x)
    x = torch.relu(x)
    return x


def test_a_text_that_stands_in_two_places_is_ambiguous():
    journey = wb.trace(same_text, torch.randn(8, 8))
    with pytest.raises(AmbiguousSelection, match="has 2 meanings") as caught:
        journey.select("x = torch.relu(x)")
    first, second = (meaning.strip("'") for meaning in caught.value.meanings)
    assert first.startswith(f"{HERE}:") and journey.select(first).nodes != journey.select(second).nodes
    assert journey.select("x = torch.tanh(x)").nodes == ("tanh",)
    assert journey.select("node tanh").nodes == journey.select("op aten.tanh.default").nodes == ("tanh",)
    assert len(journey.select("aten.relu.default").nodes) == 2


def test_a_selection_reads_well_and_stays_with_a_saved_journey(ffn: wb.Journey, tmp_path: Path):
    found = ffn.select("gelu")
    text = found.text()
    assert "return x + self.down(F.gelu(self.up(x)))" in text and "gelu = aten.gelu.default" in text
    assert text.splitlines()[0].startswith("python ") and "unit cycles between cycle" in text
    bundle = found._repr_mimebundle_()
    assert bundle["text/plain"] == repr(found) and "aten.gelu.default" in bundle["text/html"]
    ffn.save(tmp_path / "ffn.journey")
    assert wb.load(tmp_path / "ffn.journey").select("gelu") == found
    assert pickle.loads(pickle.dumps(found)).text() == text
    assert wb.load(tmp_path / "ffn.journey").select("gelu").text() == text


def test_a_selection_marks_lines_and_spans(ffn: wb.Journey):
    found = ffn.select("gelu")
    kernel = ffn.scheduled.kernels[0]
    marked = [line for line in kernel.text(select=found).splitlines() if line.startswith("> ")]
    assert marked == ["> " + scheduled_line(ffn, line) for line in found.mlir_lines]
    assert sum(line.startswith("> ") for line in ffn.scheduled.text(select=found).splitlines()) == len(marked)
    assert sum(line.startswith("> ") for line in ffn.rendered.text(select=found).splitlines()) == len(
        found.rendered_lines
    )
    view = ffn.simulated.gantt(select=found)
    other = len(view.kinds) - 1
    assert view.kinds[other] == "OTHER" and sorted(view.row[view.kind != other].tolist()) == sorted(found.spans)
    assert "- other" in ffn.simulated.text(select=found)


def on_the_host(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.i0(torch.relu(x)))


@pytest.mark.test_all
def test_a_step_on_the_host_is_selected_like_a_kernel_but_has_no_instructions(tmp_path: Path):
    with pytest.warns(HostRoute):
        journey = wb.trace(on_the_host, torch.randn(16, 24))
    found = journey.select("i0")
    assert len(found.spans) == 3 and found.instructions == () and found.mlir_lines == () and not found.absorbed
    assert set(journey.simulated.events.loc[list(found.spans), "unit"]) == {"host"}
    assert journey.select(found.spans[0]).nodes == ("i0",)
    assert journey.select(found.kernels[0]).spans == found.spans
    assert found.source_lines and "i0" in found.text()
    journey.save(tmp_path / "host.journey")
    loaded = wb.load(tmp_path / "host.journey")
    assert loaded.select("i0") == found and loaded.scheduled.html() == journey.scheduled.html()
    assert wb.simulate(loaded.lowered, loaded.scheduled, machine=loaded.machine).cycles == journey.simulated.cycles


@pytest.mark.parametrize("form", [FoobarDirect, FoobarTiled, FoobarDoubleBuffered])
def test_a_template_s_instructions_lead_to_its_lines_and_to_python(form: type):
    register_fake()
    with wb.ops.scope():
        wb.ops.template("aten._foobar.default")(form)
        journey = wb.trace(lambda x: torch.ops.aten._foobar(x), torch.randn(47, 10))
        found = journey.select("aten._foobar.default")
        assert len(found.spans) == len(journey.simulated.events) > 0 and not found.absorbed
        assert len(found.source_lines) == 1 and Path(found.source_lines[0].partition(":")[0]).name == HERE
        for row in found.spans:
            (line,), (instruction,) = journey.select(row).mlir_lines, journey.select(row).instructions
            (kernel,) = journey.scheduled.kernels
            assert kernel.program.ops[int(kernel.program.op[instruction.instr])].name in scheduled_line(journey, line)
            assert row in journey.select(line).spans
        lines = {line.line for line in found.mlir_lines}
        assert lines <= set(scheduled_line_origins(journey.scheduled.kernels[0].record))
        assert found.rendered_lines and found.lines_of(kernel.name, "rendered")
        assert journey.scheduled.html() and journey.rendered.html()


@pytest.mark.test_all
def test_layers_that_share_kernels_keep_their_own_nodes_and_spans():
    journey = wb.trace(nn.Sequential(*(Plain(32, 64) for _ in range(4))), torch.randn(16, 32))
    launches = journey.scheduled.record.launches.launches
    assert len({launch.kernel for launch in launches}) < len(launches)
    layers = [journey.select(str(number)) for number in range(4)]
    spans = [set(found.spans) for found in layers]
    assert not spans[1] & spans[2] and set().union(*spans) == set(range(len(journey.simulated.events)))
    assert layers[1].instructions == layers[2].instructions and layers[1].nodes != layers[2].nodes
    shared = layers[1].mlir_lines[0]
    assert set(journey.select(shared).nodes) & set(layers[1].nodes)
    assert set(journey.select(shared).nodes) & set(layers[2].nodes)


def test_a_buffer_leads_to_all_that_touches_it_and_back(ffn: wb.Journey):
    kernel = ffn.scheduled.kernels[0]
    rows = kernel.instructions
    touched = [(*reads, *writes) for reads, writes in zip(rows["reads"], rows["writes"], strict=True)]
    for number, name in enumerate(buffer.name for buffer in kernel.program.buffers):
        found = ffn.select(wb.BufferAt(kernel.name, number))
        expected = {row for row, pieces in enumerate(touched) if any(f" of {name}[" in piece for piece in pieces)}
        assert {at.instr for at in found.instructions if at.kernel == kernel.name} == expected
        assert wb.BufferAt(kernel.name, number) in found.buffers
        assert all(wb.BufferAt(kernel.name, number) in ffn.select(row).buffers for row in found.spans)


def test_a_tile_leads_to_all_that_touch_the_same_box(ffn: wb.Journey):
    kernel = ffn.lowered.record.kernels[0].name
    rows = ffn.scheduled.tiles(kernel).table
    for number in range(0, len(rows), max(1, len(rows) // 10)):
        found = ffn.select(wb.TileAt(kernel, number))
        touching = {at.instr for at in found.instructions}
        here = rows.loc[number]
        same = [each.instruction for each in rows.itertuples() if _box(each) == _box(here)]
        assert touching == (set(same) if here["start"] else {here["instruction"]})


def _box(row: Any) -> tuple[object, ...]:
    return row.tensor, row.start, row.extent, row.step


def test_a_rendered_line_leads_to_its_nodes_and_a_bracket_to_itself(ffn: wb.Journey):
    module = ffn.rendered.record[0]
    count = len(module.mlir.rstrip("\n").splitlines())
    found = [ffn.select(wb.RenderedLine(module.kernel, line)) for line in range(1, count + 1)]
    assert all(wb.RenderedLine(module.kernel, line) in each.rendered_lines for line, each in enumerate(found, start=1))
    assert any(each.spans for each in found)
    assert all(each.spans == () for each in found if not each.lowered)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (wb.BufferAt("k0_linear_relu", 99), "buffer 99 of k0_linear_relu"),
        (wb.BufferAt("k9", 0), "kernel 'k9'"),
        (wb.TileAt("k0_linear_relu", 10**6), "its tiles have the rows 0 to"),
        (wb.RenderedLine("k9", 1), "rendered kernel 'k9'"),
        (wb.RenderedLine("k0_linear_relu", 0), "its rendered MLIR has the lines 1 to"),
    ],
)
def test_parts_that_are_not_there_are_refused(ffn: wb.Journey, what: tuple[str, int], said: str):
    kernel = ffn.lowered.record.kernels[0].name
    at = type(what)(what[0].replace("k0_linear_relu", kernel), what[1])
    with pytest.raises(UnknownSelection, match=said.replace("k0_linear_relu", kernel)):
        ffn.select(at)
