"""Import paths from before the rooms, and those of the wheel: there is one module of both names."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
from tests.fresh_process import python
from workbench.ground.moved_names import MOVED, new_name
from workbench.ground.packages import lasting_name

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_module_of_the_new_one(old: str):
    now = importlib.import_module(f"workbench.{MOVED[old]}.{old}")
    spec = now.__spec__
    assert importlib.import_module(f"workbench.{old}") is now and now.__spec__ is spec is not None
    assert getattr(workbench, old) is now
    assert (ROOT / "workbench" / MOVED[old]).is_dir() and not (ROOT / "workbench" / old).exists()


def test_files_inside_are_loaded_once():
    code = (
        "import workbench.kernels.template as old, workbench.scheduling.kernels.template as new\n"
        "from workbench.errors import BadOption\nimport workbench as wb, sys\n"
        "print(old is new, old.Template is new.Template, issubclass(BadOption, wb.WorkbenchError))\n"
    )
    assert python("-c", code) == "True True True\n"


@pytest.mark.parametrize("first", ["workbench.simulator.machine.machine", "simulator.machine.machine"])
def test_the_repository_has_the_names_of_the_wheel(first: str):
    code = (
        f"import workbench as wb, {first}\n"
        "import simulator.machine.machine as beside, workbench.simulator.machine.machine as inside\n"
        "from workbench.templates import FAMILIES\nfrom workbench import templates\nimport templates as same\n"
        "print(beside is inside, beside.Machine is wb.Machine, templates is same, beside.__spec__.name, FAMILIES[0])"
    )
    assert python("-c", code) == "True True True simulator.machine.machine attention_kernel\n"


@pytest.mark.parametrize(
    "code", ["import workbench, simulator", "import simulator, workbench", "import workbench as wb, templates"]
)
def test_the_repository_says_whose_package_is_in_the_place_of_its_own(code: str, tmp_path: Path):
    for name in ("simulator", "templates"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=path, timeout=120
    )
    (said,) = (line for line in ran.stderr.splitlines() if line.startswith("ImportError: "))
    assert f"the workbench in {ROOT} needs its own package" in said and str(tmp_path) in said


def test_files_keep_one_name_of_a_module():
    names = "workbench.templates.sort", "templates.sort", "workbench.simulator", "workbench.ir.codec", "mine.templates"
    assert [lasting_name(each) for each in names] == [
        "templates.sort", "templates.sort", "simulator", "workbench.ir.codec", "mine.templates",
    ]  # fmt: skip


def test_what_has_not_moved_is_left_to_python():
    assert [
        new_name(name) for name in ("workbench.verbs", "workbench.capturing.capture", "torch.ops", "workbench")
    ] == [None] * 4
    with pytest.raises(ModuleNotFoundError, match=re.escape("workbench.scheduling.kernels.nothing")):
        importlib.import_module("workbench.kernels.nothing")
