"""The two commands without make, on any system: `python scripts/setup.py lab` and `python scripts/setup.py test`.

`test-all` runs every test. All of them make an environment and install in it what they need of the extras in
pyproject.toml, once for each state of that file and of constraints.txt. They say beforehand how much is downloaded. On
Linux they take PyTorch's build for the CPU; `TORCH=cuda` takes the one with GPU libraries. The Makefile calls this as
well. It needs only the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

OLDEST = (3, 11)
if sys.version_info < OLDEST:  # before what an older one has not
    sys.exit("Python 3.11 or newer is needed: python3.12 scripts/setup.py ..., or make PYTHON=python3.12 ...")

import tomllib  # noqa: E402

import planned_install  # noqa: E402
import torch_build  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
KEYED_ON = ("pyproject.toml", "constraints.txt")
CONSTRAINTS = "constraints.txt"
FRONT = "binder/front.txt"
STAMP = ".installed"
SYSTEM = os.name
FIRST_NOTEBOOKS = ("notebooks/00_start_here.ipynb", "notebooks/01_add_an_op_foobar.ipynb")
SAY_SECONDS = 20
"""Seconds between two lines of progress."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = parsed(arguments)
    venv = (ROOT / given.venv).resolve()
    if venv.exists() and not venv.is_dir():
        sys.exit(f"{venv} is a file; name a folder for the environment with --venv, or VENV= of make")
    if given.what == "front":
        packages = ["--requirement", str(ROOT / FRONT)]
        made(venv, (FRONT,), (), lambda: run_quiet([*pip_install(venv), *packages], "installing"))
        return 0
    install(venv, given.extras if given.what == "install" else ("lab",) if given.what == "lab" else ("test",))
    if given.what == "install":
        return 0
    *first, last = commands(given, venv)
    for command in first:
        run(command, f"if packages are missing in {venv}, delete {venv / STAMP}, and all are installed again")
    if SYSTEM == "posix":  # so that ending this program also ends its command
        os.chdir(ROOT)
        os.execv(last[0], last)
    return subprocess.call(last, cwd=ROOT)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="setup.py", description=(__doc__ or "").partition("\n")[0])
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--venv", default=".venv", help="folder of the environment (.venv)")
    what = parser.add_subparsers(dest="what", required=True)
    only = what.add_parser("install", parents=[shared], help="only make the environment")
    only.add_argument("extras", nargs="*", default=["lab"], help="extras of pyproject.toml: lab, test, check (lab)")
    lab = what.add_parser("lab", parents=[shared], help="open the course in JupyterLab")
    lab.add_argument("--port", type=port, default=8888)
    lab.add_argument("--ip", default="localhost")
    front = what.add_parser("front", help="make an environment with the JupyterLab of mybinder, for the browser tests")
    front.add_argument("--venv", default=".venv-front", help="folder of the environment (.venv-front)")
    test = what.add_parser("test", parents=[shared], help="run the first tests, then two notebooks: about ten minutes")
    test_all = what.add_parser("test-all", parents=[shared], help="run all tests, then every notebook")
    test_all.add_argument("--rest", action="store_true", help="without what `test` runs")
    for command in (test, test_all):
        command.add_argument("--workers", type=workers, default=4, help="processes at most (4), and one a core")
    return parser.parse_args(arguments)


def port(given: str) -> int:
    """A port as it is given, as `workbench lab` takes it, which is not installed yet."""
    if not re.fullmatch("[0-9]{1,5}", given) or int(given) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{given!r} is no port; expected a whole number, 0 to 65,535")
    return int(given)


def workers(given: str) -> int:
    """A number of processes as it is given."""
    if not re.fullmatch("[0-9]{1,4}", given) or not int(given):
        raise argparse.ArgumentTypeError(f"{given!r} is no number of processes; expected 1 or more")
    return int(given)


def install(venv: Path, extras: Sequence[str]) -> None:
    """Makes the environment, and installs what it lacks of these extras of pyproject.toml."""
    wanted = included(extras)
    if wish := torch_build.wish():
        wanted |= {f"TORCH={wish}"}
    made(venv, KEYED_ON, wanted, lambda: install_packages(venv, extras))


def made(venv: Path, keyed_on: Sequence[str], wanted: Collection[str], install_all: Callable[[], None]) -> None:
    """Makes an environment and installs in it, unless its stamp says that what is wanted was installed for the same
    state of the files."""
    usable = program(venv, "python").exists() and program(venv, "pip").exists()
    has = recorded(venv, keyed_on) if usable else None
    if has is not None and has >= set(wanted):
        return
    if not usable:  # or one that was left in the middle
        say(f"{venv} is made, with Python {'.'.join(map(str, sys.version_info[:3]))}")
        run([sys.executable, "-m", "venv", str(venv)])
    install_all()
    kept = {each for each in has or () if not each.startswith("TORCH=")}
    new = venv / f"{STAMP}.new"
    new.write_text("\n".join([key(keyed_on), *sorted(kept | set(wanted))]), encoding="utf-8")
    new.replace(venv / STAMP)


def recorded(venv: Path, keyed_on: Sequence[str]) -> set[str] | None:
    """Returns what the stamp says is installed; None if there is none, or if it is of another state of the files."""
    stamp = venv / STAMP
    digest, *names = (stamp.read_text("utf-8", "replace").splitlines() if stamp.is_file() else []) or [""]
    return set(names) if digest == key(keyed_on) else None


def install_packages(venv: Path, extras: Sequence[str]) -> None:
    """Installs the packages of these extras and our own; says first which PyTorch, and how much is downloaded."""
    python, constraints = program(venv, "python"), ["--constraint", str(ROOT / CONSTRAINTS)]
    ours = ["--editable", f"{ROOT}[{','.join(sorted(extras))}]"]
    say("asking what there is to install")
    plans = planned_install.renewed_pip(python)
    if (wish := torch_build.wish()) and torch_build.installed_build(venv) not in ("", wish):
        run_quiet([str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "torch"], "removing PyTorch")
    torch, *others = requirements(extras)
    choice = torch_build.choose(venv, python, [*constraints, torch]) if plans else torch_build.Choice()
    say(choice.told)
    options = [*constraints, *choice.arguments]
    archives = planned_install.planned(python, [*options, torch, *others]) if plans else None
    if archives is None:
        say("how much there is to download is not known; some hundred megabytes, the first time")
        hint = "if pip found no version of anything: does a package index answer? PIP_INDEX_URL names another one"
        run_quiet([*pip_install(venv), *options, *ours], "installing", hint)
        return
    say(planned_install.told(archives, planned_install.sizes(archives)) if archives else "")
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "pins.txt"
        pins.write_text("".join(f"{each.name}=={each.version}\n" for each in archives), encoding="utf-8")
        # Exactly what was told: pip need not work it out again.
        run_quiet([*pip_install(venv), "--no-deps", *options, "--requirement", str(pins), *ours], "installing")


def requirements(extras: Sequence[str]) -> list[str]:
    """The requirements of our own package with these extras; PyTorch's is the first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    listed = [*project["dependencies"], *(each for name in sorted(included(extras)) for each in optional[name])]
    return [each for each in dict.fromkeys(listed) if not each.startswith(f"{project['name']}[")]


def included(extras: Sequence[str]) -> set[str]:
    """These extras and those that they include: `aten-workbench[lab]` in their list."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional, found, left = project["optional-dependencies"], set[str](), list(extras)
    while left:
        if (name := left.pop()) not in optional:
            sys.exit(f"there is no extra {name}; pyproject.toml has {', '.join(optional)}")
        found.add(name)
        inner = re.findall(rf"^{project['name']}\[([\w, ]+)\]", "\n".join(optional[name]), re.MULTILINE)
        left += [each.strip() for names in inner for each in names.split(",") if each.strip() not in found]
    return found


def pip_install(venv: Path) -> list[str]:
    return [str(program(venv, "python")), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]


def say(line: str) -> None:
    """Prints a line at once, if there is one."""
    if line:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


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
        return [compiled, [str(program(venv, "workbench")), "lab", "--port", str(given.port), "--ip", given.ip]]
    pytest = [str(program(venv, "python")), "-m", "pytest", "-n", "logical", "--maxprocesses", str(given.workers)]
    pytest += ["--disable-warnings"]  # so that failures come last
    run, notebooks = tests_of(given)
    course = ["-p", "nbval", "-p", "no:cacheprovider", "-x", "--nbval-lax", "--nbval-cell-timeout=500", *notebooks]
    return [compiled, [*pytest, "--dist", "worksteal", *run, "tests"], [*pytest, "--dist", "loadfile", *course]]


def tests_of(given: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Pytest's options for the asked run of the tests (tests/tiers.py), and the notebooks that are part of it."""
    if given.what == "test":
        return ["--run", "first"], list(FIRST_NOTEBOOKS)
    if not given.rest:
        return [], ["notebooks"]
    others = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("notebooks/*.ipynb"))
    return ["--run", "rest"], [name for name in others if name not in FIRST_NOTEBOOKS]


def run(command: Sequence[str], hint: str = "") -> None:
    """Runs a command, and ends this program too if it fails, with a hint below the reason that the command printed."""
    if status := subprocess.call(command, cwd=ROOT):
        say(hint)
        sys.exit(status)


def run_quiet(command: Sequence[str], what: str, hint: str = "") -> None:
    """The same for a command without output: it prints a line of progress now and then."""
    done, began = threading.Event(), time.monotonic()

    def say() -> None:
        while not done.wait(SAY_SECONDS):
            sys.stdout.write(f"  still {what}, {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()

    threading.Thread(target=say, daemon=True).start()
    try:
        run(command, hint)
    finally:
        done.set()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
