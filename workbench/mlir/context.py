"""Makes MLIR contexts, parses and prints modules and runs passes, for all code of the workbench.

A context is cheap (about half a millisecond) and knows every upstream dialect. Ops of one context cannot enter a
module of another, so work on one kernel stays in one context; different kernels may have their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch_mlir import ir
from torch_mlir._mlir_libs._torchMlir import register_dialect  # without the 40 ms of classes for torch-mlir's ops
from torch_mlir.passmanager import PassManager

from workbench.ground.errors import MlirSyntaxError, PassError, Problem

_BUILT_HERE = (
    "func", "arith", "math", "linalg", "tensor", "memref", "scf", "affine", "cf", "bufferization",
)  # fmt: skip
"""Dialects whose ops Python makes. The parser and the passes load what they need; loading all 50 takes ten times as
long, and makes `canonicalize` collect all their patterns."""

_PLACE = re.compile(r'"(?:[^"\\]|\\.)*":(\d+):(\d+)')


def new_context(*, torch_dialect: bool = False, every_dialect: bool = False) -> ir.Context:
    """A context that knows all upstream dialects; with `torch_dialect` also torch-mlir's own dialects and passes.

    With `every_dialect` all are loaded: builders and passes of users may make ops of any dialect. The context is
    single-threaded: each of our modules is one function, for which threads cost more than they save, and printing
    between passes needs a single thread.
    """
    loaded = None if every_dialect else _BUILT_HERE
    context = ir.Context(load_on_create_dialects=loaded)  # pyright: ignore[reportCallIssue]
    context.enable_multithreading(False)
    if torch_dialect:
        register_dialect(context)
    return context


def parse(text: str, context: ir.Context | None = None, name: str = "module") -> ir.Module:
    """The verified module of an MLIR text; all mistakes in the text raise one `MlirSyntaxError` with their lines."""
    try:
        return ir.Module.parse(text, context or new_context())
    except ir.MLIRError as error:
        raise MlirSyntaxError(name, text, problems_of(error)) from None


def run_passes(module: ir.Module, pipeline: str, advice: str = "") -> None:
    """Runs a pass pipeline over the module in place. `pipeline` is the text inside `builtin.module(...)`.

    `advice` is added to MLIR's message about a pipeline that it cannot parse.
    """
    try:
        manager = PassManager.parse(f"builtin.module({pipeline})", module.context)
    except ValueError as error:
        raise PassError(pipeline, (Problem(f"{str(error).strip()}{advice}"),)) from None
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        raise PassError(pipeline, problems_of(error)) from None


def operations(root: ir.Operation) -> Iterator[ir.Operation]:
    """Every op under `root`, itself included, in the order of the text."""
    yield root
    for region in root.regions:
        for block in region.blocks:
            for item in list(block.operations):
                yield from operations(item.operation)


def problems_of(error: ir.MLIRError) -> tuple[Problem, ...]:
    """An MLIR error's diagnostics as records, each with its line in the parsed text if known."""
    return tuple(Problem(item.message, line_of(item.location)) for item in error.error_diagnostics)


def line_of(location: ir.Location) -> int | None:
    """The line, from 1, of the text from which an op was parsed; None if the location is no line of a text."""
    found = _PLACE.search(str(location))
    return int(found.group(1)) if found else None


def print_module(module: ir.Module, *, locations: bool = False) -> str:
    """The module's text; parsing and printing it again gives the same text."""
    return str(module.operation.get_asm(enable_debug_info=locations))
