"""`workbench doctor`: faults that are planted are found, named, and do not take the doctor down with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from workbench.commands.doctor import child_processes, installed, surroundings
from workbench.commands.doctor.diagnosis import Finding, Level, as_text, healthy, ok, problem, warning
from workbench.ground.environment.processor import available

ROOT = Path(__file__).resolve().parents[2]
CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


def only(findings: object) -> Finding:
    (found,) = list(findings)  # type: ignore[call-overload]
    return found


def doctor(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "workbench.commands.cli",
            "doctor",
            "--json",
        ],  # as the command: without the folder
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=500,
        check=False,
        env={**os.environ, **env},
    )


@pytest.mark.test_all
def test_a_sound_installation_is_examined_to_the_end(tmp_path: Path):
    done = doctor(tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    topics = {each["topic"]: each for each in found["findings"]}
    assert found["ok"] is True
    assert "torch_mlir" in topics["imports"]["what"] and "torch 2.13" in topics["packages"]["what"]
    assert topics["trial run"]["what"].endswith("cycles on tpu-v3, the numbers agree with PyTorch")
    assert topics["trial run"]["what"].startswith("f64, f32, f16, bf16, i64, i32, i16, i8, u8, bool; ")
    assert [each for each in found["findings"] if each["level"] == "problem"] == []


@pytest.mark.test_all
def test_a_library_that_crashes_and_a_package_that_hides_ours_are_two_findings_and_an_exit_code(tmp_path: Path):
    path = tmp_path / "path"
    (path / "torch").mkdir(parents=True)
    (path / "torch" / "__init__.py").write_text(CRASH)
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "templates.py").write_text("")
    done = doctor(tmp_path / "start", PYTHONPATH=os.pathsep.join([str(path), str(ROOT)]))
    assert done.returncode == 1, done.stdout + done.stderr
    findings = {each["topic"]: each for each in json.loads(done.stdout)["findings"]}
    assert findings["torch"]["what"] == "importing torch ends the process with SIGSEGV"
    assert findings["torch"]["todo"].startswith("reinstall it: pip install")
    assert findings["trial run"]["what"] == "not tried: the packages it needs are broken"
    assert (
        findings["templates"]["level"] == "problem"
        and "templates.py hides the package" in findings["templates"]["what"]
    )


@pytest.mark.test_all
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (CRASH, "importing broken ends the process with SIGSEGV"),
        ("raise OSError('libfoo.so.1: cannot open')", "importing broken fails: OSError: libfoo.so.1: cannot open"),
        ("import time; time.sleep(600)", "importing broken does not end"),
        ("raise SystemExit(7)", "importing broken fails: ends with exit code 7"),
    ],
    ids=["crash", "error", "hang", "exit"],
)
def test_a_broken_library_is_a_problem_and_a_broken_extra_a_warning(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "broken.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    broken, seconds = {"broken": "broken"}, 2.0 if "sleep" in source else 60.0
    core = only(child_processes.imports(broken, {}, seconds=seconds))
    assert (core.topic, core.level, core.what) == ("broken", Level.PROBLEM, said)
    extra = only(child_processes.imports({}, broken, seconds=seconds))
    assert extra.level == Level.WARNING and extra.what.startswith(said)
    assert extra.todo == "pip install 'aten-workbench[lab]'"


def test_a_trial_run_that_gives_other_numbers_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        child_processes, "_TRIAL", "print('FAILED at stage scheduled: 3 mismatches'); raise SystemExit(3)"
    )
    found = only(child_processes.trial())
    assert found.level == Level.PROBLEM and "other numbers than PyTorch: FAILED at stage scheduled" in found.what


@pytest.mark.test_all
@pytest.mark.skipif(not available(), reason="levels are those of x86-64")
def test_a_type_that_this_processor_cannot_compute_is_named(monkeypatch: pytest.MonkeyPatch):
    """Narrow floats left to a compiler that has no instructions for them: the other types are tried all the same."""
    monkeypatch.setenv("ATEN_WORKBENCH_PROCESSOR", "x86-64-v2")
    broken = "import workbench.running.jit as jit; jit.legalise = lambda *_: None\n"
    monkeypatch.setattr(child_processes, "_TRIAL", broken + child_processes._TRIAL)
    found = only(child_processes.trial())
    assert found.level == Level.PROBLEM
    assert "in f16: " in found.what and "in bf16: " in found.what and "in f32: " not in found.what
    assert "functions that this process does not have: __truncsfbf2." in found.what


@pytest.mark.test_all
def test_a_processor_that_does_not_exist_is_told_once_by_the_trial_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ATEN_WORKBENCH_PROCESSOR", "z80")
    found = only(child_processes.trial())
    assert found.level is Level.PROBLEM
    assert "in f64, f32, f16," in found.what and found.what.count("z80") == 1


def test_kernels_that_are_restricted_to_a_level_are_said_with_the_processor(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ATEN_WORKBENCH_PROCESSOR", "x86-64-v2")
    assert any("restricted to ATEN_WORKBENCH_PROCESSOR=x86-64-v2" in each.what for each in surroundings.processor())


def test_whether_products_have_a_blas_is_told(monkeypatch: pytest.MonkeyPatch):
    found = only(child_processes.products())
    assert (found.level, found.what.startswith("in f32 are calls of scipy-openblas32 ")) == (Level.OK, True)
    monkeypatch.setenv("ATEN_WORKBENCH_PROCESSOR", "x86-64")
    found = only(child_processes.products())
    assert found.level is Level.OK and "restricted by ATEN_WORKBENCH_PROCESSOR" in found.what
    monkeypatch.setenv("ATEN_WORKBENCH_BLAS", "off")
    found = only(child_processes.products())
    assert (found.level, found.todo) == (Level.WARNING, "unset ATEN_WORKBENCH_BLAS")
    monkeypatch.setenv("ATEN_WORKBENCH_BLAS", "mkl")
    monkeypatch.delenv("ATEN_WORKBENCH_PROCESSOR")
    found = only(child_processes.products())
    assert found.level is Level.PROBLEM and "ATEN_WORKBENCH_BLAS='mkl'; expected on or off" in found.what


def test_a_missing_or_crashing_blas_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(child_processes, "_PRODUCTS", "print()")
    found = only(child_processes.products())
    assert found.level is Level.WARNING and found.todo == "pip install --force-reinstall --no-deps scipy-openblas32"
    monkeypatch.setattr(child_processes, "_PRODUCTS", CRASH)
    found = only(child_processes.products())
    assert found.level is Level.PROBLEM and "SIGSEGV" in found.what and "ATEN_WORKBENCH_BLAS=off" in found.todo


def test_a_type_that_ends_the_trial_run_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        child_processes, "_TRIAL", f"import sys; print('trying bf16', file=sys.stderr, flush=True); {CRASH}"
    )
    assert "ends the process with SIGSEGV, in bf16" in only(child_processes.trial()).what


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.13.0+cpu", ">=2.13,<2.14", True),
        ("2.14.0", ">=2.13,<2.14", False),
        ("2.9.1", ">=2.13", False),
        ("20261001", "==20261001", True),
        ("20261002", "==20261001", False),
        ("2.13", "==2.13.0", True),
        ("1.0", "", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, fits: bool):
    assert installed.satisfies(version, wanted) == fits


def test_every_requirement_of_ours_is_understood():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(f"{line}; extra == 'lab'" for line in project["optional-dependencies"]["lab"])]
    for line in lines:
        name, wanted, extra = installed.parsed(line)
        assert name in line and extra == ("lab" if "extra" in line else "")
        assert installed.satisfies("0.0.1", wanted) == (wanted == "")


def _installed(folder: Path, name: str, version: str, more: str = "") -> None:
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}")


def test_the_wrong_release_of_pytorch_is_a_problem_of_the_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs = 'Requires-Dist: torch<2.14,>=2.13\nRequires-Dist: nothing-of-this-name>=1; extra == "lab"\n'
    _installed(tmp_path, "torch", "2.9.0")
    _installed(tmp_path, "aten-workbench", "0.1.0", needs)
    monkeypatch.syspath_prepend(tmp_path)
    torch, extra = installed.requirements()
    assert (torch.topic, torch.level) == ("torch", Level.PROBLEM)
    assert torch.what.startswith("torch 2.9.0 is installed; expected torch<2.14,>=2.13. A wheel of torch-mlir")
    assert (extra.level, extra.todo) == (Level.WARNING, "pip install 'aten-workbench[lab]'")


def test_a_second_workbench_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _installed(tmp_path, "aten-workbench", "0.0.9")
    monkeypatch.syspath_prepend(tmp_path)
    found = only(installed.copies())
    assert found.level == Level.WARNING and str(tmp_path) in found.what


def test_what_hides_our_packages_is_a_problem_but_a_folder_of_something_else_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").write_text("")
    assert only(installed.shadows()).level == Level.OK
    (tmp_path / "simulator").mkdir()
    (tmp_path / "simulator" / "__init__.py").write_text("")
    (tmp_path / "torch.py").write_text("")
    found = list(installed.shadows())
    assert [each.topic for each in found] == ["simulator", "torch"]
    assert all(each.level == Level.PROBLEM for each in found)


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    for name, level in (("file", Level.WARNING), ("folder", Level.OK)):
        monkeypatch.setenv("ATEN_WORKBENCH_CACHE", str(tmp_path / name))
        found = only(surroundings.cache())
        assert found.level == level and str(tmp_path / name) in found.what
    for part, size in (("kernels", 3), ("native", 2), ("numba-1", 4), ("numba-2", 5)):
        (tmp_path / "folder" / part).mkdir()
        (tmp_path / "folder" / part / "file").write_bytes(bytes(size << 20))
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE_MB", "64")
    told = only(surroundings.cache()).what
    assert "folder: 14 MB (" in told and "; each may have 64 MB), " in told
    assert all(part in told for part in ("kernels 3 MB", "machine code 2 MB", "compiled simulators 9 MB"))
    monkeypatch.setattr(surroundings, "_LITTLE_DISK", 1 << 60)
    assert only(surroundings.cache()).todo.startswith("make room")
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE_MB", "much")
    assert (only(surroundings.cache()).level, only(surroundings.cache()).todo[:5]) == (Level.PROBLEM, "unset")
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE", "off")
    assert only(surroundings.cache()).level == Level.PROBLEM
    assert only(surroundings.cache()).todo == "unset ATEN_WORKBENCH_CACHE, or set it to a whole path"


def test_the_terminal_s_letters_and_the_switches_are_told(monkeypatch: pytest.MonkeyPatch):
    class Ascii:
        encoding = "ascii"

    monkeypatch.setattr(sys, "stdout", Ascii())
    found = only(surroundings.encoding())
    assert found.level == Level.WARNING and "PYTHONUTF8=1" in found.todo
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", "off")
    assert [each.topic for each in surroundings.switches()] == ["NUMBA_DISABLE_JIT", "ATEN_WORKBENCH_KERNEL_CACHE"]


def test_the_text_wraps_and_sums_up():
    findings = [ok("Python", "3.12"), warning("cache", "word " * 30, "do"), problem("torch", "gone", "pip install")]
    text = as_text(findings, width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert text.splitlines()[0] == "ok       Python  3.12"
    assert "-> pip install" in text and text.endswith("1 problem, 1 warning")
    assert not healthy(findings) and healthy(findings[:2])
    assert as_text(findings[:1]).endswith("nothing wrong was found")
