"""Passes of a user's own: where they run, what they change, and what is said when they cannot."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_mlir import ir
from torch_mlir.dialects import arith

import workbench as wb
from workbench.ground.errors import BadOption, BadRegistration, PassError
from workbench.scheduling.pass_pipeline import reproduce

pytestmark = pytest.mark.usefixtures("own_scope")


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return wb.trace(lambda x: torch.tanh(x + 1.5), torch.randn(70, 33))


def ops_named(module: Any, name: str) -> list[Any]:
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def test_what_a_pass_makes_is_what_runs_and_what_is_simulated(journey: wb.Journey):
    @wb.mlir_pass("twice")
    def twice(module: Any, options: dict[str, str]) -> None:
        for op in ops_named(module, "math.tanh"):
            with ir.InsertionPoint.after(op), op.location:
                doubled = arith.addf(op.results[0], op.results[0])
            op.results[0].replace_all_uses_except(doubled, doubled.owner.operation)

    changed = journey.with_(passes={"fuse elementwise": ["twice", "cse"]})
    x = torch.randn(70, 33)
    torch.testing.assert_close(changed.run(x), 2 * torch.tanh(x + 1.5))
    assert not changed.check().ok and journey.check().ok
    assert changed.simulated.cycles > journey.simulated.cycles
    steps = changed.scheduled.kernels[0].passes
    names = [step.name for step in steps]
    place = names.index("fuse elementwise")
    assert names[place + 1 : place + 3] == ["yours: twice", "yours: cse"]
    assert reproduce(steps[place].mlir, "twice") == steps[place + 1].mlir


def test_options_arrive_and_a_later_registration_replaces(journey: wb.Journey):
    seen: list[object] = []
    for number in range(2):
        wb.mlir_pass("look")(lambda module, options, number=number: seen.append((number, options)))  # type: ignore[misc]
    assert journey.with_(passes={"clean up": "look{depth=3 kind=a}"}).simulated.cycles == journey.simulated.cycles
    assert seen == [(1, {"depth": "3", "kind": "a"})]


def test_a_pass_that_breaks_the_module_is_an_error_that_names_it(journey: wb.Journey):
    @wb.mlir_pass("forget-the-return")
    def forget(module: Any, options: dict[str, str]) -> None:
        ops_named(module, "func.return")[0].erase()

    with pytest.raises(
        PassError, match=r"forget-the-return` failed:\n  the pass at .* left a module that MLIR refuses: "
    ):
        _ = journey.with_(passes={"fuse elementwise": "forget-the-return"}).scheduled


def test_an_op_that_mlir_refuses_is_shown_beside_the_place_of_the_pass(journey: wb.Journey):
    @wb.mlir_pass("narrow-the-result")
    def narrow(module: Any, options: dict[str, str]) -> None:
        for op in ops_named(module, "linalg.yield"):
            with ir.InsertionPoint(op), op.location:
                op.operands[0] = arith.truncf(ir.BF16Type.get(), op.operands[0])

    with pytest.raises(PassError) as caught:
        _ = journey.with_(passes={"fuse elementwise": "narrow-the-result"}).scheduled
    first, refused, op = str(caught.value).splitlines()
    line = narrow.__code__.co_firstlineno
    assert first == "the MLIR passes `narrow-the-result` failed:"
    assert refused.startswith(
        f"  the pass at {__file__}:{line} left a module that MLIR refuses: 'linalg.yield' op type"
    )
    assert op.strip().startswith('"linalg.yield"(%')


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize(
    ("passes", "error", "words"),
    [
        ({"fuse": "cse"}, BadOption, "no kernel has a step 'fuse'; the steps that run are .*'fuse elementwise'"),
        ({"clean up": "no-such-pass"}, PassError, "does not refer to a registered pass"),
        ({"clean up": "npu-no-such"}, PassError, "ours are npu-copy-left-over, npu-generalize, "),
        ("cse", BadOption, "expected {step: pipeline"),
        ({"clean up": 3}, BadOption, "expected {step: pipeline"),
    ],
)
def test_mistakes_are_named(journey: wb.Journey, passes: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        _ = journey.with_(passes=passes).scheduled


@pytest.mark.parametrize(
    ("name", "words"), [("cse", "passes of MLIR"), ("npu-mine", "passes of the workbench"), ("Mine", "small letters")]
)
def test_names_of_others_are_refused(name: str, words: str):
    with pytest.raises(BadRegistration, match=words):
        wb.mlir_pass(name)


@pytest.mark.test_all
def test_passes_are_saved_with_the_journey(journey: wb.Journey, tmp_path: Path):
    changed = journey.with_(passes={"clean up": ["canonicalize"]})
    changed.save(tmp_path / "a.journey")
    again = wb.load(tmp_path / "a.journey")
    assert [step.name for step in again.scheduled.kernels[0].passes][-1] == "yours: canonicalize"
    elsewhere = again.with_(machine="edge-8x8").scheduled.kernels[0].passes
    assert [step.name for step in elsewhere][-1] == "yours: canonicalize"


def test_a_journey_with_nothing_changed_is_shared_and_one_whose_mapping_was_edited_is_not(journey: wb.Journey):
    mapping: dict[str, Any] = {"*": {"buffers": 1}}
    tiled = journey.with_(mapping=mapping)
    assert journey.with_() is journey
    assert tiled.with_(mapping={"*": {"buffers": 1}}, machine="tpu-v3") is tiled
    mapping["*"]["buffers"] = 2
    edited = tiled.with_(mapping=mapping)
    assert [each.scheduled.kernels[0].mapping.buffers for each in (tiled, edited)] == [1, 2]


def test_a_pass_that_ends_its_process_is_an_error_with_its_line(
    journey: wb.Journey, capsys: pytest.CaptureFixture[str]
):
    calls: list[str] = []

    @wb.mlir_pass("erase-what-is-used")
    def erase(module: Any, options: dict[str, str]) -> None:
        calls.append("called")
        for op in ops_named(module, "math.tanh"):
            op.erase()

    @wb.mlir_pass("read-nowhere")
    def read(module: Any, options: dict[str, str]) -> None:
        ctypes.string_at(0)

    # Which of them it is depends on what lies in the memory of the erased op by then.
    ends = r"(segmentation fault|bus error) \(SIG\w+\), when MLIR read its ops after it|operand is unlinked"
    with pytest.raises(PassError, match=rf"(?s)at .*test_user_passes\.py:\d+ .*({ends}).*A pass must replace all uses"):
        _ = journey.with_(passes={"fuse elementwise": "erase-what-is-used"}).scheduled
    with pytest.raises(PassError, match=r"segmentation fault .*, at .*test_user_passes\.py:\d+ in read\."):
        _ = journey.with_(passes={"fuse elementwise": "read-nowhere"}).scheduled
    assert not calls and journey.check().ok
    assert capsys.readouterr().err == ""


@pytest.mark.test_all
def test_a_pass_that_does_not_return_is_an_error_with_its_line(journey: wb.Journey, monkeypatch: pytest.MonkeyPatch):
    @wb.mlir_pass("for-ever")
    def for_ever(module: Any, options: dict[str, str]) -> None:
        while True:
            time.sleep(1)

    monkeypatch.setenv("ATEN_WORKBENCH_WORKER_TIMEOUT", "1")

    @wb.mlir_pass("ends-all")
    def ends_all(module: Any, options: dict[str, str]) -> None:
        os._exit(7)

    place, line = f"the pass at {__file__}", for_ever.__code__.co_firstlineno
    with pytest.raises(PassError) as hung:
        reproduce(journey.scheduled.kernels[0].mlir, "for-ever")
    told = f"{place}:{line} was not done after 1 s, at {__file__}:{line + 3} in for_ever. If it only"
    assert told in str(hung.value) and str(hung.value).endswith("otherwise look for a loop that has no end")
    with pytest.raises(PassError) as ended:
        reproduce(journey.scheduled.kernels[0].mlir, "ends-all")
    line = ends_all.__code__.co_firstlineno
    assert f"{place}:{line} ends its process" in str(ended.value)
    assert str(ended.value).endswith(f"ended itself with exit status 7, at {__file__}:{line + 2} in ends_all")


@pytest.mark.parametrize("returned", [42, ir.Module])
def test_what_a_pass_returns_is_not_lost(journey: wb.Journey, returned: Any):
    @wb.mlir_pass("gives")
    def gives(module: Any, options: dict[str, str]) -> Any:
        return ir.Module.create(ir.Location.unknown()) if returned is ir.Module else returned

    @wb.mlir_pass("gives-back")
    def gives_back(module: Any, options: dict[str, str]) -> Any:
        return module

    text = journey.scheduled.kernels[0].mlir
    with pytest.raises(PassError, match=r"the pass at .* returned (int|Module); a pass changes the module"):
        reproduce(text, "gives")
    assert reproduce(text, "gives-back") == text


def test_leaving_in_a_pass_is_an_error_with_its_line_and_an_interrupt_is_none(journey: wb.Journey):
    @wb.mlir_pass("leaves")
    def leaves(module: Any, options: dict[str, str]) -> None:
        sys.exit(3)

    @wb.mlir_pass("interrupted")
    def interrupted(module: Any, options: dict[str, str]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(PassError) as left:
        reproduce(journey.scheduled.kernels[0].mlir, "leaves")
    line = leaves.__code__.co_firstlineno
    assert f"the pass at {__file__}:{line} raised SystemExit: 3, at {__file__}:{line + 2}" in str(left.value)
    with pytest.raises(KeyboardInterrupt):
        reproduce(journey.scheduled.kernels[0].mlir, "interrupted")


@pytest.mark.parametrize("function", [lambda module: None, lambda module, options, depth: None])
def test_a_pass_takes_the_module_and_its_options(function: Any):
    with pytest.raises(BadRegistration, match=r"cannot be called with \(module, options\)"):
        wb.mlir_pass("misfit")(function)
