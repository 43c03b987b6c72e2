"""Finds the code of passes without loading MLIR: a line of the workbench, a line of the user's code, or MLIR."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from workbench.ground.environment.owners import Owner
from workbench.ground.environment.registered import PASSES

OURS: Final = "npu-"
"""The beginning of the names of the workbench's own passes."""

_NAMED = re.compile(rf'(?:    name = |@module_pass\()"({OURS}[a-z-]+)"\)?')
_OPTIONS = re.compile(r"\{[^{}]*\}")


def passes_of(pipeline: str) -> tuple[str, ...]:
    """The names of a pipeline's passes, each once, in order, without options and without the ops around them."""
    while (bare := _OPTIONS.sub("", pipeline)) != pipeline:
        pipeline = bare
    words = re.findall(r"[\w.-]+\(?", pipeline)
    return tuple(dict.fromkeys(word for word in words if not word.endswith("(")))


def places(pipeline: str, *, users: bool = False) -> str:
    """The places of the passes' code, as `workbench/scheduling/passes/promote.py:34` or `MLIR: canonicalize, cse`.

    In a user's pipeline, an unknown pass may be one of the user's that is not registered now: a file does not say.
    """
    names = passes_of(pipeline)
    written = {name: _written(name) for name in names}
    others = ", ".join(name for name in names if not written[name])
    whose = "MLIR, or a pass of yours that is not registered now" if users else "MLIR"
    return ", ".join([*filter(None, written.values()), *([f"{whose}: {others}"] if others else [])])


def _written(name: str) -> str:
    """File and line of a pass in Python; empty for MLIR's passes."""
    if name.startswith(OURS):
        return _ours().get(name, f"{name}, which this version of the workbench does not have")
    made = PASSES.get(name)
    owner = Owner.of(made) if made else None
    return owner.place if owner else ""


@cache
def _ours() -> dict[str, str]:
    """The file and line at which the class or function of each of the workbench's passes begins."""
    found: dict[str, str] = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        begins = 0
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            begins = number if line.startswith("class ") else begins
            if match := _NAMED.fullmatch(line):
                begins = number + 1 if line.startswith("@") else begins
                found[match[1]] = f"workbench/scheduling/passes/{file.name}:{begins}"
    return found
