"""All of the main path where a system has nothing but what all systems have; and two kernels that go wrong."""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import torch

import workbench as wb
from tests.faults.test_faults import int8_mm
from tests.running.test_guarded_call import PAST, N
from workbench.commands.doctor import surroundings
from workbench.ground.errors import KernelCrashed, KernelOverran
from workbench.ground.faults import worker_process
from workbench.ground.faults.fences import fence
from workbench.ground.faults.trial import TRIALS, Trial
from workbench.operators.aten.import_trial import import_trial
from workbench.running.guarded_call import Arguments, run_trial
from workbench.running.native_store import default_native_store

LACKING_TOO = f"import sys; sys.path[:] = sys.argv[1:]; import tests.elsewhere.lacking; {worker_process._BOOT}"


def refused(trial: Trial) -> str:
    try:
        TRIALS.pass_or_raise(trial)
    except (KernelCrashed, KernelOverran) as error:
        return f"{type(error).__name__}: {error}"
    return "passed"


def main_path(folder: Path) -> None:
    assert fence() is None and default_native_store() is None
    said = "; ".join(finding.what for finding in surroundings.protection())
    assert (
        "not detected on this system" in said and "compiled anew in each process" in said and "does not fork" in said
    ), said
    weights = torch.randn(32, 16)
    journey = wb.trace(lambda x: torch.softmax(x @ weights, -1), torch.randn(8, 32))
    assert journey.check().ok
    journey.save(folder / "a.journey")
    journey.to_html(folder / "a.html")
    assert wb.load(folder / "a.journey").simulated.cycles == journey.simulated.cycles
    model, x = torch.nn.Linear(8, 8), torch.randn(2, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="npu")(x), model(x), rtol=1e-4, atol=1e-4)
    assert len(wb.last_journeys()) == 1


def faults() -> None:
    TRIALS.worker = worker_process.WorkerProcess([sys.executable, "-c", LACKING_TOO, *sys.path])
    crashed = refused(import_trial("k0_mm", *int8_mm(), ("y",)))
    assert crashed.startswith("KernelCrashed") and "segmentation fault" in crashed, crashed
    past = refused(run_trial("scheduled", PAST, "k", (), Arguments(("x", "y"), [torch.zeros(N)] * 2, 1)))
    assert past.startswith("KernelOverran") and "writes 64 bytes past argument y" in past, past
    TRIALS.worker.end()


def walk(way: str) -> None:
    assert "tests.elsewhere.lacking" in sys.modules, "it is to be imported before anything of the workbench"
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as made:
        main_path(Path(made)) if way == "main path" else faults()
    sys.stdout.write("walked\n")
