"""The wheel works alone: built from the source distribution, installed without the repository, used from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from workbench.commands import lab_server

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("workbench", "simulator", "templates", "scripts", "notebooks", "docs")
BUILD_SDIST = "import setuptools.build_meta as build, sys; print(build.build_sdist(sys.argv[1]))"
NO_SERVER = "import sys; print('JupyterLab on', *[each for each in sys.argv if 'default_url' in each])"


def done(command: Sequence[str | Path], cwd: Path, **environment: str) -> str:
    """Runs a command, which must succeed, and returns the text it prints."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, cwd=cwd, env={**usual, **environment}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    copy = folder / "repository"
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for path in [each for each in ROOT.iterdir() if each.is_file() and not each.name.startswith(".")]:
        shutil.copy(path, copy)
    name = done([sys.executable, "-c", BUILD_SDIST, folder], copy).splitlines()[-1]
    with tarfile.open(folder / name) as packed:
        packed.extractall(folder)
    return folder / name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    done([*pip, "--wheel-dir", sdist / "wheels", "."], sdist)
    (made,) = (sdist / "wheels").iterdir()
    return made


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel. It sees the packages of the running environment, but not
    the workbench there."""
    folder = tmp_path_factory.mktemp("environment")
    venv, packages = folder / "venv", folder / "packages"
    done([sys.executable, "-m", "venv", "--without-pip", venv], folder)
    packages.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "aten_workbench" not in each.name:
            (packages / each.name).symlink_to(each)
    programs = venv / ("Scripts" if os.name == "nt" else "bin")
    asked = done([programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder)
    Path(asked.strip(), "packages.pth").write_text(f"{packages}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", "--no-deps"]
    done([*pip, "--no-index", wheel], folder)
    return programs


def test_the_wheel_has_the_course_and_the_packages_alone(wheel: Path):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    course = {name.removeprefix("workbench/course/") for name in names if name.startswith("workbench/course/")}
    assert course == set(lab_server.files(ROOT)) and len(course) > 30
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "workbench", "simulator", "templates", "aten_workbench",
    }  # fmt: skip


@pytest.mark.test_all
def test_the_ten_lines_of_the_readme_run_elsewhere(programs: Path, tmp_path: Path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^## Ten lines\n.*?```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.DOTALL | re.MULTILINE)
    assert found
    (tmp_path / "ten.py").write_text(f"{found[1]}print(wb.__file__)\n", encoding="utf-8")
    *shown, place = done([programs / "python", "ten.py"], tmp_path, MPLBACKEND="agg").splitlines(keepends=True)
    assert "".join(shown) == found[2] and (tmp_path / "timeline.png").stat().st_size > 10_000
    assert Path(place.strip()).is_relative_to(programs.parent)


@pytest.mark.test_all
def test_the_doctor_finds_no_fault(programs: Path, tmp_path: Path):
    told = done([programs / "workbench", "doctor"], tmp_path)
    assert str(programs.parent) in "".join(told.split()) and "also installed" not in told


@pytest.mark.test_all
def test_the_lab_opens_the_course_that_came_with_the_wheel(programs: Path, tmp_path: Path):
    server = tmp_path / "no_server" / "jupyterlab"
    server.mkdir(parents=True)
    (server / "__init__.py").touch()
    (server / "__main__.py").write_text(NO_SERVER, encoding="utf-8")
    here = tmp_path / "here"
    here.mkdir()
    first, opened = done([programs / "workbench", "lab"], here, PYTHONPATH=str(server.parent)).splitlines()
    copy = here / lab_server.COPY
    assert first.startswith(f"the course was copied to {copy}: ")
    assert opened == f"JupyterLab on --LabApp.default_url=/lab/tree/{lab_server.COPY}/{lab_server.FIRST}"
    assert set(lab_server.files(copy)) == set(lab_server.files(ROOT))
    done([programs / "workbench", "open", copy / "notebooks/recorded/softmax.journey", "--no-browser"], here)
