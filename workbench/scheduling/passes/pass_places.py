"""Where the code of a pass stands: a line of ours, a line of the user's, or MLIR. Found without loading MLIR."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import Final

from workbench.environment.notebook_cells import cell_name
from workbench.environment.registered import PASSES

OURS: Final = "npu-"
"""How the names of the workbench's own passes begin."""

WRITTEN_IN: Final = MappingProxyType(
    {
        "npu-attach-schedule": ("scheduling/pass_pipeline.py", "_attach_schedule"),
        "npu-attach-script": ("scheduling/pass_pipeline.py", "_attach_script"),
        "npu-borders": ("scheduling/passes/borders.py", "settle_borders"),
        "npu-copy-left-over": ("scheduling/pass_pipeline.py", "_copy_left_over"),
        "npu-detach-schedule": ("scheduling/pass_pipeline.py", "_detach_schedule"),
        "npu-generalize": ("scheduling/pass_pipeline.py", "_generalize"),
        "npu-promote": ("scheduling/passes/promote.py", "promote"),
        "npu-recompute": ("scheduling/pass_pipeline.py", "_recompute"),
        "npu-split-gathers": ("scheduling/passes/split_gathers.py", "split_gathers"),
        "npu-tag": ("mlir/named_dims.py", "tag"),
        "npu-walk-windows": ("scheduling/passes/window_points.py", "walk_windows"),
    }
)
"""The workbench's own passes: a file of the workbench, and the function in it."""

_OPTIONS = re.compile(r"\{[^{}]*\}")


def passes_of(pipeline: str) -> tuple[str, ...]:
    """The names of a pipeline's passes, each once, in order, without options and the ops they are nested in."""
    while (bare := _OPTIONS.sub("", pipeline)) != pipeline:
        pipeline = bare
    words = re.findall(r"[\w.-]+\(?", pipeline)
    return tuple(dict.fromkeys(word for word in words if not word.endswith("(")))


def places(pipeline: str, *, users: bool = False) -> str:
    """`workbench/scheduling/passes/promote.py:34`, `MLIR: canonicalize, cse`: where the code of each pass stands.

    In a user's pipeline, what is not registered now may have been when it ran: a file does not say.
    """
    names = passes_of(pipeline)
    written = {name: _written(name) for name in names}
    others = ", ".join(name for name in names if not written[name])
    whose = "MLIR, or a pass of yours that is not registered now" if users else "MLIR"
    return ", ".join([*filter(None, written.values()), *([f"{whose}: {others}"] if others else [])])


def _written(name: str) -> str:
    """File and line of a pass in Python; empty for one of MLIR's."""
    if name in WRITTEN_IN:
        file, function = WRITTEN_IN[name]
        return f"workbench/{file}:{_line_of(Path(__file__).parents[2] / file, function)}"
    if name.startswith(OURS):
        return f"{name}, which this version of the workbench does not have"
    code = getattr(PASSES.get(name), "__code__", None)
    return f"{cell_name(code.co_filename)}:{code.co_firstlineno}" if code else ""


def _line_of(file: Path, function: str) -> int:
    lines = file.read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if line.startswith(f"def {function}("))
