"""Checks a user's transform scripts: reports mistakes at the script's own lines, and rewords errors of MLIR's parser
for a reader of the script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch_mlir import ir

from simulator.did_you_mean import did_you_mean, sentences
from workbench.ground.errors import MlirSyntaxError, Problem, ScheduleScriptError
from workbench.ir import KernelModule
from workbench.mlir.bindings import integer
from workbench.mlir.context import line_of, operations, parse, run_passes
from workbench.mlir.named_dims import ID
from workbench.mlir.user_text import check_text, writable
from workbench.scheduling.passes.attach_script import AttachScript, script_module

_MAIN = "__transform_main"
_SEQUENCE = "transform.named_sequence"
_MATCH = "transform.structured.match"
_OF_NUMBERS = " : i64"
"""The type that MLIR prints after an op's number; a number of another type matches no op."""

_NO_OP = re.compile(r"custom op '([^']*)' is unknown|not found for custom op '([^']*)'")
"""MLIR's messages about an unknown op. Other messages about an op of custom syntax begin with the op's name, too."""
_HANDLE = re.compile(r"%[\w.$-]+")
_RESULTS = re.compile(r"^\s*(?:%[\w.$-]+(?::\d+)?\s*(?:,\s*)?)++(?:=|$)")
_ARGUMENT = re.compile(r"%[\w.$-]+(?=\s*:\s*!)")
"""Handles that a line defines as arguments of a sequence, which have a type; `_RESULTS` finds those before the `=`."""
_AT_AN_END = "expected operation name in quotes"
"""The parser's message at the end of a text with an unclosed brace."""
_HINTS = {
    "does not dominate this use": "a handle is used above the line that defines it",
    "to bind": "write as many handles before the = as types after the ->",
}
_LOOPS = re.compile(r"expects (\d+) loop results?|number of loops to tile \((\d+)\) to match")
_QUIET = re.compile(r'"(?:[^"\\]|\\.)*("|$)|//.*')
"""Text whose braces do not count: comments and strings, even if unclosed."""


def check_script(kernel: str, script: str) -> ir.Module:
    """The parsed script, in a module where each line is one lower.

    Raises unless the text is one or more named sequences, of which one is the entry that the interpreter calls.
    """
    try:
        module = parse(script_module(script), name="the schedule")
    except MlirSyntaxError as error:
        raise ScheduleScriptError(
            kernel, script, "does not parse", _plain_problems(script, in_script(error.problems))
        ) from None
    ops = [op.operation for op in module.body.operations]
    if any(op.name != _SEQUENCE for op in ops) or _MAIN not in [
        str(op.attributes["sym_name"]).strip('"') for op in ops
    ]:
        found = ", ".join(op.name for op in ops) or "nothing"
        expected = f"it holds {found}; expected `{_SEQUENCE} @{_MAIN}(%root: !transform.any_op ...) {{ ... }}`"
        raise ScheduleScriptError(kernel, script, "is no transform script", (Problem(expected, 1),))
    return module


def check_numbers(kernel: str, script: str, parsed: ir.Module, module: ir.Module) -> None:
    """Raises if a script matches an op by a number that no op has: it would silently match nothing."""
    ops = list(operations(parsed.operation))
    if any(op.name == "transform.annotate" and ir.StringAttr(op.attributes["name"]).value == ID for op in ops):
        return  # the script itself sets numbers
    known = sorted(integer(op, ID) for op in operations(module.operation) if ID in op.attributes)
    for op in ops:
        if op.name != _MATCH or "op_attrs" not in op.attributes:
            continue
        for wanted in ir.DictAttr(op.attributes["op_attrs"]):
            given = str(wanted.attr).removesuffix(_OF_NUMBERS)
            if wanted.name == ID and given not in map(str, known):
                told = f"no op has {ID} = {given}; there are {', '.join(map(str, known))}"
                problem = Problem(told, _line_in_script(op))
                raise ScheduleScriptError(kernel, script, "matches an op that is not there", (problem,))


def op_names(root: ir.Operation) -> set[str]:
    """The names of the ops that a script can match and change: without ops in the body of a structured op, which only
    move with that op."""
    if root.name.startswith("linalg."):
        return {root.name}
    inner = [
        op_names(item.operation) for region in root.regions for block in region.blocks for item in block.operations
    ]
    return {root.name}.union(*inner)


def in_bodies(root: ir.Operation) -> set[str]:
    """The names of the ops in the bodies of structured ops."""
    found = set[str]()
    for op in operations(root):
        if op.name.startswith("linalg."):
            found |= {inner.name for inner in operations(op)}
    return found


def check_matches(
    kernel: str, script: str, parsed: ir.Module, unchanged: str, there: set[str], bodies: set[str]
) -> None:
    """Raises if a script matches no op of the kernel; `unchanged` is the kernel's text.

    This is only for scripts that changed nothing: others may match ops that they made themselves.
    """
    for op in operations(parsed.operation):
        if op.name != _MATCH:
            continue
        names = ir.ArrayAttr(op.attributes["ops"]) if "ops" in op.attributes else ()
        wanted = [ir.StringAttr(name).value for name in names]
        if not wanted or set(wanted) & there:
            _check_finds(kernel, script, op, unchanged, there)
            continue
        inner = [name for name in wanted if name in bodies]
        what = "matches no op of the kernel, and changes nothing"
        if inner:
            what = "matches only ops in the bodies of other ops, and changes nothing"
            told = f"{' and '.join(inner)} is in the body of a structured op, and moves with it; match the whole op:"
        else:
            near = did_you_mean(wanted[0], sorted(there)) or ";"
            told = f"no op is {' or '.join(wanted)}{near}"
        problem = Problem(f"{told} there are {', '.join(sorted(there))}", _line_in_script(op))
        raise ScheduleScriptError(kernel, script, what, (problem,))


_FOUND = "npu.found"


def _check_finds(kernel: str, script: str, match: ir.Operation, unchanged: str, there: set[str]) -> None:
    """Raises if a match in the whole kernel finds nothing; MLIR itself runs the match."""
    if not isinstance(match.operands[0].owner, ir.Block):
        return  # matches in the result of another op, not in the whole kernel
    told = str(match.get_asm(print_generic_op_form=True))
    root, found = str(match.operands[0].type), str(match.results[0].type)
    asked = f"""\
transform.named_sequence @{_MAIN}(%root: {root} {{transform.readonly}}) {{
  %found = "{_MATCH}"(%root){told.partition(f'"{_MATCH}"(')[2].partition(")")[2]}
  transform.annotate %found "{_FOUND}" : {found}
  transform.yield
}}"""
    module = parse(unchanged, match.context)
    with module.context:
        AttachScript(asked).run(module)
    run_passes(module, "transform-interpreter")
    if any(_FOUND in op.attributes for op in operations(module.operation)):
        return
    problem = Problem(f"no op is matched; there are {', '.join(sorted(there))}", _line_in_script(match))
    raise ScheduleScriptError(kernel, script, "matches nothing in the kernel, and changes nothing", (problem,))


def _line_in_script(op: ir.Operation) -> int | None:
    """The line in the script of an op of `script_module`, where every line is one lower."""
    line = line_of(op.location)
    return None if line is None else line - 1


def check_scripted(given: Mapping[str, str], rendered: Sequence[KernelModule]) -> None:
    """Raises if a script is for an unknown kernel or for a template's kernel, or cannot be read."""
    handwritten = {module.kernel: module.handwritten for module in rendered}
    for name, script in given.items():
        try:
            check_text(script, name)
        except MlirSyntaxError as error:
            raise ScheduleScriptError(name, writable(script), "cannot be read", error.problems) from None
        if name not in handwritten:
            told = sentences(
                f"no kernel has that name{did_you_mean(name, handwritten)}", f"The kernels are {', '.join(handwritten)}"
            )
            kernels = (Problem(told),)
            raise ScheduleScriptError(name, script, "names no kernel", kernels)
        if handwritten[name]:
            told = Problem("A template writes its loops itself: change the template, or its mapping")
            raise ScheduleScriptError(name, script, "is for a template's kernel, which takes no script", (told,))


def in_script(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """The problems with lines of the script, instead of lines of the module around it."""
    return tuple(
        Problem(each.message, each.line - 1 if each.line is not None and each.line > 1 else None) for each in problems
    )


def without_lines(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """The problems without lines: these are lines of the script's result."""
    return tuple(Problem(each.message) for each in problems)


def _plain_problems(script: str, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """The parser's problems at the script's lines, reworded for the script; unknown messages stay MLIR's."""
    unclosed = _unclosed(script)
    told = [each for each in problems if not (unclosed and _AT_AN_END in each.message)]
    return (*unclosed, *(Problem(_plain(script, each), each.line) for each in told))


def _plain(script: str, problem: Problem) -> str:
    if name := _NO_OP.search(problem.message):
        return _no_op(name[1] or name[2])
    if "undeclared SSA value name" in problem.message and problem.line is not None:
        return _undeclared(script.split("\n"), problem)
    if loops := _LOOPS.search(problem.message):
        return f"{problem.message}: {_as_many(int(loops[1] or loops[2]))}"
    hints = [hint for part, hint in _HINTS.items() if part in problem.message]
    return ": ".join([problem.message, *hints])


def _no_op(op: str) -> str:
    return f"there is no op {op!r}{'' if op.endswith('.') else did_you_mean(op, _transform_ops())}"


def _as_many(loops: int) -> str:
    """Advice on writing the results of an op that makes `loops` loops."""
    if not loops:
        return "it makes no loop, so write %tiled = ..., with one type"
    return f"write %tiled, %loops:{loops} = ..., one of each loop it makes, with as many types"


def _undeclared(lines: list[str], problem: Problem) -> str:
    """The message that names the handle that no line above defines."""
    place = (problem.line or 1) - 1
    given = {name for each in lines[:place] for name in _given(each)}
    line = lines[place] if place < len(lines) else ""
    results = _RESULTS.match(line)
    missing = [name for name in _HANDLE.findall(line[results.end() :] if results else line) if name not in given]
    if not missing:
        return f"{problem.message}: a line above defines it inside {{ }}, where it ends"
    return f"no line above defines the handle {missing[0]}{did_you_mean(missing[0], sorted(given))}"


def _given(line: str) -> list[str]:
    results = _RESULTS.match(line)
    return [*(_HANDLE.findall(results.group()) if results else ()), *_ARGUMENT.findall(line)]


def _unclosed(script: str) -> tuple[Problem, ...]:
    """The problem of an unmatched brace, at its line: the parser notices it only at the end of the text."""
    opened = list[int]()
    for number, line in enumerate(script.split("\n"), 1):
        for brace in _QUIET.sub("", line):
            if brace == "{":
                opened.append(number)
            elif brace == "}" and opened:
                opened.pop()
            elif brace == "}":
                return (Problem("this } closes no {: a { above it is missing, or this } is one too many", number),)
    return (Problem("a } is missing: for this {, or for one below", opened[-1]),) if opened else ()


def _transform_ops() -> list[str]:
    """The names of all transform ops."""
    from torch_mlir.dialects import transform
    from torch_mlir.dialects.transform import bufferization, loop, memref, structured, tensor, vector

    files = (transform, structured, loop, bufferization, memref, tensor, vector)
    return sorted({each.OPERATION_NAME for file in files for each in vars(file).values() if _is_op(each)})


def _is_op(member: object) -> bool:
    return isinstance(member, type) and issubclass(member, ir.OpView) and hasattr(member, "OPERATION_NAME")
