"""The main path on a system without POSIX: no fcntl, resource, pwd, alarm, fork, /proc, mprotect, passed pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_main_path_needs_nothing_that_only_posix_systems_have(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tests.elsewhere.lacking; from tests.elsewhere import walk; walk.walk()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "ATEN_WORKBENCH_KERNEL_CACHE": str(tmp_path / "cache")},
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["walked"]), done.stderr
    assert not (tmp_path / "cache" / "native").exists(), "machine code is not kept where it cannot be linked"
    assert list((tmp_path / "cache" / "kernels").glob("*.entry"))
