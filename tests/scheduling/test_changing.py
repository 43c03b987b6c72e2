"""`with_(fusion=...)` and `with_(schedule=...)`: other kernels and other tilings, checked like the compiler's own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from simulator.errors import DoesNotFit
from simulator.tileprogram.program import Opcode
from tests.programs import PROGRAMS
from workbench.ground.errors import FusionError, MappingError, ScheduleScriptError
from workbench.scheduling.pass_pipeline import reproduce

ANY = "!transform.any_op"
LAST = f"  %last = transform.structured.match attributes {{npu.id = 2 : i64}} in %root : ({ANY}) -> {ANY}"


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return PROGRAMS["matmul_bias_gelu"].traced()


def kernels(journey: wb.Journey) -> list[str]:
    return [kernel.name for kernel in journey.lowered.kernels]


def script(*lines: str) -> str:
    head = f"transform.named_sequence @__transform_main(%root: {ANY} {{transform.readonly}}) {{"
    return "\n".join([head, *lines, "  transform.yield", "}"])


def tiled(rows: int, *, kind: str = "fuse", options: str = " {apply_cleanup}") -> str:
    types = f"({ANY}) -> ({ANY}, {ANY})"
    return script(LAST, f"  %tile, %loop = transform.structured.{kind} %last tile_sizes [{rows}, 0]{options} : {types}")


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize(
    ("fusion", "expected"),
    [
        ({"off": ["product epilogue"]}, ["k0_matmul", "k1_add_gelu"]),
        ({"off": "epilogue"}, ["k0_matmul", "k1_add_gelu"]),
        ([("matmul", "gelu")], ["k0_matmul_add", "k1_gelu"]),
        ({"apart": [("add", "gelu")]}, ["k0_matmul_add", "k1_gelu"]),
        (None, ["k0_matmul_add_gelu"]),
    ],
)
def test_fusions_are_turned_off_by_rule_and_by_pair(journey: wb.Journey, fusion: object, expected: list[str]):
    changed = journey.with_(fusion=fusion)  # pyright: ignore[reportArgumentType]
    assert kernels(changed) == expected
    assert changed.check(rtol=1e-4, atol=1e-4).ok
    assert changed.captured.record is journey.captured.record
    told = [edge.reason for edge in changed.lowered.record.fusions if not edge.fused]
    assert all("turned off" in reason or "kept apart on request" in reason for reason in told)
    assert bool(told) == (len(expected) > 1)


def test_mappings_of_a_file_for_kernels_that_fusion_changed_are_all_named_with_the_file(tmp_path: Path):
    j = wb.trace(lambda x, w, v: torch.relu(x @ w) @ v + x, torch.randn(8, 16), torch.randn(16, 4), torch.randn(4, 16))
    tiles = {kernel.name: {"tile": {"m": 4}} for kernel in j.lowered.kernels}
    assert [*tiles] == ["k0_matmul_relu", "k1_matmul_add"]
    path = tmp_path / "it.journey"
    j.with_(mapping=tiles).save(path)
    loaded = wb.load(path)
    told = (
        f"kernel 'k0_matmul_relu': no kernel has that name.* Nor is there one for 'k1_matmul_add'. The kernels are "
        f"k0_matmul, .*mapping= is that of {path}; mapping=None leaves it out"
    )
    with pytest.raises(MappingError, match=f"(?s){told}"):
        loaded.with_(fusion="none").scheduled  # noqa: B018
    assert kernels(loaded.with_(fusion="none", mapping=None)) == kernels(j.with_(fusion="none"))
    kept = loaded.with_(fusion={"off": ["product prologue"]}).scheduled  # which changes no kernel here
    assert {kernel.mapping.tile["m"] for kernel in kept.record.kernels} == {4}


@pytest.mark.test_all
def test_without_fusion_every_computing_node_has_a_kernel_and_more_bytes_move(journey: wb.Journey):
    changed = journey.with_(fusion="none")
    assert all(len(kernel.nodes) == 1 for kernel in changed.lowered.kernels) and len(kernels(changed)) == 7
    assert changed.check().ok
    assert changed.simulated.stats["dram_write_bytes"] == 7 * 512 * 384 * 4
    assert changed.simulated.cycles > journey.simulated.cycles
    assert kernels(changed.with_(fusion=None)) == kernels(journey)


def test_trace_takes_fusion_too():
    program = PROGRAMS["softmax_ragged"]
    traced = program.traced(fusion={"off": ["reduction epilogue"]})
    assert len(traced.lowered.kernels) > 1 and traced.check().ok


@pytest.mark.parametrize(
    ("fusion", "message"),
    [
        ("all", "expected 'none'"),
        ({"of": []}, "has the key 'of'"),
        ({"off": ["product epilog"]}, "did you mean 'product epilogue'"),
        ([("matmul", "gelo")], "no node 'gelo'.*did you mean 'gelu'"),
        ([("gelu", "gelu")], "kept apart from itself"),
        ([("gelu",)], "is no pair of nodes"),
        (7, "expected 'none'"),
        ({"off": 3}, "fusion has 'off': 3: expected"),
        ({"apart": "gelu"}, "fusion has 'apart': 'gelu': expected"),
    ],
)
def test_a_choice_of_fusions_that_says_nothing_is_refused(journey: wb.Journey, fusion: object, message: str):
    with pytest.raises(FusionError, match=message):
        _ = journey.with_(fusion=fusion).lowered  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "fusion", ["all", {"of": []}, {"off": ["product epilog"]}, [("gelu",)], 7, {"off": 3}, {"apart": [("gelu", 3)]}]
)
def test_what_needs_no_graph_is_refused_by_the_call_that_gives_it(journey: wb.Journey, fusion: object):
    with pytest.raises(FusionError):
        journey.with_(fusion=fusion)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "form", [iter, tuple, lambda names: (each for each in names)], ids=["iter", "tuple", "generator"]
)
@pytest.mark.parametrize("key", ["off", "apart"])
def test_what_gives_its_names_only_once_is_listed_first(form: Any, key: str):
    names = {"off": ["elementwise chain"], "apart": [("relu", "add")]}[key]
    j = wb.trace(lambda x: torch.relu(x * 2) + 1, torch.randn(8, 8), fusion={key: form(names)})
    assert j.options == {"fusion": {key: names}}
    same = wb.trace(lambda x: torch.relu(x * 2) + 1, torch.randn(8, 8), fusion={key: names})
    assert len(j.lowered.kernels) == len(same.lowered.kernels) > 1


@pytest.mark.parametrize("fusion", [threading.Lock(), torch, b"none"], ids=["a lock", "a module", "bytes"])
def test_what_is_no_option_at_all_is_refused(journey: wb.Journey, fusion: object):
    with pytest.raises(FusionError, match="expected 'none'"):
        journey.with_(fusion=fusion)  # pyright: ignore[reportArgumentType]


def test_a_node_that_is_not_there_is_told_with_the_line_that_named_it(journey: wb.Journey):
    made = journey.with_(fusion=[("matmul", "gelo")])
    with pytest.raises(FusionError, match=rf"did you mean 'gelu'.*\nfusion= was given at {__file__}:\d+"):
        _ = made.lowered


def test_pairs_that_come_once_are_kept(journey: wb.Journey):
    made = journey.with_(fusion=(pair for pair in [("matmul", "gelu")]))  # pyright: ignore[reportArgumentType]
    assert len(made.lowered.record.kernels) > len(journey.lowered.record.kernels)


def test_the_generated_script_given_back_makes_the_same_program(journey: wb.Journey):
    kernel = journey.scheduled.kernels[0]
    again = journey.with_(schedule={kernel.name: kernel.schedule})
    assert again.scheduled.kernels[0].program == kernel.program and again.scheduled.kernels[0].mlir == kernel.mlir
    assert again.scheduled.kernels[0].schedule == kernel.schedule
    assert again.rendered is journey.rendered
    steps = again.scheduled.kernels[0].passes
    at = next(place for place, step in enumerate(steps) if step.name == "attach the schedule")
    assert reproduce(steps[at - 1].mlir, steps[at].pipeline) == steps[at].mlir


@pytest.mark.test_all
def test_an_edited_script_tiles_as_it_says_and_still_computes_the_same(journey: wb.Journey):
    name = journey.scheduled.kernels[0].name
    for rows in (64, 128):
        changed = journey.with_(schedule={name: tiled(rows)})
        kernel = changed.scheduled.kernels[0]
        assert int((kernel.program.opcode == Opcode.STORE).sum()) == 512 // rows
        assert changed.check(rtol=1e-4, atol=1e-4).ok
        changed.simulated.record.invariants()
        assert "tiled by the user's script" in kernel.text()
    assert changed.with_(schedule=None).scheduled.kernels[0].program == journey.scheduled.kernels[0].program


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        (tiled(64).replace("yield", "yeild"), "does not parse", 4),
        ("hello", "does not parse", 1),
        ("func.func @f() { return }", "is no transform script", 1),
        (
            script(
                f'  %f = transform.structured.match ops{{["func.func"]}} in %root : ({ANY}) -> {ANY}',
                f"  %t, %l = transform.structured.tile_using_for %f tile_sizes [4] : ({ANY}) -> ({ANY}, {ANY})",
            ),
            "fails",
            3,
        ),
    ],
    ids=["syntax", "no mlir", "no sequence", "does not apply"],
)
def test_a_script_that_is_wrong_is_refused_at_its_own_line(journey: wb.Journey, text: str, what: str, line: int):
    name = journey.scheduled.kernels[0].name
    with pytest.raises(ScheduleScriptError, match=what) as caught:
        _ = journey.with_(schedule={name: text}).scheduled
    assert caught.value.problems[0].line == line and caught.value.kernel == name
    assert text.splitlines()[line - 1].strip() in str(caught.value)


@pytest.mark.test_all
def test_what_a_script_leaves_is_held_to_the_scheduled_form_and_to_the_scratchpad(journey: wb.Journey):
    name = journey.scheduled.kernels[0].name
    match = f'  %f = transform.structured.match ops{{["func.func"]}} in %root : ({ANY}) -> {ANY}'
    vectors = f"  %v = transform.structured.vectorize_children_and_apply_patterns %f : ({ANY}) -> {ANY}"
    with pytest.raises(ScheduleScriptError, match="not in the scheduled form"):
        _ = journey.with_(schedule={name: script(match, vectors)}).scheduled
    with pytest.raises(DoesNotFit):
        _ = journey.with_(schedule={name: script()}, machine="edge-8x8").scheduled
    with pytest.raises(ScheduleScriptError, match=r"in scf\.forall uses .* from outside: every core has a scratchpad"):
        _ = journey.with_(schedule={name: tiled(128, kind="tile_using_forall", options="")}).scheduled
    with pytest.raises(ScheduleScriptError, match=r"names no kernel.*\n.*did you mean 'k0_matmul_add_gelu'"):
        _ = journey.with_(schedule={"k0_matmul_add_gel": script()}).scheduled


def test_a_script_of_one_of_several_alike_kernels_is_for_that_one_alone():
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x) * 2, torch.relu(x + 1)

    journey = wb.trace(twice, torch.randn(64, 64), fusion="none")
    names = [launch.name for launch in journey.scheduled.record.launches.launches]
    shared = [launch.kernel for launch in journey.scheduled.record.launches.launches]
    assert len(set(names)) == len(names) > len(set(shared))
    other = next(name for name, kernel in zip(names, shared, strict=True) if name != kernel)
    changed = journey.with_(schedule={other: script()})
    runs = {launch.name: launch.kernel for launch in changed.scheduled.record.launches.launches}
    assert runs[other] == other and changed.check().ok
    for name in names:
        assert changed.select(name).kernels == (name,) and changed.select(name).spans
    assert sorted(row for name in names for row in journey.select(name).spans) == list(
        range(len(journey.simulated.events))
    )


def test_lowered_kernels_are_a_sequence_with_a_table_beside(journey: wb.Journey):
    (kernel,) = journey.lowered.kernels
    assert (kernel.name, kernel.kind) == ("k0_matmul_add_gelu", "contraction")
    assert kernel.nodes[0] == "matmul" and len(kernel.ops) == len(kernel.nodes)
    assert [str(kind) for kind in kernel.inputs.values()] == ["512x256xf32", "256x384xf32", "384xf32"]
    assert [str(kind) for kind in kernel.outputs.values()] == ["512x384xf32"]
    assert journey.lowered.kernel_table["kernel"].tolist() == [kernel.name]
    assert repr(kernel) == f"LoweredKernel('k0_matmul_add_gelu', contraction, {len(kernel.nodes)} nodes)"
