"""Machine code for a processor of another level: what it holds, what it calls, and what it is kept under."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.mlir.examples import row_softmax
from tests.mlir.modules import rendered
from tests.processors import PROCESSORS, casts, problems, samples
from workbench.ground.environment import processor as processors
from workbench.ground.environment.disk_store import Store
from workbench.ground.environment.processor import NATIVE, SWITCH, available, can_link, processor, processor_named
from workbench.ground.errors import BadOption, MissingFunctions
from workbench.ground.faults.trial import FAILED, OK, Trials
from workbench.ground.faults.worker_process import WorkerProcess
from workbench.operators.aten import proven
from workbench.running import jit
from workbench.running.guarded_call import Arguments, run_trial
from workbench.running.jit import NativeKernel, compile_rendered, compile_scheduled
from workbench.running.machine_code import needed_symbols, object_of, target
from workbench.running.native_store import NativeStore
from workbench.running.run_program import KernelCache

LISTS_OBJECTS = shutil.which("objdump")
x86 = pytest.mark.skipif(not available(), reason="levels are those of x86-64")
linked = pytest.mark.skipif(not can_link(), reason="objects are linked on 64-bit x86 Linux only")

OLD = [name for name in ("x86-64", "x86-64-v3") if name in available()]
"""Without and with instructions between f16 and f32."""

CALLS_WHAT_IS_NOT_THERE = """
func.func private @no_such_function(f32) -> f32
func.func @k(%x: memref<4xf32>, %y: memref<4xf32>) {
  %zero = arith.constant 0 : index
  %a = memref.load %x[%zero] : memref<4xf32>
  %b = func.call @no_such_function(%a) : (f32) -> f32
  memref.store %b, %y[%zero] : memref<4xf32>
  return
}"""


def kernel(dtype: torch.dtype, name: str) -> NativeKernel:
    """Loops that a compiler makes vectors of, in f32 and in narrow floats."""
    x = torch.zeros(64, 64, dtype=dtype)
    text = rendered(lambda x: torch.relu(x * 2.5 + x).sum(1), [x], [torch.zeros(64, dtype=dtype)])
    return compile_rendered(text, "k", processor_named(name))


def instructions(made: NativeKernel, folder: Path) -> str:
    path = folder / "kernel.o"
    path.write_bytes(object_of(made._code.engine))  # type: ignore[arg-type]
    return subprocess.run(["objdump", "-d", str(path)], capture_output=True, text=True, check=True).stdout


@x86
@pytest.mark.skipif(not LISTS_OBJECTS, reason="needs objdump")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_machine_code_holds_no_instruction_of_a_later_processor(dtype: torch.dtype, tmp_path: Path):
    """AVX and all after it are written with a `v` and use wider registers. The function MLIR adds is looked at too."""
    text = instructions(kernel(dtype, "x86-64-v2"), tmp_path)
    assert set(re.findall(r"<(\w+)>:", text)) == {"workbench_kernel", "_mlir_workbench_kernel"}
    assert re.findall(r"%[yz]mm\d+|%k[0-7]\b|\tv[a-z0-9]+", text) == []
    assert "%xmm" in text
    if "x86-64-v3" in available():
        text = instructions(kernel(dtype, "x86-64-v3"), tmp_path)
        assert "\tv" in text and re.findall(r"%zmm\d+|%k[0-7]\b", text) == []


@x86
@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_no_narrow_float_needs_a_function(dtype: torch.dtype, name: str):
    assert set(needed_symbols(object_of(kernel(dtype, name)._code.engine))) <= {"malloc", "free"}  # type: ignore[arg-type]


@x86
def test_a_bf16_kernel_runs_where_no_processor_converts_bf16(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SWITCH, "x86-64-v2")
    assert wb.trace(lambda a: a * 2.5, torch.randn(4, 8).bfloat16()).check().ok


@linked
def test_a_narrow_float_left_to_the_compiler_is_an_error_and_no_call_of_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jit, "legalise", lambda *_: None)
    with pytest.raises(MissingFunctions, match=r"__truncsfbf2.*x86-64-v2.*[Cc]ompute in f32") as raised:
        kernel(torch.bfloat16, "x86-64-v2")
    assert raised.value.functions == ("__truncsfbf2",)


def test_a_function_that_is_not_there_is_named():
    with pytest.raises(MissingFunctions, match=r"machine code of k calls functions .* does not have") as raised:
        compile_rendered(CALLS_WHAT_IS_NOT_THERE, "k")
    assert raised.value.functions == (("no_such_function",) if can_link() else ())


@pytest.fixture(scope="module")
def worker():
    made = WorkerProcess()
    yield made
    made.end()


@pytest.mark.test_all
def test_a_worker_sees_a_function_that_is_not_there(
    worker: WorkerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE", str(tmp_path))
    given = Arguments(("x", "y"), (torch.ones(4), torch.ones(4)), 1)
    verdict = Trials(worker).verdict(run_trial("rendered", CALLS_WHAT_IS_NOT_THERE, "k", (), given))
    assert verdict.outcome == FAILED and "functions that this process does not have" in verdict.reason
    assert worker.started == 1 and worker.pid is not None


@pytest.mark.test_all
@x86
def test_a_verdict_holds_for_the_processor_it_was_found_on(
    worker: WorkerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE", str(tmp_path))
    text = rendered(torch.relu, [torch.ones(4)], [torch.ones(4)])
    given = Arguments(("x", "y"), (torch.ones(4), torch.ones(4)), 1)
    keys: set[str] = set()
    for name in PROCESSORS:
        monkeypatch.setenv(SWITCH, name)
        trial = run_trial("rendered", text, "k", (), given)
        assert trial.material().body["processor"] == name
        assert Trials(worker).verdict(trial).outcome == OK
        keys.add(trial.key)
    assert len(keys) == len(PROCESSORS)


@linked
def test_machine_code_is_kept_for_the_processor_it_was_made_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SWITCH, NATIVE)
    text, store = row_softmax(20, 30, 8), NativeStore(Store(tmp_path))
    store.put("scheduled", text, compile_scheduled(text, "softmax"))
    assert store.get("scheduled", text, "softmax") is not None
    monkeypatch.setenv(SWITCH, "x86-64-v2")
    assert store.get("scheduled", text, "softmax") is None
    store.put("scheduled", text, compile_scheduled(text, "softmax"))
    assert store.get("scheduled", text, "softmax") is not None
    assert len({target(), processor_named(NATIVE).target}) == 2


def test_one_process_keeps_kernels_of_two_processors_apart(monkeypatch: pytest.MonkeyPatch):
    journey = wb.trace(torch.relu, torch.randn(7, 5))
    cache = KernelCache()
    (scheduled,) = journey.scheduled.record.kernels
    for count, name in enumerate(PROCESSORS, 1):
        monkeypatch.setenv(SWITCH, name)
        cache.get("scheduled", scheduled.mlir, scheduled.kernel)
        assert cache.compiled == count
    monkeypatch.setenv(SWITCH, PROCESSORS[0])
    cache.get("scheduled", scheduled.mlir, scheduled.kernel)
    assert cache.compiled == len(PROCESSORS)


@pytest.mark.parametrize("name", ["x86-64-v9", "haswell", "NATIVE", " "])
def test_a_processor_that_is_none_is_refused(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SWITCH, name)
    with pytest.raises(
        BadOption, match=rf"{SWITCH}={name!r} is no level of a processor; expected native, x86-64, x86-64-v2"
    ):
        processor()


@x86
def test_a_level_that_this_processor_lacks_is_refused(monkeypatch: pytest.MonkeyPatch):
    old = frozenset(processors.LEVELS["x86-64-v3"]) - {"fma"}
    monkeypatch.setattr(processors, "_host_features", lambda: old)
    processor_named.cache_clear()
    try:
        assert processor_named(NATIVE).level == "x86-64-v2"
        with pytest.raises(BadOption, match=r"'x86-64-v3': .* lacks fma\. .*expected native, x86-64, x86-64-v2$"):
            processor_named("x86-64-v3")
    finally:
        processor_named.cache_clear()


@x86
def test_the_list_vouches_for_the_levels_it_was_swept_for_and_no_other(monkeypatch: pytest.MonkeyPatch):
    levels = proven.processors()
    assert {"x86-64-v2", "x86-64-v3"} <= levels <= set(processors.LEVELS)
    made = wb.trace(torch.relu, torch.ones(3))
    (node,) = made.captured.record.nodes
    types = made.captured.record.types
    for name in available():
        monkeypatch.setenv(SWITCH, name)
        assert proven.proven(node, types) == (name in levels)


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch):
    """Without a worker: the list does not vouch for the oldest level, where each kernel would be tried."""
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER", "off")


@pytest.mark.test_all
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64], ids=str)
def test_casts_to_every_type_are_right_on_old_processors(dtype: torch.dtype, untried: None):
    assert problems(casts(dtype), OLD) == {name: [] for name in OLD}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", ["matmul", "conv2d", "max pool 2d", "attention", "batch norm", "cumsum", "gather"])
def test_a_program_of_each_family_is_right_in_a_narrow_float_on_old_processors(name: str, untried: None):
    """`python -m tests.processors` does the same for the whole table, every type and every level."""
    narrow = torch.float16 if name in ("conv2d", "attention", "cumsum") else torch.bfloat16
    (sample,) = (each for each in samples(name, [narrow]))
    assert problems(sample, OLD) == {processor: [] for processor in OLD}
