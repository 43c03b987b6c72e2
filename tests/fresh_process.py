"""Python in a process of its own, in which nothing has been imported yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def python(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Runs Python with these arguments, and these variables beside the usual ones; returns its output.

    It has to succeed. Packages are those of the repository, unless `PYTHONPATH` says otherwise.
    """
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=variables, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
