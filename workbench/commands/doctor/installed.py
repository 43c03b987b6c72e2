"""The installation: Python, the packages and their versions, and other code that hides them."""

from __future__ import annotations

import importlib.util
import json
import platform
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlparse

from workbench.commands.doctor.diagnosis import Finding, ok, problem, warning
from workbench.ground.packages import OWN
from workbench.ground.version import VERSION

DISTRIBUTION = "aten-workbench"
PAIR = ("torch", "torch-mlir")
"""A wheel of torch-mlir is made for one release of PyTorch."""

_OLDEST = (3, 11)
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;.*extra == [\"'](\w+)[\"'])?")
_BOUND = re.compile(r"\s*(>=|<=|==|!=|<|>)\s*(\S+)\s*")


def python() -> Iterable[Finding]:
    """Python's version, and its 64 bits: the wheels exist only for 64 bits."""
    version, bits = platform.python_version(), 64 if sys.maxsize > 2**32 else 32
    what = f"{platform.python_implementation()} {version}, {bits} bits, {sys.executable}"
    if sys.version_info < _OLDEST:
        yield problem("Python", what, "Python 3.11 or newer is needed: make PYTHON=python3.12 lab")
    elif bits != 64:
        yield problem("Python", what, "PyTorch and torch-mlir are made for 64 bits only: install a 64-bit Python")
    else:
        yield ok("Python", what)


def home() -> Path:
    """The folder of the running workbench."""
    return Path(__file__).resolve().parents[3]


def copies() -> Iterable[Finding]:
    """Reports the installed workbenches, and if the running one is among them."""
    places = {place(found) for found in metadata.distributions(name=DISTRIBUTION)}
    here = home()
    others = sorted(str(each) for each in places if each != here)
    if not others and places:
        yield ok("workbench", f"{VERSION} in {here}")
    elif not places:
        yield warning(
            "workbench",
            f"{VERSION} runs from {here} without being installed, so the packages that it needs are not checked",
            "pip install --editable '.[lab]' in that folder",
        )
    else:
        yield warning(
            "workbench",
            f"the running one is in {here}, but {DISTRIBUTION} is also installed in {', '.join(others)}",
            f"keep one: pip uninstall {DISTRIBUTION}, and install the one you want; or check PYTHONPATH",
        )


def place(distribution: metadata.Distribution) -> Path:
    """The folder of a distribution's packages; for an editable one, of its sources."""
    direct = cast("dict[str, Any]", json.loads(distribution.read_text("direct_url.json") or "{}"))
    if direct.get("dir_info", {}).get("editable"):
        return Path(unquote(urlparse(str(direct["url"])).path)).resolve()
    return Path(str(distribution.locate_file(""))).resolve()


def requirements() -> Iterable[Finding]:
    """Reports every package that the workbench requires, and its version."""
    found = next(iter(metadata.distributions(name=DISTRIBUTION)), None)
    good: list[str] = []
    for line in (found.requires or []) if found else []:
        name, wanted, extra = parsed(line)
        if extra not in ("", "lab"):
            continue
        version = _version(name)
        if version and satisfies(version, wanted):
            good.append(f"{name} {version}")
        else:
            yield _misfit(name, wanted, version, extra)
    if good:
        yield ok("packages", ", ".join(good))


def parsed(requirement: str) -> tuple[str, str, str]:
    """Name, versions and extra of a line like `matplotlib>=3.9; extra == "lab"`."""
    match = _REQUIREMENT.fullmatch(requirement.strip())
    assert match, requirement
    return match[1], match[2].strip(), match[3] or ""


def satisfies(version: str, wanted: str) -> bool:
    """True if a release is within bounds like `>=2.13,<2.14`."""
    have = _release(version)
    for bound in filter(None, wanted.split(",")):
        match = _BOUND.fullmatch(bound)
        assert match, bound
        other = _release(match[2])
        width = max(len(have), len(other))
        mine, theirs = ((*each, *[0] * (width - len(each))) for each in (have, other))
        holds = {
            ">=": mine >= theirs, "<=": mine <= theirs, "==": mine == theirs,
            "!=": mine != theirs, "<": mine < theirs, ">": mine > theirs,
        }  # fmt: skip
        if not holds[match[1]]:
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without its build tag: `2.13.0+cpu` is 2.13.0."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _misfit(name: str, wanted: str, version: str | None, extra: str) -> Finding:
    what = f"{name} {version} is installed; expected {name}{wanted}" if version else f"{name} is not installed"
    if extra:
        return warning(name, f"{what}; notebooks and pictures need it", f"pip install '{DISTRIBUTION}[{extra}]'")
    if name not in PAIR:
        return problem(name, what, f"pip install '{name}{wanted}'")
    return problem(
        name,
        f"{what}. A wheel of torch-mlir is made for one release of PyTorch",
        f"install the two together, in the versions that the workbench requires: pip install --upgrade {DISTRIBUTION}",
    )


def shadows() -> Iterable[Finding]:
    """Reports other code with the name of one of our packages or libraries: beside the notebook, where Python looks
    first, or earlier on Python's path."""
    here, folder = home(), Path.cwd()
    beside = [
        each for name in (*OWN, "torch", "torch_mlir", "numba", "numpy", "pandas") for each in _named(folder, name)
    ]
    found = False
    if folder.resolve() != here:
        for path in beside:
            found = True
            name = path.stem
            yield problem(
                name,
                f"{path} hides the package {name} from Python programs and notebooks that start in this folder",
                "rename it, or start elsewhere",
            )
    for name in OWN:
        spec = importlib.util.find_spec(name)
        where = Path(spec.origin).resolve().parent.parent if spec and spec.origin else None
        if where != here:
            found = True
            yield problem(
                name,
                f"the package {name} is imported from {where or 'nowhere'}, but the workbench is in {here}",
                "another distribution or PYTHONPATH has a package of this name: uninstall it, or take it off the path",
            )
    if not found:
        yield ok("names", f"nothing hides {', '.join(OWN)}")


def _named(folder: Path, name: str) -> list[Path]:
    """The modules of this name in a folder. A folder without Python code hides nothing."""
    package, module = folder / name, folder / f"{name}.py"
    return [path for path in (package, module) if path.is_file() or (path / "__init__.py").is_file()]
