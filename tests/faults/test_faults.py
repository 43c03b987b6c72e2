"""Faults of native code, from the journey's side: each is an error or a route, and this process lives on."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_mlir import ir
from torch_mlir.dialects import arith

import workbench as wb
from tests.running.test_guarded_call import GOOD, PAST, READS
from workbench.ground.errors import (
    HostRoute,
    KernelCrashed,
    KernelHung,
    KernelOverran,
    MissingRoutes,
    TemplateBoundsError,
    TooManyInstructions,
    WorkbenchError,
)
from workbench.ground.faults.messages import Message
from workbench.ground.faults.trial import TRIALS, Trial, Verdict
from workbench.ground.faults.worker_process import WorkerProcess
from workbench.ir import Node, Origin, Ref, TensorType
from workbench.operators.aten.import_trial import import_trial
from workbench.running.guarded_call import Arguments, run_trial
from workbench.scheduling.kernels.template import Template
from workbench.scheduling.schedule import try_schedule

X = torch.linspace(-2, 2, 16)
HEAD = "func.func @{{ kernel }}({{ signature }}) {\n"
COPY = """
  affine.for %i = 0 to 16 {
    %x = memref.load %X[%i] : {{ X.memref }}
    memref.store %x, %Y[%i] : {{ Y.memref }}
  }
"""


pytestmark = pytest.mark.usefixtures("own_scope")


def template(text: str) -> type[Template]:
    """A template of `aten.frac` with this body."""
    made = type("Mine", (Template,), {"source": f"{HEAD}{text}\n  return\n}}"})
    return wb.ops.template("aten.frac.default")(made)


def builder(one: Any) -> None:
    """A builder of `aten.frac` that computes `one` of each number."""

    @wb.ops.builder("aten.frac.default", dialect="arith", kind="elementwise")
    def build(op: Any) -> Any:
        return op.elementwise(one, *op.operands)


# The crashers of torch-mlir


def int8_mm() -> tuple[list[Node], dict[str, TensorType]]:
    types = {"a": TensorType((4, 5), "i8", (5, 1)), "b": TensorType((5, 6), "i8", (6, 1))}
    types["y"] = TensorType((4, 6), "i8", (6, 1))
    origin = Origin("y", "aten.mm.default", "model.py", 12)
    return [Node("y", "aten.mm.default", (Ref("a"), Ref("b")), {}, ("y",), origin)], types


def test_an_import_that_crashes_is_a_verdict() -> None:
    nodes, types = int8_mm()
    with pytest.raises(KernelCrashed, match=r"stage: import\): was ended by a segmentation fault(.|\n)*model.py:12"):
        TRIALS.pass_or_raise(import_trial("k0_mm", nodes, types, ("y",)))


CRASHERS = {
    "int8 mm": (torch.mm, [torch.ones(4, 5, dtype=torch.int8), torch.full((5, 6), 3, dtype=torch.int8)]),
    "batch norm in training": (
        lambda x: torch.nn.functional.batch_norm(x, torch.zeros(3), torch.ones(3), training=True),
        [torch.randn(4, 3, 5, 5)],
    ),
    "division of u8": (lambda x: x // 3, [torch.arange(12, dtype=torch.uint8)]),
}


@pytest.mark.test_all
@pytest.mark.parametrize("name", CRASHERS)
def test_what_crashes_torch_mlir_gives_what_eager_gives(name: str) -> None:
    function, inputs = CRASHERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HostRoute)
        found = wb.trace(function, *inputs).run(*inputs)
    expected = function(*inputs)
    assert isinstance(found, torch.Tensor) and found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No overload is known to be safe, and importing an exponential ends the worker."""
    monkeypatch.setattr("workbench.lowering.lower.proven", lambda node, types: False)

    def verdict(trial: Any) -> Verdict:
        crashed = "aten.exp.default" in trial.key
        return Verdict("crashed", "import", "was ended by an abort (SIGABRT)") if crashed else Verdict("ok")

    monkeypatch.setattr(TRIALS, "verdict", verdict)


@pytest.mark.usefixtures("crashing")
def test_an_op_whose_import_crashes_goes_to_the_host_with_a_warning_and_a_reason() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) + 1

    with pytest.warns(HostRoute, match=r"aten\.exp\.default"):
        journey = wb.trace(f, X)
    table = journey.lowered.table.set_index("op")
    assert table.loc["aten.exp.default", "route"] == "host"
    assert "a process that imports it was ended by an abort (SIGABRT)" in table.loc["aten.exp.default", "rule"]
    assert table.loc["aten.add.Tensor", "route"] == "automatic"
    assert journey.check().ok


@pytest.mark.usefixtures("crashing")
def test_a_formula_is_refused_whole_when_a_part_of_it_crashes() -> None:
    with pytest.warns(HostRoute, match=r"aten\.softmax\.int"):
        journey = wb.trace(torch.softmax, torch.randn(4, 6), 1)
    assert list(journey.lowered.table.route) == ["host"]


@pytest.mark.usefixtures("crashing")
def test_where_the_host_is_no_route_the_reason_is_in_the_error() -> None:
    with pytest.raises(MissingRoutes, match=r"aten.exp.default(.|\n)*was ended by an abort \(SIGABRT\)"):
        wb.trace(torch.exp, X, on_missing="error")


# Users' own MLIR


@pytest.mark.test_all
def test_a_builder_whose_kernel_faults_is_an_error_naming_node_and_stage() -> None:
    def one(x: Any) -> Any:
        whole, square = (arith.fptosi(ir.IntegerType.get_signless(32), each) for each in (x, arith.mulf(x, x)))
        return arith.sitofp(x.type, arith.divsi(whole, square))

    builder(one)
    journey = wb.trace(torch.frac, X)
    with pytest.raises(KernelCrashed, match=r"k0_frac.*stage: run\): was ended by a division fault \(SIGFPE\)"):
        journey.run(X)
    started = TRIALS.worker.started
    with pytest.raises(KernelCrashed):
        wb.trace(torch.frac, X).run(X)
    assert TRIALS.worker.started == started, "the verdict is known"


@pytest.mark.test_all
def test_a_good_builder_passes_and_is_run_here() -> None:
    builder(lambda x: arith.addf(x, x))
    journey = wb.trace(torch.frac, X)
    first = journey.run(X)
    torch.testing.assert_close(first, X + X)
    torch.testing.assert_close(journey.run(X * 3), X * 6)


@pytest.mark.test_all
def test_a_template_that_reaches_too_far_is_found_before_it_runs() -> None:
    template(COPY.replace("to 16", "to 20"))
    with pytest.raises(TemplateBoundsError, match="reaches bytes 0 to 80 of %Y, which has 64"):
        wb.trace(torch.frac, X).rendered  # noqa: B018


@pytest.mark.test_all
def test_a_kernel_that_writes_past_its_output_when_it_runs() -> None:
    given = Arguments(("x", "out"), [X, torch.empty(16)], 1)
    TRIALS.pass_or_raise(run_trial("scheduled", GOOD, "k", (), given))
    with pytest.raises(KernelOverran, match="writes 64 bytes past argument out"):
        TRIALS.pass_or_raise(run_trial("scheduled", PAST, "k", (), given))
    with pytest.raises(KernelCrashed, match=r"stage: run at the very end of its memory\): .*SIGSEGV"):
        TRIALS.pass_or_raise(run_trial("scheduled", READS, "k", (), given))


def looping(steps: int, step: int) -> str:
    return f"""
  %first = arith.constant 0 : index
  %last = arith.constant {steps} : index
  %step = arith.constant {step} : index
  scf.for %k = %first to %last step %step {{ {COPY} }}"""


@pytest.mark.test_all
def test_a_loop_of_a_template_without_end_in_sight_is_refused_before_it_is_walked() -> None:
    template(looping(10**12, 1))
    with pytest.raises(TooManyInstructions, match=r"k0_frac.* would be a program of 1,000,000,000,000 instructions"):
        wb.trace(torch.frac, X).run(X)


@pytest.mark.test_all
def test_an_endless_loop_of_a_template_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its step is zero, which only shows when it runs."""
    template(looping(16, 0))
    TRIALS.verdict(import_trial("warm", *int8_mm(), ("y",)))
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER_TIMEOUT", "8")
    with pytest.raises(KernelHung, match=r"stage: run\): was not done after 8 s"):
        wb.trace(torch.frac, X).run(X)


def test_a_users_schedule_is_applied_elsewhere_first(monkeypatch: pytest.MonkeyPatch) -> None:
    journey = wb.trace(torch.relu, torch.randn(64, 64))
    script = journey.scheduled.kernels[0].schedule
    tried: list[str] = []
    monkeypatch.setattr(TRIALS, "verdict", lambda trial: tried.append(trial.kind) or Verdict("ok"))
    changed = journey.with_(schedule={journey.scheduled.kernels[0].name: script})
    assert changed.scheduled and tried == ["schedule"]
    changed.run(torch.randn(64, 64))
    assert tried == ["schedule", "run"]


def test_a_worker_understands_what_it_is_to_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's own exception counts as harmless, so one before the script would let every script pass."""
    journey = wb.trace(torch.relu, torch.randn(64, 64))
    kernel = journey.scheduled.kernels[0]
    tried: list[Trial] = []
    monkeypatch.setattr(TRIALS, "verdict", lambda trial: tried.append(trial) or Verdict("ok"))
    assert journey.with_(schedule={kernel.name: kernel.schedule}).scheduled
    sent = tried[0].material()
    try_schedule(sent)
    with pytest.raises(WorkbenchError, match="no transform script"):
        try_schedule(Message({**sent.body, "script": "no transform script"}))


# What it costs


@pytest.mark.test_all
def test_what_is_proven_needs_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TRIALS, "worker", WorkerProcess(["/nowhere/python"]))
    x, w, b = torch.randn(8, 16), torch.randn(4, 16), torch.randn(4)
    journey = wb.trace(lambda x: torch.softmax(torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)), 1), x)
    assert journey.check().ok and TRIALS.worker.started == 0


@pytest.mark.test_all
def test_a_verdict_on_disk_serves_the_next_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", "on")
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE", str(tmp_path))
    builder(lambda x: arith.mulf(x, x))
    torch.testing.assert_close(wb.trace(torch.frac, X).run(X), X * X)
    monkeypatch.setattr(TRIALS, "_known", {})
    monkeypatch.setattr(TRIALS, "worker", WorkerProcess(["/nowhere/python"]))
    torch.testing.assert_close(wb.trace(torch.frac, X).run(X), X * X)
    assert TRIALS.worker.started == 0
