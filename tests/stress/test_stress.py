"""The stress of twelve threads, in a process of its own: a minute of it, and five in `make sweeps`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.sweep
@pytest.mark.test_all
def test_twelve_threads_use_all_verbs_and_others_see_nothing_of_it(whole_sweep: bool) -> None:
    asked = ["--seconds", "300" if whole_sweep else "60", "--seed", "1"]
    done = subprocess.run([sys.executable, "-m", "tests.stress", *asked], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-20000:]}"
