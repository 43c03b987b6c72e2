"""`python scripts/setup.py`: which PyTorch it takes, from which index, what it says before, and what it downloads.

The packages are tiny and of three indexes on this machine: one with a build for the CPU, one without, one that accepts
and never answers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts.local_indexes import Index, serving, silent
from tests.scripts.test_setup import loaded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PyPI's build is the one for the CPU")

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "aten-workbench"
version = "0.1.0"
dependencies = ["torch>=2.13,<2.14", "small"]

[project.optional-dependencies]
lab = ["for-lab"]
test = ["aten-workbench[lab]", "for-test"]
"""
BACKEND = """
from pathlib import Path
from local_indexes import write_wheel


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(Path(wheel_directory), "aten-workbench", "0.1.0").name


def get_requires_for_build_editable(config_settings=None):
    return []
"""
LARGE = 60_000_000


@dataclass
class Place:
    """A folder with the script, and the indexes that it may ask."""

    setup: ModuleType
    venv: Path
    pypi: Index
    cpu: Index
    output: Callable[[], str]

    def run(self, *arguments: str) -> str:
        """Runs the installation; returns its output."""
        assert self.setup.main(["install", "--venv", str(self.venv), *arguments]) == 0
        return self.output()

    def installed(self) -> set[str]:
        found = next(self.venv.glob("lib/python*/site-packages")).glob("*.dist-info")
        return {each.name.removesuffix(".dist-info") for each in found if not each.name.startswith(("pip-", "setup"))}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    return venv


@pytest.fixture
def place(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Place]:
    setup = loaded(monkeypatch)
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup.planned_install, "OLDEST_PIP", (22, 2))  # older ones download small archives twice, here
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n", encoding="utf-8")
    (tmp_path / "backend.py").write_text(BACKEND, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("local_indexes.py"), tmp_path)
    shutil.copytree(empty, tmp_path / ".venv", symlinks=True)
    pypi, cpu = Index(tmp_path / "pypi"), Index(tmp_path / "cpu")
    pypi.add("torch", "2.13.0", ["nvidia-cublas"], size=1000)
    pypi.add("nvidia-cublas", "13.0", size=LARGE)
    for name in ("small", "for-lab", "for-test"):
        pypi.add(name, "1.0")
    for name in [each for each in os.environ if each.startswith(("PIP_", "TORCH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", pypi.address)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv(setup.torch_build.INDEX_VARIABLE, cpu.address)
    with serving(pypi, cpu):
        yield Place(setup, tmp_path / ".venv", pypi, cpu, lambda: capfd.readouterr().out)


@pytest.mark.test_all
def test_an_index_with_the_build_for_the_cpu_saves_the_gpu_libraries(place: Place) -> None:
    place.cpu.add("torch", "2.13.0+cpu")
    place.cpu.add("small", "9.0")
    told = place.run("lab")
    assert f"PyTorch: 2.13.0+cpu for the CPU, from {place.cpu.address}\n" in told
    assert "3 packages to install, 0 MB to download\n" in told
    assert place.installed() == {"torch-2.13.0+cpu", "small-1.0", "for_lab-1.0", "aten_workbench-0.1.0"}
    assert "nvidia_cublas" not in place.pypi.downloaded
    assert {each.split("/")[0] for each in place.cpu.asked} == {"torch"}, "it is asked for PyTorch alone"


@pytest.mark.test_all
def test_an_index_without_that_build_is_told_with_what_it_costs(place: Place) -> None:
    place.cpu.add("torch", "2.12.0+cpu")
    told = place.run("lab")
    assert f"PyTorch: {place.cpu.address} has no build for the CPU that fits, so PyPI's build is taken" in told
    assert "4 packages to install, 60 MB to download (nvidia-cublas 60 MB)\n" in told
    assert {"torch-2.13.0", "nvidia_cublas-13.0"} <= place.installed()


@pytest.mark.test_all
def test_an_index_that_never_answers_and_one_that_is_not_there_are_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    unanswered = place.setup.torch_build.unanswered
    monkeypatch.setattr(place.setup.torch_build, "ANSWER_SECONDS", 1.0)
    with silent() as address:
        monkeypatch.setenv(place.setup.torch_build.INDEX_VARIABLE, address)
        told = place.run("lab")
    assert f"PyTorch: {address} does not answer within 1 s, so PyPI's build is taken" in told
    assert told.index("60 MB to download") > told.index("does not answer")
    assert "torch-2.13.0" in place.installed()
    assert unanswered(f"{address}/torch/", 5) == "cannot be reached"
    assert unanswered(f"{place.cpu.address}/torch/", 5) == "answers with 404 File not found"
    assert unanswered(f"{place.pypi.address}/torch/", 5) == ""


def test_what_pip_is_set_up_to_find_comes_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.pypi.add("torch", "2.13.0+cpu")
    assert "PyTorch: 2.13.0+cpu, as pip is set up to find it\n" in place.run("lab")
    assert place.cpu.asked == []


@pytest.mark.test_all
def test_torch_says_which_build_and_what_is_there_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH", "cuda")
    told = place.run("lab")
    assert "PyTorch: the build with GPU libraries, as TORCH=cuda says\n" in told and "60 MB to download" in told
    assert "torch-2.13.0" in place.installed() and place.cpu.asked == []
    assert place.run("lab") == ""
    place.cpu.add("torch", "2.13.0+cpu")
    monkeypatch.delenv("TORCH")
    assert "PyTorch" not in place.run("test"), "what is installed is kept"
    assert "torch-2.13.0" in place.installed()
    monkeypatch.setenv("TORCH", "cpu")
    place.run("lab")
    assert "torch-2.13.0+cpu" in place.installed() and "torch-2.13.0" not in place.installed()
    assert place.run("test") == ""
    monkeypatch.setenv("TORCH", "gpu")
    with pytest.raises(SystemExit, match="TORCH=gpu is unknown: expected cpu or cuda"):
        place.run("lab")


@pytest.mark.test_all
def test_more_extras_add_what_is_missing_and_fewer_nothing(place: Place) -> None:
    place.cpu.add("torch", "2.13.0+cpu")
    place.run("lab")
    place.pypi.asked.clear()
    assert "1 package to install" in place.run("test")
    assert place.pypi.downloaded == {"for_test"}
    place.pypi.asked.clear()
    assert place.run("lab") == place.run("test") == place.run("lab", "test") == ""
    assert place.pypi.asked == []
