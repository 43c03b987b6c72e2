"""Binder gets what `make lab` gets: the same Python, the same packages, PyTorch without its GPU libraries."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

from workbench.commands.doctor.installed import parsed, satisfies

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_python_is_one_that_the_project_takes():
    name, _, version = (BINDER / "runtime.txt").read_text().strip().partition("-")
    assert name == "python" and satisfies(version, PROJECT["requires-python"])


def test_the_project_is_installed_with_its_notebooks_from_the_cpu_index():
    given = dict(line.split(maxsplit=1) for line in lines(BINDER / "requirements.txt"))
    assert given == {
        "--extra-index-url": "https://download.pytorch.org/whl/cpu",
        "-c": "../constraints.txt",
        "-e": ".[lab]",
    }
    assert (BINDER / given["-c"]).resolve() == ROOT / "constraints.txt", "pip reads it relative to its own folder"


def test_constraints_lie_within_what_the_project_asks_for():
    wanted = {name: bounds for name, bounds, _ in map(parsed, PROJECT["dependencies"])}
    pinned = [parsed(line)[:2] for line in lines(ROOT / "constraints.txt")]
    assert [name for name, _ in pinned] == ["torch"]
    for name, version in pinned:
        assert satisfies(version.removeprefix("=="), wanted[name])


def test_the_build_ends_when_the_doctor_finds_a_problem_and_compiles_the_simulator():
    script = BINDER / "postBuild"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert lines(script)[-3:] == ["set -euo pipefail", "workbench doctor", "workbench compile"]
