"""Import paths from before the rooms: there is one module of both names."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
from workbench.ground.moved_names import MOVED, new_name

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
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert ran.stdout == "True True True\n", ran.stderr


def test_what_has_not_moved_is_left_to_python():
    assert [
        new_name(name) for name in ("workbench.verbs", "workbench.capturing.capture", "torch.ops", "workbench")
    ] == [None] * 4
    with pytest.raises(ModuleNotFoundError, match=re.escape("workbench.scheduling.kernels.nothing")):
        importlib.import_module("workbench.kernels.nothing")
