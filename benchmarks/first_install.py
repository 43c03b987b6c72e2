"""python benchmarks/first_install.py

Packages and megabytes that `make lab` and `make test` download on Linux, as pip and the indexes tell beforehand, with
PyTorch's build for the CPU and with PyPI's. Nothing is installed. The last line takes all extras and PyPI's build.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import planned_install  # noqa: E402
import setup  # noqa: E402
import torch_build  # noqa: E402

WAYS = (
    ("make lab", "", ("lab",)),
    ("make test", "", ("test",)),
    ("make lab TORCH=cuda", "cuda", ("lab",)),
    ("all extras, PyPI's PyTorch", "cuda", ("test", "check")),
)


def planned(venv: Path, wish: str, extras: tuple[str, ...]) -> str:
    """The plan that one way tells, and the seconds until it does."""
    began, python = time.monotonic(), setup.program(venv, "python")
    os.environ[torch_build.WISH_VARIABLE] = wish
    if wish:
        os.environ["PIP_FIND_LINKS"] = ""  # no build for the CPU beside PyPI's
    options = ["--constraint", str(ROOT / setup.CONSTRAINTS)]
    torch, *others = setup.requirements(extras)
    choice = torch_build.choose(venv, python, [*options, torch])
    archives = planned_install.planned(python, [*options, *choice.arguments, torch, *others])
    if archives is None:
        return "not measured: pip has no plan"
    sizes = planned_install.sizes(archives)
    on_disk = sum(archive.url.startswith("file:") for archive in archives)
    told = f"{planned_install.told(archives, sizes)}; {time.monotonic() - began:.0f} s"
    return f"{told}; {on_disk} archives lie on this disk and are not counted" if on_disk else told


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        planned_install.renewed_pip(setup.program(venv, "python"))
        for name, wish, extras in WAYS:
            sys.stdout.write(f"{name:28} {planned(venv, wish, extras)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
