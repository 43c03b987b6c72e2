"""The wheel works alone: built from the source distribution, installed without the repository, used from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import release
from workbench.commands import lab_server

ROOT = Path(__file__).resolve().parents[2]
RELEASED = os.environ.get("ATEN_WORKBENCH_DIST")
"""The folder with the files of a release, which `make release` builds before it runs these tests."""
SOURCES = ("workbench", "simulator", "templates", "scripts", "notebooks", "docs")
IMPORTS = re.compile(r"^\s*(?:from|import) (?:simulator|templates)\b", re.MULTILINE)
NOTEBOOK = """
import nbclient
import nbformat

book = nbformat.read("01_add_an_op_foobar.ipynb", 4)
book.cells.append(nbformat.v4.new_code_cell("print(wb.__file__)"))
nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
print(book.cells[-1].outputs[0].text.strip())
print("no errors")
"""
ONE_MODULE = """
import workbench as wb, workbench.simulator.errors as errors, workbench.templates.foobar
import simulator, sys
from simulator.errors import DoesNotFit
from simulator.machine.machine import Machine
from templates.foobar import FoobarTiled
print(simulator is wb.simulator is sys.modules["workbench.simulator"], DoesNotFit is errors.DoesNotFit)
print(Machine is wb.Machine, FoobarTiled is wb.templates.foobar.FoobarTiled, Machine.__module__)
"""
ANOTHERS = """
import {first}
import simulator, workbench as wb, workbench.simulator.errors, simulator.inner, templates
from simulator import owner
print(owner, simulator.inner.owner, templates.owner, wb.simulator is not simulator, wb.machine("tpu-v3").name)
"""
NO_SERVER = "import sys; print('JupyterLab on', *[each for each in sys.argv if 'default_url' in each])"


def done(command: Sequence[str | Path], cwd: Path, **environment: str) -> str:
    """Runs a command, which must succeed, and returns the text it prints."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, cwd=cwd, env={**usual, **environment}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked: that of a release in `ATEN_WORKBENCH_DIST`, or one of these sources."""
    folder = tmp_path_factory.mktemp("sdist")
    if RELEASED:
        (packed,) = Path(RELEASED).glob("*.tar.gz")
        return release.unpack(packed, folder)
    copy = folder / "repository"
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for path in [each for each in ROOT.iterdir() if each.is_file() and not each.name.startswith(".")]:
        shutil.copy(path, copy)
    return release.unpack(release.build_sdist(copy, folder), folder)


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    if RELEASED:
        (made,) = Path(RELEASED).glob("*.whl")
        return made
    (sdist.parent / "wheels").mkdir()
    return release.build_wheel(sdist, sdist.parent / "wheels")


def programs_with(folder: Path, *installed: str | Path) -> Path:
    """The folder of programs of an environment with what pip installs. It sees the packages of the running environment,
    but not the workbench there."""
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
    done([*pip, "--no-index", "--no-build-isolation", *installed], folder)
    return programs


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel."""
    return programs_with(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture(scope="module")
def anothers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path with packages of another's, which have the names that ours have in the repository."""
    folder = tmp_path_factory.mktemp("anothers")
    for path in ("simulator/__init__.py", "simulator/inner.py", "templates/__init__.py"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("owner = 'another'\n", encoding="utf-8")
    return folder


def test_the_wheel_has_one_package_with_the_course(wheel: Path):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        told = [packed.read(name).decode() for name in names if name.endswith("top_level.txt")]
        sources = {
            name: packed.read(name).decode() for name in names if name.endswith(".py") and "/course/" not in name
        }
    assert [name for name, source in sources.items() if IMPORTS.search(source)] == [] and len(sources) > 600
    course = {name.removeprefix("workbench/course/") for name in names if name.startswith("workbench/course/")}
    assert course == set(lab_server.files(ROOT)) and len(course) > 30
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"workbench", "aten_workbench"}
    assert told == ["workbench\n"]
    kept = ("simulator/py.typed", "simulator/machine/shipped/tpu-v3.toml", "templates/scatter.mlir.j2")
    assert {f"workbench/{name}" for name in kept} <= set(names)


def test_there_is_one_module_of_every_name(programs: Path, tmp_path: Path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").touch()  # a folder without code is nobody's package
    told = done([programs / "python", "-c", ONE_MODULE], tmp_path)
    assert told == "True True\nTrue True workbench.simulator.machine.machine\n"


def test_an_editable_installation_has_the_names_of_the_wheel(sdist: Path, tmp_path: Path):
    programs = programs_with(tmp_path, "--editable", sdist)
    told = done([programs / "python", "-c", ONE_MODULE], tmp_path)
    assert told == "True True\nTrue True simulator.machine.machine\n"
    place = done([programs / "python", "-c", "import workbench.templates as it; print(it.__file__)"], tmp_path)
    assert Path(place.strip()) == sdist / "templates" / "__init__.py"


@pytest.mark.parametrize("first", ["simulator", "workbench"])
def test_a_package_of_anothers_is_its_owners(programs: Path, anothers: Path, tmp_path: Path, first: str):
    told = done([programs / "python", "-c", ANOTHERS.format(first=first)], tmp_path, PYTHONPATH=str(anothers))
    assert told == "another another another True tpu-v3\n"


def test_files_of_journeys_are_those_of_the_repository(programs: Path, tmp_path: Path):
    code = "from workbench.ir import archive; print(archive._schema())"
    told = [
        done([python, "-c", code], folder)
        for python, folder in ((programs / "python", tmp_path), (sys.executable, ROOT))
    ]
    assert told[0] == told[1] and len(told[0]) > 10


@pytest.mark.test_all
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside packages of anothers"])
def test_the_ten_lines_of_the_readme_run_elsewhere(programs: Path, anothers: Path, tmp_path: Path, beside: bool):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^## Ten lines\n.*?```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.DOTALL | re.MULTILINE)
    assert found
    (tmp_path / "ten.py").write_text(f"{found[1]}print(wb.__file__)\n", encoding="utf-8")
    path = {"PYTHONPATH": str(anothers)} if beside else {}
    *shown, place = done([programs / "python", "ten.py"], tmp_path, MPLBACKEND="agg", **path).splitlines(keepends=True)
    assert "".join(shown) == found[2] and (tmp_path / "timeline.png").stat().st_size > 10_000
    assert Path(place.strip()).is_relative_to(programs.parent)


@pytest.mark.test_all
def test_a_notebook_of_the_course_runs_elsewhere(programs: Path, wheel: Path, tmp_path: Path):
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path, [name for name in packed.namelist() if name.startswith("workbench/course/")])
    course = (tmp_path / "workbench" / "course").rename(tmp_path / "course")
    (tmp_path / "workbench").rmdir()  # or it would be imported in place of the wheel's
    told = done([programs / "python", "-c", NOTEBOOK], course / "notebooks")
    place, errors = told.splitlines()[-2:]
    assert Path(place).is_relative_to(programs.parent) and errors == "no errors"


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
