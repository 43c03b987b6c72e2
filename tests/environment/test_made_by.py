"""Tests that entries on disk belong to exactly these sources: all folders that make kernels, with all below them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fresh_process import python

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the library."""
    folder = tmp_path_factory.mktemp("library")
    for package in ("workbench", "simulator"):
        shutil.copytree(ROOT / package, folder / package)
    return folder


def made_by(library: Path) -> str:
    code = "import workbench.ground.environment.disk_store as v; print(v.__file__, v.made_by())"
    file, digest = python("-c", code, cwd=library, PYTHONPATH=str(library)).split()
    assert Path(file).is_relative_to(library)
    return digest


@pytest.mark.test_all(but=4)
@pytest.mark.parametrize(
    "source",
    [
        "workbench/scheduling/passes/promote.py",
        "workbench/scheduling/extraction/extract.py",
        "workbench/lowering/lower.py",
        "workbench/scheduling/kernels/template.py",
        "workbench/mlir/named_dims.py",
        "simulator/tileprogram/program.py",
    ],
)
def test_a_changed_source_makes_other_kernels(library: Path, source: str) -> None:
    before = made_by(library)
    with (library / source).open("a") as written:
        written.write("# another line\n")
    assert made_by(library) != before


def test_a_changed_view_makes_the_same_kernels(library: Path) -> None:
    before = made_by(library)
    with (library / "workbench" / "ground" / "basics" / "table.py").open("a") as written:
        written.write("# another line\n")
    assert made_by(library) == before
