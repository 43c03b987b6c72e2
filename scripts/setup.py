"""The two commands without make, on any system: `python scripts/setup.py lab` and `python scripts/setup.py test`.

Both make an environment and install the packages of pyproject.toml and constraints.txt in it, once for each state of
these two files. The Makefile calls this as well. It needs only the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEYED_ON = ("pyproject.toml", "constraints.txt")
FRONT = "binder/front.txt"
OLDEST = (3, 11)
SYSTEM = os.name
SAY_SECONDS = 20
"""Seconds between two lines of progress."""


def main(arguments: Sequence[str] | None = None) -> int:
    if sys.version_info < OLDEST:
        sys.exit("Python 3.11 or newer is needed: python3.12 scripts/setup.py ..., or make PYTHON=python3.12 ...")
    given = parsed(arguments)
    venv = (ROOT / given.venv).resolve()
    if given.what == "front":
        made(venv, (FRONT,), ["--requirement", str(ROOT / FRONT)])
        return 0
    install(venv)
    if given.what == "install":
        return 0
    *first, last = commands(given, venv)
    for command in first:
        run(command)
    if SYSTEM == "posix":  # so that ending this program also ends its command
        os.chdir(ROOT)
        os.execv(last[0], last)
    return subprocess.call(last, cwd=ROOT)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="setup.py", description=(__doc__ or "").partition("\n")[0])
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--venv", default=".venv", help="folder of the environment (.venv)")
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("install", parents=[shared], help="only make the environment")
    lab = what.add_parser("lab", parents=[shared], help="open the course in JupyterLab")
    lab.add_argument("--port", default="8888")
    lab.add_argument("--ip", default="localhost")
    front = what.add_parser("front", help="make an environment with the JupyterLab of mybinder, for the browser tests")
    front.add_argument("--venv", default=".venv-front", help="folder of the environment (.venv-front)")
    test = what.add_parser("test", parents=[shared], help="run the tests, then every notebook")
    test.add_argument("--workers", default="4", help="processes at most (4); no more than there are cores")
    return parser.parse_args(arguments)


def install(venv: Path) -> None:
    """Makes the environment unless it was made from the same two files."""
    made(venv, KEYED_ON, ["--constraint", str(ROOT / "constraints.txt"), "--editable", f"{ROOT}[lab,test]"])


def made(venv: Path, keyed_on: Sequence[str], packages: Sequence[str]) -> None:
    """Makes an environment with these packages unless it exists for the same state of the files."""
    stamp, wanted = venv / ".installed", key(keyed_on)
    if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted and program(venv, "python").exists()):
        if not program(venv, "python").exists():
            run([sys.executable, "-m", "venv", str(venv)])
        sys.stdout.write(f"installing into {venv}; the first time this takes some minutes\n")
        sys.stdout.flush()
        pip = [str(program(venv, "python")), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run_quiet([*pip, *packages], "installing")
    stamp.write_text(wanted, encoding="utf-8")  # also when nothing changed: make goes by its time


def key(files: Sequence[str]) -> str:
    """A digest of the files."""
    return hashlib.sha256(b"\0".join((ROOT / name).read_bytes() for name in files)).hexdigest()


def program(venv: Path, name: str) -> Path:
    """The path of an environment's program: Windows has a folder and an ending of its own for them."""
    return venv / "Scripts" / f"{name}.exe" if SYSTEM == "nt" else venv / "bin" / name


def commands(given: argparse.Namespace, venv: Path) -> list[list[str]]:
    """The commands to run in the environment, one after the other."""
    compiled = [str(program(venv, "workbench")), "compile"]  # the simulator, here and not in the middle of a cell
    if given.what == "lab":
        return [compiled, [str(program(venv, "workbench")), "lab", "--port", given.port, "--ip", given.ip]]
    pytest = [str(program(venv, "python")), "-m", "pytest", "-n", "logical", "--maxprocesses", given.workers]
    pytest += ["--disable-warnings"]  # so that failures come last
    notebooks = ["-p", "no:cacheprovider", "-x", "--nbval-lax", "--nbval-cell-timeout=500", "notebooks"]
    return [compiled, [*pytest, "--dist", "worksteal", "tests"], [*pytest, "--dist", "loadfile", *notebooks]]


def run(command: Sequence[str]) -> None:
    """Runs a command, and ends this program too if it fails: the command has printed the reason."""
    if status := subprocess.call(command, cwd=ROOT):
        sys.exit(status)


def run_quiet(command: Sequence[str], what: str) -> None:
    """The same for a command without output: it prints a line of progress now and then."""
    done, began = threading.Event(), time.monotonic()

    def say() -> None:
        while not done.wait(SAY_SECONDS):
            sys.stdout.write(f"  still {what}, {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()

    threading.Thread(target=say, daemon=True).start()
    try:
        run(command)
    finally:
        done.set()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
