"""Templates go through the records like all other kernels: one text is shown, scheduled, run and read off, and a saved
journey is scheduled anew where the template is not there."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from simulator.machine.machine import Machine
from simulator.machine.machine_file import load_machine
from templates.foobar import FoobarDoubleBuffered, FoobarTiled, register_fake
from tests.test_imports import run
from workbench.ground.errors import (
    JourneyFileEdited,
    MappingError,
    RegistrationGone,
)
from workbench.ir import KernelModule, ScheduledKernel
from workbench.ir.kernel_identity import nameless, without_origins
from workbench.mlir.context import parse
from workbench.scheduling.kernels.read_figures import noting, others

MACHINES = ("tpu-v3", "edge-8x8")
OP = "aten._foobar.default"


def program(x: torch.Tensor) -> torch.Tensor:
    """A template with neighbours in its kernel, one that is shipped, and kernels without a template."""
    return torch.ops.aten._foobar(x * 2).relu() + torch.cumsum(x, 1) @ x.t() @ x


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_fake()
    with wb.ops.scope():
        wb.ops.template(OP, kind="tile")(FoobarTiled)
        yield


@pytest.fixture
def journey() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(program, torch.randn(200, 400))


def pairs(j: wb.Journey) -> list[tuple[KernelModule, ScheduledKernel]]:
    """The kernels of templates, rendered and scheduled."""
    runs = {launch.name: launch.kernel for launch in j.scheduled.record.launches.launches}
    modules = [module for module in j.rendered.record if module.handwritten]
    return [(module, j.scheduled.record.kernel(runs[module.kernel])) for module in modules]


@pytest.mark.test_all
@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_rendered_is_what_is_scheduled(journey: wb.Journey, machine: str):
    j = journey.with_(machine=machine)
    found = pairs(j)
    assert [module.written.template for module, _ in found if module.written] == [
        "FoobarTiled of templates.foobar",
        "Sum of templates.scan",
    ]
    for module, kernel in found:
        assert nameless(kernel.mlir, kernel.kernel) == nameless(module.mlir, module.kernel)
        assert nameless(kernel.located, kernel.kernel) == nameless(module.located, module.kernel)
        assert module.written and module.written.machine == machine and kernel.dims == module.written.dims
    assert j.check().ok and j.check(stage="rendered").ok


@pytest.mark.test_all
def test_each_machine_and_mapping_has_a_text_of_its_own_and_back_it_is_the_first(journey: wb.Journey):
    name = pairs(journey)[0][0].kernel
    changes: list[dict[str, Any]] = [{"machine": "edge-8x8"}, {"mapping": {name: {"tile": {"d0": 8}, "buffers": 2}}}]
    for change in changes:
        other = journey.with_(**change)
        assert pairs(other)[0][0].mlir != pairs(journey)[0][0].mlir
    assert "memref<2x8x400xf32, 1>" in pairs(other)[0][0].mlir
    again = other.with_(mapping=None)
    assert again.rendered.record == journey.rendered.record


def test_a_mapping_that_a_template_cannot_have_is_told_where_it_was_given(journey: wb.Journey):
    name = pairs(journey)[0][0].kernel
    with pytest.raises(MappingError, match=r"(?s)tile names 'rows', but its dims are .*mapping= was given at .*:\d+"):
        _ = journey.with_(mapping={name: {"tile": {"rows": 8}}}).rendered


@pytest.mark.test_all
@pytest.mark.parametrize("machine", MACHINES)
def test_what_runs_and_what_is_read_off_are_one_text(journey: wb.Journey, machine: str):
    """The JIT compiles `mlir`, the extractor reads `located`: the same, but for the origins."""
    j = journey.with_(machine=machine)
    hooked = 0
    for module, kernel in pairs(j):
        for record in (module, kernel):
            assert without_origins(record.located) == record.mlir
        hooked += module.located != module.mlir
    assert hooked == 1, "the neighbours of a template have their origins in its text"
    for kernel in j.scheduled.record.kernels:
        assert str(parse(kernel.located)) == str(parse(kernel.mlir))


def test_a_template_is_known_by_the_figures_that_it_read():
    machine = load_machine("tpu-v3")
    noted, read = noting(machine)
    assert isinstance(noted, Machine) and noted.vector_elements(4) == machine.vector_elements(4)
    assert read == {"vector_lanes": "128", "vector_bits_per_lane": "256"}
    assert others(read, machine.with_(dram_latency_ns=1.0)) == {}
    assert others(read, machine.with_(vector_lanes=64)) == {"vector_lanes": "64"}
    assert others({"of_long_ago": "1"}, machine) == {"of_long_ago": "'not there'"}
    assert noted == machine and machine == noted and len(read) > 50, "who compares machines has read all of both"


def test_what_follows_from_cores_that_differ_reads_no_other_figures():
    machine = load_machine("tpu-v3", cores=[{}, {"vector_lanes": 64, "clock_ratio": 0.5}])
    noted, read = noting(machine)
    assert (noted.scratchpad_bytes, noted.shares) == (machine.scratchpad_bytes, (0, 0, 1))
    assert noted.peak_macs_per_cycle == machine.peak_macs_per_cycle
    assert {"cores", "core_figures", "vector_lanes", "systolic_rows"} <= set(read)
    assert others(read, machine.with_(dram_latency_ns=1.0, vector_alus=1)) == {}


CHILD = """
import json, sys, warnings
import workbench as wb
from workbench.ground.errors import TemplateNotRegistered, TemplateOfAnotherMachine
path, template, other = {path!r}, {template!r}, {other!r}
j = wb.load(path)
def cycles(**options):
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        made = j.with_(**options)
        found = made.simulated.cycles
    notes = [str(note.message) for note in noted if note.category is TemplateOfAnotherMachine]
    return found, notes, made.scheduled.record.kernel(template).mapping.reason
told = dict(
    mapped=cycles(mapping={{other: {{"buffers": 1}}}}),
    slower=cycles(machine=j.machine.with_(dram_latency_ns=5000.0)),
    elsewhere=cycles(machine="edge-8x8"),
)
told["left"] = cycles(mapping={{template: {{}}, "*": {{"buffers": 1}}}})
try:
    cycles(mapping={{template: {{"tile": {{"d0": 8}}}}}})
except TemplateNotRegistered as error:
    told["refused"] = str(error)
kept = wb.load(path).with_(machine="edge-8x8")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    kept.save(path + ".again")
again = wb.load(path + ".again")
told["again"] = [again.simulated.cycles, again.with_(machine="tpu-v3").simulated.cycles]
assert not {{"templates.foobar", "tests"}} & {{*sys.modules}}, "the template's code is here"
print(json.dumps(told))
"""


@pytest.mark.test_all
def test_a_loaded_journey_is_scheduled_anew_where_the_template_is_not_registered(journey: wb.Journey, tmp_path: Path):
    path = tmp_path / "one.journey"
    journey.save(path)
    template = pairs(journey)[0][0].kernel
    other = next(module.kernel for module in journey.rendered.record if not module.handwritten)
    told = json.loads(run(CHILD.format(path=str(path), template=template, other=other), blocked=()))

    mapped = journey.with_(mapping={other: {"buffers": 1}}).simulated.cycles
    assert told["mapped"] == [mapped, [], "the template's own"] and mapped != journey.simulated.cycles
    slower = journey.machine.with_(dram_latency_ns=5000.0)
    assert told["slower"] == [journey.with_(machine=slower).simulated.cycles, [], "the template's own"]

    cycles, (note,), reason = told["elsewhere"]
    assert note.startswith(
        f"kernel {template} is written by the template FoobarTiled of templates.foobar, and no template of {OP}"
    )
    assert "on edge-8x8 it keeps the text written for tpu-v3" in note and "vector_lanes is 8 and was 128" in note
    assert reason == "the template's own; its text was written for tpu-v3"
    assert cycles != journey.with_(machine="edge-8x8").simulated.cycles, "here it is written anew, with smaller tiles"

    assert told["refused"].startswith(
        f"kernel {template} is a template's, FoobarTiled of templates.foobar, and its text"
    )
    assert 'For the mapping {"tile": {"d0": 8}} it has to be written anew' in told["refused"]
    assert f"wb.ops.template('{OP}')" in told["refused"]
    assert told["refused"].endswith(f"or keep the text: mapping={{'{template}': {{}}, ...}}")
    left = journey.with_(mapping={template: {}, "*": {"buffers": 1}}).simulated.cycles
    assert told["left"] == [left, [], "the template's own"]
    assert told["again"] == [cycles, journey.simulated.cycles], "the file says for which machine the text was written"


@pytest.mark.test_all
def test_a_text_for_tensors_that_lie_otherwise_is_not_kept(tmp_path: Path):
    """On tpu-v3 both tensors have their first axis innermost, and on a machine without blocks their last."""
    j = wb.trace(lambda x: torch.ops.aten._foobar(x * 2).relu(), torch.randn(200, 20))
    assert {order.axes for order in j.lowered.record.layouts} == {(1, 0)}
    j.save(tmp_path / "one.journey")
    loaded = wb.load(tmp_path / "one.journey")
    with wb.ops.scope():
        wb.ops.drop(OP)
        with pytest.raises(RegistrationGone, match="no such template is registered now"):
            _ = loaded.with_(machine="edge-8x8").rendered
    elsewhere = loaded.with_(machine="edge-8x8")
    assert elsewhere.rendered.record == j.with_(machine="edge-8x8").rendered.record
    assert elsewhere.simulated.cycles == j.with_(machine="edge-8x8").simulated.cycles


@pytest.mark.test_all
def test_a_loaded_journey_has_its_template_written_anew_where_it_is_registered(journey: wb.Journey, tmp_path: Path):
    path = tmp_path / "one.journey"
    journey.save(path)
    name, loaded = pairs(journey)[0][0].kernel, wb.load(path)
    for change in ({"machine": "edge-8x8"}, {"mapping": {name: {"tile": {"d0": 8}}}}):
        there, here = loaded.with_(**change), journey.with_(**change)  # type: ignore[arg-type]
        assert there.rendered.record == here.rendered.record
        assert there.simulated.record.digest() == here.simulated.record.digest()


def test_what_a_file_has_is_kept_whoever_is_registered_now(journey: wb.Journey, tmp_path: Path):
    path = tmp_path / "one.journey"
    journey.save(path)
    name = next(module.kernel for module in journey.rendered.record if not module.handwritten)
    with wb.ops.scope():
        wb.ops.drop(OP)
        wb.ops.template(OP, kind="tile")(FoobarDoubleBuffered)
        other = wb.load(path).with_(mapping={name: {"buffers": 1}})
        assert pairs(other)[0][0].mlir == pairs(journey)[0][0].mlir


def test_the_stages_alone_write_for_the_machine_that_is_scheduled_for(journey: wb.Journey):
    rendered = wb.render(journey.lowered)
    assert rendered.record == journey.rendered.record
    scheduled = wb.schedule(journey.lowered, rendered, machine="edge-8x8")
    elsewhere = journey.with_(machine="edge-8x8")
    assert scheduled.record.kernels == elsewhere.scheduled.record.kernels
    assert scheduled.rendered == elsewhere.rendered.record


def changed(path: Path, into: Path, change: Callable[[dict[str, Any], list[Any]], None]) -> Path:
    """The file with its manifest and its rendered kernels changed, and all checksums right."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    manifest, rendered = json.loads(members["journey.json"]), json.loads(members["rendered.json"])
    manifest.pop("checksum")
    change(manifest, rendered)
    members["rendered.json"] = json.dumps(rendered, separators=(",", ":")).encode()
    manifest["members"]["rendered.json"] = hashlib.sha256(members["rendered.json"]).hexdigest()
    told = json.dumps(manifest, allow_nan=False, separators=(",", ":")).encode()
    members["journey.json"] = json.dumps(manifest | {"checksum": hashlib.sha256(told).hexdigest()}).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    into.write_bytes(out.getvalue())
    return into


def other_text(manifest: dict[str, Any], rendered: list[Any]) -> None:
    row = next(row for row in rendered if row["written"])
    row["mlir"] = row["mlir"].replace("d0", "e0")
    row["located"] = row["located"].replace("d0", "e0")


def two_texts(manifest: dict[str, Any], rendered: list[Any]) -> None:
    row = next(row for row in rendered if row["written"])
    row["located"] = row["located"].replace("d0", "e0")


def no_writer(manifest: dict[str, Any], rendered: list[Any]) -> None:
    next(row for row in rendered if row["written"])["written"] = None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_text, "is scheduled with another text than its template has written"),
        (two_texts, "has different texts with and without origins"),
        (no_writer, "must say for which machine and mapping its text was written"),
    ],
)
def test_a_file_whose_template_has_another_text_than_is_scheduled_is_refused(
    journey: wb.Journey, tmp_path: Path, change: Callable[[dict[str, Any], list[Any]], None], words: str
):
    journey.save(tmp_path / "one.journey")
    with pytest.raises(JourneyFileEdited, match=words):
        wb.load(changed(tmp_path / "one.journey", tmp_path / "other.journey", change))


@pytest.mark.parametrize("mapping", ["[1]", '{"*": {"tile": 3}}', '{"*": 3}'])
def test_a_file_that_was_asked_for_a_mapping_which_is_none_is_refused(
    journey: wb.Journey, tmp_path: Path, mapping: str
):
    def change(manifest: dict[str, Any], rendered: list[Any]) -> None:
        manifest["options"]["mapping"] = json.loads(mapping)

    journey.save(tmp_path / "one.journey")
    with pytest.raises(JourneyFileEdited, match="mapping"):
        wb.load(changed(tmp_path / "one.journey", tmp_path / "other.journey", change))
