"""Diffs of passes: renumbering is no change, what is shown is the text itself, and a pass says where it stands."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import torch
from torch import nn

import workbench as wb
from tests.programs import PROGRAMS
from tests.views.test_stage_html import assert_self_contained
from workbench.ground.basics.mlir_diff import canonical, compared
from workbench.ground.errors import BadOption
from workbench.scheduling.passes.kernel_pass import ModulePass
from workbench.scheduling.passes.our_passes import OUR_PASSES
from workbench.scheduling.passes.pass_places import passes_of, places

BEFORE = """\
#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0) -> (0)>
module {
  func.func @k(%arg0: memref<4xf32>, %arg1: memref<4xf32>) {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %0 = memref.load %arg0 : f32
    %1 = arith.addf %0, %0 : f32
    linalg.generic {maps = [#map, #map1]} ins(%arg0) outs(%arg1) {
    ^bb0(%in: f32, %out: f32):
      %2 = arith.mulf %in, %1 : f32
      linalg.yield %2 : f32
    }
    scf.for %arg2 = %c0 to %c4 step %c4 {
      memref.store %1, %arg1[%arg2] : f32
    }
    return
  }
}
"""
RENUMBERED = """\
#map = affine_map<(d0) -> (0)>
#map1 = affine_map<(d0) -> (d0)>
module {
  func.func @k(%arg0: memref<4xf32>, %arg1: memref<4xf32>) {
    %c0 = arith.constant 0 : index
    %c4_5 = arith.constant 4 : index
    %7 = memref.load %arg0 : f32 loc("x.py":3:1)
    %8 = arith.addf %7, %7 : f32
    linalg.generic {maps = [#map1, #map]} ins(%arg0) outs(%arg1) {
    ^bb0(%in_0: f32, %out: f32):
      %9 = arith.mulf %in_0, %8 : f32
      linalg.yield %9 : f32
    }
    scf.for %arg3 = %c0 to %c4_5 step %c4_5 {
      memref.store %8, %arg1[%arg3] : f32
    }
    return
  }
}
"""


def same_but_for_names(before: str, after: str) -> bool:
    """True if one renaming makes the two the same; a kernel's own name is one, too."""
    return canonical(before) == canonical(after)


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return PROGRAMS["ffn_residual"].traced()


def test_other_numbers_and_locations_are_no_change():
    found = compared(BEFORE, RENUMBERED)
    assert found.empty and (found.added, found.removed) == (0, 0)
    assert "    %8 = arith.addf %7, %7 : f32" in found.after and "    %1 = arith.addf %0, %0 : f32" in found.before
    assert same_but_for_names(BEFORE, RENUMBERED.replace("@k(", "@other("))


def test_one_line_more_at_the_top_is_one_line():
    inserted = BEFORE.replace("    %0 = memref", "    %0 = arith.constant 1.0 : f32\n    %1 = memref")
    inserted = inserted.replace("    %1 = arith.addf %0, %0", "    %2 = arith.addf %1, %1")
    inserted = inserted.replace("%2 = arith.mulf %in, %1", "%3 = arith.mulf %in, %2").replace("yield %2", "yield %3")
    inserted = inserted.replace("store %1", "store %2")
    found = compared(BEFORE, inserted)
    (change,) = [change for change in found.changes if not change.same]
    assert [found.after[line] for line in change.after] == ["    %0 = arith.constant 1.0 : f32"]
    assert change.before == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("arith.addf %0, %0", "arith.addf %0, %c4"),
        ("arith.mulf %in, %1", "arith.mulf %in, %in"),
        ("[#map, #map1]", "[#map1, #map]"),
        ("store %1, %arg1", "store %0, %arg1"),
        ("ins(%arg0) outs(%arg1)", "ins(%arg1) outs(%arg0)"),
        ("%c0 to %c4", "%c4 to %c0"),
    ],
)
def test_another_operand_is_a_change(old: str, new: str):
    assert old in BEFORE
    found = compared(BEFORE, BEFORE.replace(old, new))
    assert found.added == found.removed == 1 and not same_but_for_names(BEFORE, BEFORE.replace(old, new))


def test_every_diff_is_one_under_a_renaming_and_no_larger_than_that_of_the_texts(journey: wb.Journey):
    smaller = 0
    for kernel in journey.scheduled.kernels:
        for step in kernel.passes:
            assert step.before is not None and step.diff is not None
            old, new = step.before.strip("\n").splitlines(), step.mlir.strip("\n").splitlines()
            plain = list(difflib.unified_diff(old, new, n=0, lineterm=""))[2:]
            plain_changed = sum(line.startswith(("+", "-")) for line in plain)
            assert step.diff.added + step.diff.removed <= plain_changed
            smaller += step.diff.added + step.diff.removed < plain_changed
            assert [line for change in step.diff.changes for line in change.before] == list(range(len(old)))
            assert [line for change in step.diff.changes for line in change.after] == list(range(len(new)))
            assert [sorted(step.diff.before), sorted(step.diff.after)] == [sorted(old), sorted(new)]
    assert smaller >= 8


def test_a_pass_that_only_renumbers_changes_nothing(journey: wb.Journey):
    """MLIR's own printer, asked for another name of every value, is the pass."""
    kernel = journey.scheduled.kernels[0]
    text = kernel.passes[-1].mlir
    renamed = text.replace("%", "%v").replace("#map", "#mapping")
    assert compared(text, renamed).empty and same_but_for_names(text, renamed)


def test_passes_are_a_list_that_shows_itself(journey: wb.Journey):
    passes = journey.scheduled.kernels[0].passes
    assert passes[0].before == journey.rendered.kernels[0].mlir and passes[1].before == passes[0].mlir
    table = passes.table
    assert table["lines_added"].tolist() == [step.diff.added for step in passes]
    assert table["pipeline"].tolist() == [step.pipeline for step in passes] == passes.pipelines.split("\n")
    idle = [step.name for step in passes if not step.changes]
    assert idle == ["open named ops", "hoist invariants"]
    assert "1 pass changed nothing: hoist invariants" in passes.text()
    bundle = passes._repr_mimebundle_()
    assert bundle["text/plain"] == "Passes(12 of 'k0_linear_gelu')"
    assert_self_contained(bundle["text/html"])
    assert bundle["text/html"].count("<details>") == 12
    for step in passes:
        assert f'<code class="whole">{step.pipeline.replace("<", "&lt;")}</code>' in bundle["text/html"]


def test_passes_that_change_nothing_one_after_the_other_are_told_together():
    journey = wb.trace(lambda x: torch.tanh(x), torch.randn(8, 8))
    (kernel,) = journey.with_(passes={"hoist invariants": ["cse", "cse"]}).scheduled.kernels
    assert "3 passes changed nothing: hoist invariants, yours: cse, yours: cse" in kernel.passes.text()
    assert "3 passes changed nothing: hoist invariants, yours: cse, yours: cse" in kernel.html()


def test_a_pass_shows_what_it_changed_in_one_column_and_in_two(journey: wb.Journey):
    step = next(step for step in journey.scheduled.kernels[0].passes if step.name == "reuse outputs")
    text = step.text(context=0)
    assert text.count("\n+ ") == step.diff.added == 3 and text.count("\n- ") == step.diff.removed == 2
    assert "pipeline: eliminate-empty-tensors\nsource: MLIR: eliminate-empty-tensors" in text
    beside = step.text(side_by_side=True, width=100).splitlines()[3:]
    assert max(map(len, beside)) <= 101 and sum(" | " in line for line in beside) == 3
    assert_self_contained(step.html())
    assert step.html().count('class="l plus"') == 2 * 3 and 'class="both"' in step.html()
    assert repr(step) == "Pass('reuse outputs' of 'k0_linear_gelu': +3 -2 lines)"
    with pytest.raises(BadOption, match="context=-1: expected lines"):
        step.text(context=-1)


def test_a_loaded_journey_shows_the_same_passes(journey: wb.Journey, tmp_path: Path):
    journey.save(tmp_path / "j")
    loaded = wb.load(tmp_path / "j")
    assert loaded.scheduled.kernels[1].passes.html() == journey.scheduled.kernels[1].passes.html()


def test_every_pass_of_ours_says_where_it_is_written():
    for name, made in OUR_PASSES.items():
        file, line = places(name).split(":")
        begins = f"def {made.run.__name__}(" if isinstance(made, ModulePass) else f"class {made.__name__}("
        assert begins in Path(file).read_text("utf-8").splitlines()[int(line) - 1]
    assert places("npu-promote{buffers=2}").startswith("workbench/scheduling/passes/promote.py:")
    assert places("func.func(linalg-fuse-elementwise-ops),canonicalize,cse,canonicalize") == (
        "MLIR: linalg-fuse-elementwise-ops, canonicalize, cse"
    )
    assert passes_of("npu-attach-script{a {b} c}") == ("npu-attach-script",)


@pytest.mark.test_all
def test_a_pass_of_the_users_is_named_by_its_line_as_long_as_it_is_known():
    @wb.mlir_pass("leave-alone")
    def leave_alone(module: object, options: dict[str, str]) -> None:
        pass

    journey = wb.trace(lambda x: torch.exp(x), torch.randn(8, 8)).with_(passes={"bufferize": "leave-alone"})
    (step,) = [step for step in journey.scheduled.kernels[0].passes if step.name == "yours: leave-alone"]
    assert step.source == f"{__file__}:{leave_alone.__code__.co_firstlineno}" and not step.changes
    assert places("gone-by-now", users=True) == "MLIR, or a pass of yours that is not registered now: gone-by-now"


@pytest.mark.test_all
def test_a_page_of_many_kernels_says_how_passes_are_asked_for():
    layers = [layer for width in range(8, 17) for layer in (nn.Linear(width, width + 1), nn.Softmax(-1))]
    scheduled = wb.trace(nn.Sequential(*layers), torch.randn(4, 8), fusion={"off": ["rows of a product"]}).scheduled
    assert len(scheduled.kernels) > 8
    shown = scheduled.html()
    assert "j.scheduled.kernels[9].passes" in shown and 'class="l plus"' not in shown
    assert all("diff" not in vars(step) for kernel in scheduled.kernels for step in kernel.passes)
    assert 'class="l plus"' in scheduled.kernels[9].html()
