# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""Transform scripts that a user wrote: what can be wrong with them, said in their own lines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import cast

from torch_mlir import ir

from simulator.did_you_mean import did_you_mean
from workbench.errors import BadOption, MlirSyntaxError, Problem, ScheduleScriptError
from workbench.ir import KernelModule
from workbench.mlir.bindings import integer
from workbench.mlir.context import operations, parse
from workbench.mlir.named_dims import ID
from workbench.scheduling.pass_pipeline import script_module
from workbench.scheduling.script_problems import plain_problems

_MAIN = "__transform_main"
_SEQUENCE = "transform.named_sequence"
_MATCHED_OPS = re.compile(r"\bops\s*\{\s*\[([^\]]*)\]")


def check_script(kernel: str, script: str) -> None:
    """Raises unless the text is one or more named sequences, one of them the entry that the interpreter calls."""
    try:
        module = parse(script_module(script), name="the schedule")
    except MlirSyntaxError as error:
        raise ScheduleScriptError(
            kernel, script, "does not parse", plain_problems(script, in_script(error.problems))
        ) from None
    ops = [op.operation for op in module.body.operations]
    if any(op.name != _SEQUENCE for op in ops) or _MAIN not in [
        str(op.attributes["sym_name"]).strip('"') for op in ops
    ]:
        found = ", ".join(op.name for op in ops) or "nothing"
        expected = f"it holds {found}; expected `{_SEQUENCE} @{_MAIN}(%root: !transform.any_op ...) {{ ... }}`"
        raise ScheduleScriptError(kernel, script, "is no transform script", (Problem(expected, 1),))


def check_numbers(kernel: str, script: str, module: ir.Module) -> None:
    """Raises where a script matches an op by a number that none has: it would match nothing, in silence."""
    known = sorted(integer(op, ID) for op in operations(module.operation) if ID in op.attributes)
    for number, line in enumerate(script.splitlines(), 1):
        for found in re.findall(rf"{re.escape(ID)}\s*=\s*(\d+)", line.partition("//")[0]):
            if int(found) not in known:
                told = Problem(f"no op has {ID} = {found}; there are {', '.join(map(str, known))}", number)
                raise ScheduleScriptError(kernel, script, "matches an op that is not there", (told,))


def op_names(root: ir.Operation) -> set[str]:
    """The ops that a script can match by their names and change: not those in the body of a structured op, which go
    with it."""
    if root.name.startswith("linalg."):
        return {root.name}
    inner = [
        op_names(item.operation) for region in root.regions for block in region.blocks for item in block.operations
    ]
    return {root.name}.union(*inner)


def check_matches(kernel: str, script: str, there: set[str]) -> None:
    """Raises where an op that a script matches by its name is none of those that are there.

    For scripts that changed nothing. One that makes ops and then changes them matches what was not there before.
    """
    for number, line in enumerate(script.splitlines(), 1):
        for listed in _MATCHED_OPS.findall(line.partition("//")[0]):
            wanted = re.findall(r'"([^"]*)"', listed)
            if wanted and not set(wanted) & set(there):
                near = did_you_mean(wanted[0], sorted(there)) or ";"
                told = f"no op is {' or '.join(wanted)}{near} there are {', '.join(sorted(there))}"
                raise ScheduleScriptError(
                    kernel, script, "matches an op that is not there, and changes nothing", (Problem(told, number),)
                )


def check_scripted(given: Mapping[str, str], rendered: Sequence[KernelModule]) -> None:
    """Raises when a script is for a kernel that is not there, or for one that a template wrote."""
    handwritten = {module.kernel: module.handwritten for module in rendered}
    for name, script in cast("Mapping[object, object]", given).items():
        if not isinstance(name, str) or not isinstance(script, str):
            told = f"schedule={{{name!r}: {script!r:.60}}}: expected {{kernel_name: text of a transform script}}"
            raise BadOption(told)
        if name not in handwritten:
            close = difflib.get_close_matches(name, list(handwritten), n=1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            kernels = (Problem(f"{hint}The kernels are {', '.join(handwritten)}"),)
            raise ScheduleScriptError(name, script, "is for a kernel that is not there", kernels)
        if handwritten[name]:
            told = Problem("A template writes its loops itself: change the template, or its mapping")
            raise ScheduleScriptError(name, script, "is for a template's kernel, which takes no script", (told,))


def in_script(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Problems with lines of the script instead of those of the module around it."""
    return tuple(
        Problem(each.message, each.line - 1 if each.line is not None and each.line > 1 else None) for each in problems
    )


def without_lines(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Problems about the result: their lines are not the script's."""
    return tuple(Problem(each.message) for each in problems)
