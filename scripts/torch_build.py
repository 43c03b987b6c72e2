"""Which build of PyTorch is installed on Linux: the one for the CPU, unless `TORCH=cuda` is said.

PyPI's build for Linux requires libraries for GPUs, of gigabytes, which the workbench never uses. Elsewhere PyPI's build
is the one for the CPU.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

from planned_install import certificates, needs_gpu_libraries, planned

INDEX = "https://download.pytorch.org/whl/cpu"
INDEX_VARIABLE = "ATEN_WORKBENCH_TORCH_INDEX"
WISH_VARIABLE = "TORCH"
ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Choice:
    """Arguments for pip, and what a person is told."""

    arguments: tuple[str, ...] = ()
    told: str = ""


def wish() -> str:
    """Returns cpu or cuda where the person has said it, else ''."""
    said = os.environ.get(WISH_VARIABLE, "")
    if said not in ("", "cpu", "cuda"):
        sys.exit(f"{WISH_VARIABLE}={said} is unknown: expected cpu or cuda")
    return said


def installed_build(venv: Path) -> str:
    """Returns cpu or cuda for the PyTorch of the environment, '' if it has none."""
    for folder in ("lib/python*/site-packages", "Lib/site-packages"):
        for metadata in venv.glob(f"{folder}/torch-*.dist-info/METADATA"):
            head = metadata.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
            requires = re.findall(r"^Requires-Dist: (.*)$", head, re.MULTILINE)
            return "cuda" if needs_gpu_libraries(requires) else "cpu"
    return ""


def choose(venv: Path, python: Path, packages: Sequence[str]) -> Choice:
    """Chooses where pip takes PyTorch from. `packages` are pip's arguments for PyTorch alone.

    pip's own settings come first: where they lead to a build for the CPU, or to a labelled one such as 2.13.0+cu130,
    that one is taken.
    """
    if not sys.platform.startswith("linux") or (not wish() and installed_build(venv)):
        return Choice()
    if wish() == "cuda":
        return Choice((), "PyTorch: the build with GPU libraries, as TORCH=cuda says")
    here = planned(python, ["--no-deps", *packages])
    if here is not None and (not here or "+" in here[0].version or not here[0].needs_gpu_libraries):
        return Choice((), f"PyTorch: {here[0].version}, as pip is set up to find it" if here else "")
    index = os.environ.get(INDEX_VARIABLE, INDEX).rstrip("/")
    problem = unanswered(f"{index}/torch/", ANSWER_SECONDS)
    if not problem:
        links = ("--find-links", f"{index}/torch/")  # one page of links: pip asks this index for no other package
        there = planned(python, ["--no-deps", "--timeout", str(int(ANSWER_SECONDS)), *links, *packages])
        if there and not there[0].needs_gpu_libraries:
            return Choice(links, f"PyTorch: {there[0].version} for the CPU, from {index}")
        problem = "has no build for the CPU that fits"
    return Choice(
        (),
        f"PyTorch: {index} {problem}, so PyPI's build is taken, with its GPU libraries, which are not used here. "
        f"Another index with PyTorch's builds for the CPU: {INDEX_VARIABLE}=ADDRESS",
    )


def unanswered(page: str, seconds: float) -> str:
    """Says why a page is not to be had, '' if its server answers. It takes no longer than `seconds`, names included."""
    problems: list[str] = []

    def ask() -> None:
        try:
            # Patient, so that a server that is silent is told by the wait below.
            with urllib.request.urlopen(page, timeout=2 * seconds, context=certificates()):
                problems.append("")
        except HTTPError as error:
            problems.append(f"answers with {error.code} {error.reason}")
        except (OSError, ValueError):
            problems.append("cannot be reached")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return problems[0] if problems else f"does not answer within {seconds:.0f} s"
