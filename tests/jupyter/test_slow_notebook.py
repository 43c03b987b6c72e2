"""A notebook has the same outputs on a slow machine: nothing tells in a cell how long something took."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.fresh_process import python

SLOW = """
import time
import workbench.ground.environment.progress as progress
with progress.waiting("schedule", delay=0.0) as shown:
    for _ in progress.counted(range(3)):
        time.sleep(0.2)
print(shown.done)
"""
"""As any stage looks that takes longer than the delay after which a terminal shows the line."""

SIMULATED = """
import torch, workbench as wb
print(wb.trace(torch.relu, torch.ones(8)).simulated.cycles > 0)
"""


def surroundings(**more: str) -> dict[str, str]:
    """The environment of a process that finds this tree first."""
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **more}


def ran(folder: Path, codes: Sequence[str], env: Mapping[str, str]) -> tuple[Any, list[list[tuple[str, ...]]]]:
    """A notebook of these cells after a run, and what each said."""
    cells = [nbformat.v4.new_code_cell(f"# NBVAL_CHECK_OUTPUT{code}") for code in codes]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=500, kernel_name="python3").execute(cwd=folder, env=env)
    said = [[(output.output_type, output.get("name"), output.get("text")) for output in cell.outputs] for cell in cells]
    return notebook, said


def test_a_slow_stage_leaves_no_output(tmp_path: Path) -> None:
    assert ran(tmp_path, [SLOW], surroundings())[1] == [[("stream", "stdout", "3\n")]]


@pytest.mark.test_all
def test_a_cold_notebook_has_the_outputs_of_a_warm_one(tmp_path: Path) -> None:
    """The simulator is compiled in the first run, and read in the second, which must have the outputs of the first."""
    cache = tmp_path / "cache"
    env = surroundings(ATEN_WORKBENCH_CACHE=str(cache))
    notebook, said = ran(tmp_path, [SLOW, SIMULATED], env)
    assert said == [[("stream", "stdout", "3\n")], [("stream", "stdout", "True\n")]]
    assert list(cache.glob("numba-*"))
    nbformat.write(notebook, tmp_path / "slow.ipynb")
    options = ("-p", "no:cacheprovider", "-p", "no:xdist", "--nbval-lax")
    assert "2 passed" in python("-m", "pytest", *options, "slow.ipynb", cwd=tmp_path, **env)
