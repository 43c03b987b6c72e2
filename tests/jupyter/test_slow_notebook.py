"""A notebook has the same outputs on a slow machine: nothing tells in a cell how long something took."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

SLOW = """
import time
import workbench.environment.progress as progress
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


def test_a_slow_stage_in_a_cold_notebook_leaves_no_output(tmp_path: Path) -> None:
    """The simulator is compiled in the first run, and read in the second, which must have the outputs of the first."""
    cache = tmp_path / "cache"
    cells = [nbformat.v4.new_code_cell(f"# NBVAL_CHECK_OUTPUT{code}") for code in (SLOW, SIMULATED)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    env = {**os.environ, "ATEN_WORKBENCH_CACHE": str(cache)}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).resolve().parents[2]), env.get("PYTHONPATH", "")])
    NotebookClient(notebook, timeout=500, kernel_name="python3").execute(env=env)
    said = [[(output.output_type, output.get("name"), output.get("text")) for output in cell.outputs] for cell in cells]
    assert said == [[("stream", "stdout", "3\n")], [("stream", "stdout", "True\n")]]
    assert list(cache.glob("numba-*"))
    nbformat.write(notebook, tmp_path / "slow.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--nbval-lax", "slow.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout
