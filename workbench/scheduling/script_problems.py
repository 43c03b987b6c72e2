"""Errors of MLIR's parser for a transform script, reworded for a reader of the script."""

from __future__ import annotations

import re

from torch_mlir import ir

from simulator.did_you_mean import did_you_mean
from workbench.ground.errors import Problem

_NO_OP = re.compile(r"custom op '([^']*)' is unknown|not found for custom op '([^']*)'")
"""Whatever else is wrong with an op of custom syntax begins with its name, too."""
_HANDLE = re.compile(r"%[\w.$-]+")
_RESULTS = re.compile(r"^\s*(?:%[\w.$-]+(?::\d+)?\s*(?:,\s*)?)++(?:=|$)")
_ARGUMENT = re.compile(r"%[\w.$-]+(?=\s*:\s*!)")
"""Handles that a line gives: those before its `=`, and arguments of a sequence, which have a type."""
_AT_AN_END = "expected operation name in quotes"
"""The parser's message at the end of a text with an unclosed brace."""
_HINTS = {
    "does not dominate this use": "a handle is used above the line that defines it",
    "to bind": "write as many handles before the = as types after the ->",
}
_LOOPS = re.compile(r"expects (\d+) loop results?|number of loops to tile \((\d+)\) to match")
_QUIET = re.compile(r'"(?:[^"\\]|\\.)*("|$)|//.*')
"""Text whose braces do not count: strings, also an unclosed one, and comments."""


def plain_problems(script: str, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """The same problems at the same lines, in words of the script; unknown messages stay MLIR's."""
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
    """The results of an op with so many loops, as the script writes them."""
    if not loops:
        return "it makes no loop, so write %tiled = ..., with one type"
    return f"write %tiled, %loops:{loops} = ..., one of each loop it makes, with as many types"


def _undeclared(lines: list[str], problem: Problem) -> str:
    """Which handle it is that no line above gives."""
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
    """Locates unmatched braces: the parser only notices them at the end, where nothing is wrong."""
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
    """The names of the ops that scripts are made of."""
    from torch_mlir.dialects import transform
    from torch_mlir.dialects.transform import bufferization, loop, memref, structured, tensor, vector

    files = (transform, structured, loop, bufferization, memref, tensor, vector)
    return sorted({each.OPERATION_NAME for file in files for each in vars(file).values() if _is_op(each)})


def _is_op(member: object) -> bool:
    return isinstance(member, type) and issubclass(member, ir.OpView) and hasattr(member, "OPERATION_NAME")
